package qnn_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/qnn"
	"mm-abi.org/mm/runtimes/qnn/ask"
	"mm-abi.org/mm/runtimes/runtimetest"
	"mm-abi.org/mm/runtimes/worker"
)

// Missing, incomplete and invalid libraries are named.
func TestMissingLibraries(t *testing.T) {
	e := engine(t)
	link := func(without string, more map[string]string) string {
		dir := t.TempDir()
		files, err := filepath.Glob(filepath.Join(e.Library, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if name := filepath.Base(f); more[name] == "" && (without == "" || !strings.HasPrefix(name, without)) {
				if err := os.Symlink(f, filepath.Join(dir, name)); err != nil {
					t.Skipf("skipped: the libraries are not linked here: %v", err)
				}
			}
		}
		for name, text := range more {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	for name, c := range map[string]struct{ dir, want string }{
		"an empty folder": {t.TempDir(), "libQnnSystem.so is not in"},
		"no folder":       {filepath.Join(t.TempDir(), "none"), "libQnnSystem.so is not in"},
		"no libc++":       {link("libc++-", nil), "libc++-"},
		"no system":       {link("libQnnSystem", nil), "libQnnSystem.so is not in"},
		"a text":          {link("", map[string]string{"libQnnHtp.so": "no library"}), "libQnnHtp.so"},
	} {
		_, err := (&qnn.Engine{Library: c.dir}).Platform(t.Context())
		if !errors.Is(err, runtimes.ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	p, err := e.Platform(t.Context())
	if err != nil || !p.Simulated || p.SoC != 30 || p.Arch != 68 || p.Core[0] != 2 || !strings.HasPrefix(p.Build, "v2.") {
		t.Errorf("%+v, %v", p, err)
	}
}

// A context with a damaged blob, which no reader detects, may end the child or hang it, but not mm; the
// next request succeeds.
func TestDamaged(t *testing.T) {
	e := engine(t)
	c := compiled(t, e, mlp(2), 69)
	in := map[string]runtimes.Tensor{"x": wave(1, 2, 8)}
	good := bundle(abi.QNN, c.Context)
	want := run(t, e, good, in)
	data, err := os.ReadFile(c.Context)
	if err != nil {
		t.Fatal(err)
	}
	f, err := qnnfile.Open(c.Context)
	if err != nil {
		t.Fatal(err)
	}
	blob := int(f.Parts[0].Context.BlobOffset)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	fates := map[string]int{}
	path := filepath.Join(t.TempDir(), "bad.bin")
	for seed := range runtimetest.Hostile(t) {
		bad, rng := append([]byte(nil), data...), rand.New(rand.NewPCG(uint64(seed), 7))
		for range 8 {
			bad[blob+rng.IntN(len(bad)-blob)] ^= byte(1 + rng.IntN(255))
		}
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		fates[once(t, e, bundle(abi.QNN, path), in, want)]++
	}
	t.Logf("%v", fates)
	if got := run(t, e, good, in); !reflect.DeepEqual(got, want) {
		t.Error("a sound context gives other numbers afterwards")
	}
}

// once opens and runs a damaged context and returns the outcome.
func once(t *testing.T, e *qnn.Engine, b runtimes.Bundle, in, want map[string]runtimes.Tensor) string {
	const patience = time.Minute // for a busy machine
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	begin := time.Now()
	m, err := e.Open(ctx, b, runtimes.Limits{Time: 5 * time.Second})
	var out map[string]runtimes.Tensor
	if err == nil {
		out, err = m.(runtimes.Function).Run(ctx, in)
		err = errors.Join(err, m.Close())
	}
	if took := time.Since(begin); took > patience+10*time.Second {
		t.Errorf("it took %v", took)
	}
	switch {
	case err == nil && reflect.DeepEqual(out, want):
		return "the same numbers"
	case err == nil:
		return "other numbers"
	case errors.Is(err, worker.ErrDied):
		return "ended the child"
	case errors.Is(err, runtimes.ErrTime), errors.Is(err, context.DeadlineExceeded):
		return "over time"
	}
	return "refused"
}

// A file that changes between the check and the load is refused: the child verifies its digest.
func TestChanged(t *testing.T) {
	e := engine(t)
	c := compiled(t, e, mlp(2), 69)
	m, err := e.Open(t.Context(), bundle(abi.QNN, c.Context), runtimes.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	f, err := os.OpenFile(c.Context, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte{1, 2, 3}, c.Bytes-100)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	kill(t)
	// The next request starts another child, which reads the file again.
	if _, err := m.(runtimes.Function).Run(t.Context(), map[string]runtimes.Tensor{"x": wave(1, 2, 8)}); err == nil || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("a changed file: %v", err)
	}
}

// kill kills the children of this process and waits for their end.
func kill(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("skipped: children are found on Linux")
	}
	for _, pid := range runtimetest.Children(t) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	for range 200 {
		if len(runtimetest.Children(t)) == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A killed child ends its request with an error; the next request starts another child and returns the
// same numbers.
func TestKilled(t *testing.T) {
	e := engine(t)
	c := compiled(t, e, mlp(2), 69)
	m, err := e.Open(t.Context(), bundle(abi.QNN, c.Context), runtimes.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	in := map[string]runtimes.Tensor{"x": wave(1, 2, 8)}
	want, err := m.(runtimes.Function).Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	errs := make([]error, 8)
	begun, ended := make(chan struct{}, len(errs)), make(chan struct{}, len(errs))
	for i := range errs {
		wg.Go(func() {
			for {
				got, err := m.(runtimes.Function).Run(t.Context(), in)
				select {
				case begun <- struct{}{}:
				default:
				}
				if err == nil && !reflect.DeepEqual(got, want) {
					err = errors.New("other numbers")
				}
				if err != nil {
					errs[i] = err
					ended <- struct{}{}
					return
				}
				if t.Context().Err() != nil {
					return
				}
			}
		})
	}
	for range errs {
		<-begun
	}
	for _, pid := range runtimetest.Children(t) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	<-ended // a request that was under way; others continue with the next child
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	died := 0
	for _, err := range errs {
		switch {
		case errors.Is(err, worker.ErrDied):
			died++
		case !errors.Is(err, runtimes.ErrClosed):
			t.Errorf("%v", err)
		}
	}
	if died == 0 {
		t.Error("no request ended with the child")
	}
	t.Logf("%d of %d requests ended with the child", died, len(errs))
	if got := run(t, e, bundle(abi.QNN, c.Context), in); !reflect.DeepEqual(got, want) {
		t.Error("another child gives other numbers")
	}
}

// Results of emulation are marked, and their profile has an accelerator without HVX threads: no evidence
// of a device.
func TestEvidence(t *testing.T) {
	e := engine(t)
	c := compiled(t, e, mlp(2), 69)
	m, err := e.Open(t.Context(), bundle(abi.QNN, c.Context), runtimes.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.(runtimes.Function).Run(t.Context(), map[string]runtimes.Tensor{"x": wave(1, 2, 8)}); err != nil {
		t.Fatal(err)
	}
	facts := m.(runtimes.Documented).Facts()
	for key, want := range map[string]string{"simulated": "true", "sdk": c.Build, "digest": c.Digest, "chip": "SM8750 (69, v79)"} {
		if facts[key] != want {
			t.Errorf("%s is %q, not %q", key, facts[key], want)
		}
	}
	if name := runtimes.Shown(e); name != "qnn (emulated)" || !runtimes.Simulates(e) {
		t.Errorf("it is shown as %q", name)
	}
	got, err := m.(interface {
		Profile(context.Context) (ask.Events, error)
	}).Profile(t.Context())
	if err != nil || len(got.Events) == 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	threads := -1
	for _, event := range got.Events {
		if event.Type == ask.HVXThreads {
			threads = int(event.Value)
		}
	}
	if threads != 0 {
		t.Errorf("%d HVX threads of an emulation: %+v", threads, got.Events)
	}
	t.Logf("%+v", got.Events)
}

// Files of newer libraries are refused by older ones before loading; the reverse runs.
func TestNewer(t *testing.T) {
	e := older(t)
	first := compiled(t, e, mlp(2), 69)
	newer := compiled(t, engine(t), mlp(2), 69)
	_, err := e.Open(t.Context(), bundle(abi.QNN, newer.Context), runtimes.Limits{})
	if err == nil || !strings.Contains(err.Error(), newer.Build) || !strings.Contains(err.Error(), first.Build) || strings.Contains(err.Error(), "contextCreateFromBinary") {
		t.Errorf("a newer context: %v", err)
	}
	in := map[string]runtimes.Tensor{"x": wave(1, 2, 8)}
	if a, b := run(t, engine(t), bundle(abi.QNN, first.Context), in), run(t, engine(t), bundle(abi.QNN, newer.Context), in); !(cosine(a["y"], b["y"]) > 0.9999) {
		t.Error("an older context gives other numbers in newer libraries")
	}
}
