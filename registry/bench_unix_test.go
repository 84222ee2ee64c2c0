//go:build unix

package registry

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
)

// cpu is the processor time that this process has used.
func cpu(tb testing.TB) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// peakMiB is the most memory that this process has held.
func peakMiB(tb testing.TB) float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		tb.Fatal(err)
	}
	unit := 1024.0
	if runtime.GOOS == "darwin" {
		unit = 1
	}
	return float64(r.Maxrss) * unit / (1 << 20)
}

// BenchmarkStore measures the store's overhead over hashing: processor time of
// each operation relative to reading and hashing the same file once, in one
// run. MM_BENCH_MIB sets the file's size, 1024 by default.
func BenchmarkStore(b *testing.B) {
	mib := 1024
	if text := os.Getenv("MM_BENCH_MIB"); text != "" {
		mib, _ = strconv.Atoi(text)
	}
	benchStore(b, mib)
}

func benchStore(b *testing.B, mib int) {
	dir := b.TempDir()
	path := filepath.Join(dir, "file")
	writeNoise(b, path, mib)
	spent := map[string]time.Duration{}
	measure := func(name string, f func() error) {
		b.Helper()
		start := cpu(b)
		if err := f(); err != nil {
			b.Fatal(name, err)
		}
		spent[name] += cpu(b) - start
	}
	rounds := 0
	for b.Loop() {
		rounds++
		benchRound(b, dir, path, measure)
	}
	once := spent["hash"]
	b.ReportMetric(once.Seconds()/float64(rounds), "hash-cpu-s")
	for _, name := range []string{"link", "link-again", "copy", "copy-again", "partial", "verify", "checkout", "checkout-cached"} {
		b.ReportMetric(float64(spent[name])/float64(once), name+"/hash")
	}
	b.ReportMetric(peakMiB(b), "peak-MiB")
	b.ReportMetric(0, "ns/op")
}

func benchRound(b *testing.B, dir, path string, measure func(string, func() error)) {
	measure("hash", func() error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.CopyBuffer(struct{ io.Writer }{sha256.New()}, struct{ io.Reader }{f}, make([]byte, 512<<10))
		return err
	})
	var s *Store
	fresh := func() {
		if s != nil {
			s.Close()
			os.RemoveAll(s.Dir())
		}
		s = open(b, filepath.Join(dir, "store"), Options{})
	}
	add := func(link bool) func() error {
		return func() error { _, err := s.AddFile(ctx, path, cas.AddOptions{Link: link}); return err }
	}
	fresh()
	measure("copy", add(false))
	measure("copy-again", add(false))
	fresh()
	measure("link", add(true))
	measure("link-again", add(true))
	desc, err := s.AddFile(ctx, path, cas.AddOptions{})
	if err != nil {
		b.Fatal(err)
	}
	measure("verify", func() error { return s.Verify(ctx, desc) })
	a := &artifact.Artifact{Name: "a", Layers: []artifact.Layer{{Path: "f", Descriptor: desc}}}
	measure("checkout", func() error {
		_, err := s.Checkout(ctx, a, filepath.Join(dir, "out"), CheckoutOptions{Link: true})
		return err
	})
	os.RemoveAll(filepath.Join(dir, "out"))
	s.VerifyCached(ctx, desc)
	measure("checkout-cached", func() error {
		_, err := s.Checkout(ctx, a, filepath.Join(dir, "out"), CheckoutOptions{Link: true, Cached: true})
		return err
	})
	os.RemoveAll(filepath.Join(dir, "out"))
	fresh()
	measure("partial", func() error {
		p, err := s.Partial(ctx, desc)
		if errors.Is(err, errdef.ErrAlreadyExists) {
			return errors.New("it is there already")
		}
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := io.CopyBuffer(struct{ io.Writer }{p}, struct{ io.Reader }{f}, make([]byte, 512<<10)); err != nil {
			return err
		}
		return p.Commit()
	})
	fresh()
	os.Chmod(path, 0o644)
}

func writeNoise(b *testing.B, path string, mib int) {
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	chunk := noise(1, 1<<20)
	for i := range mib {
		copy(chunk, bytes.Repeat([]byte{byte(i)}, 16))
		if _, err := f.Write(chunk); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
}

// TestCosts checks the store's costs on a file that is small enough for every
// run: adding by link costs about one hash, adding again almost nothing, and
// memory does not grow with the file. Peak memory is per process, so the test
// runs in a fresh one.
func TestCosts(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: writes a few times 128 MiB")
	}
	const alone = "MM_TEST_ALONE"
	if os.Getenv(alone) == "" {
		self := exec.Command(os.Args[0], "-test.run=^TestCosts$", "-test.v")
		self.Env = append(os.Environ(), alone+"=1")
		out, err := self.CombinedOutput()
		if err != nil {
			t.Errorf("%v:\n%s", err, out)
		}
		t.Logf("%s", out)
		return
	}
	b := testing.Benchmark(func(b *testing.B) { benchStore(b, 128) })
	for name, limit := range map[string]float64{"link/hash": 1.5, "link-again/hash": 0.1, "copy-again/hash": 0.1, "checkout-cached/hash": 0.1} {
		if got := b.Extra[name]; got > limit {
			t.Errorf("%s is %.2f, promised %.2f", name, got, limit)
		}
	}
	if peak := b.Extra["peak-MiB"]; peak > 64 && !raceEnabled {
		t.Errorf("peak memory %.0f MiB, promised 64", peak)
	}
	t.Logf("%v", b.Extra)
}
