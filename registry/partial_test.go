package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
)

func described(data []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: "x/y", Digest: digest.FromBytes(data), Size: int64(len(data))}
}

func TestPartial(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	data := noise(1, 10_000)
	desc := described(data)
	for at := 0; at < len(data); at += 2500 {
		p, err := s.Partial(ctx, desc)
		if err != nil {
			t.Fatal(err)
		}
		if p.Offset() != int64(at) {
			t.Fatalf("offset: got %d, want %d", p.Offset(), at)
		}
		if _, err := p.Write(data[at : at+2500]); err != nil {
			t.Fatal(err)
		}
		if at+2500 < len(data) {
			err = p.Close()
		} else {
			err = p.Commit()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Verify(ctx, desc); err != nil {
		t.Error(err)
	}
	if _, err := s.Partial(ctx, desc); !errors.Is(err, errdef.ErrAlreadyExists) {
		t.Errorf("once complete: %v", err)
	}
	if report := sound(t, s); report.Temp != 0 {
		t.Errorf("left behind: %+v", report)
	}
	if list, _ := os.ReadDir(filepath.Join(s.Dir(), cas.PartialDir)); len(list) != 0 {
		t.Errorf("left behind: %v", list)
	}
}

// TestPartialRefuses: too much, too little, and the wrong bytes.
func TestPartialRefuses(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	data := noise(1, 1000)
	p, err := s.Partial(ctx, described(data))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Write(append(data, 0)); !errors.Is(err, artifact.ErrCorrupt) {
		t.Errorf("too much: %v", err)
	}
	p.Write(data[:999])
	if err := p.Commit(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("too little: %v", err)
	}
	if p, err = s.Partial(ctx, described(data)); err != nil || p.Offset() != 999 {
		t.Fatalf("earlier bytes are lost: %d, %v", p.Offset(), err)
	}
	p.Write([]byte{data[999] ^ 1})
	if err := p.Commit(); !errors.Is(err, artifact.ErrCorrupt) {
		t.Errorf("wrong bytes: %v", err)
	}
	if p, err = s.Partial(ctx, described(data)); err != nil || p.Offset() != 0 {
		t.Fatalf("wrong bytes kept: %d, %v", p.Offset(), err)
	}
	p.Write(data[:500])
	if err := p.Reset(); err != nil || p.Offset() != 0 {
		t.Errorf("reset: %d, %v", p.Offset(), err)
	}
	p.Write(data)
	if err := p.Commit(); err != nil {
		t.Error(err)
	}
	manifest := described(data)
	manifest.MediaType = ocispec.MediaTypeImageManifest
	if _, err := s.Partial(ctx, manifest); !errors.Is(err, errdef.ErrUnsupported) {
		t.Errorf("manifest: %v", err)
	}
}

// TestPartialDamaged changes the saved files at random: the end is always the
// right blob, at worst after starting over.
func TestPartialDamaged(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	data := noise(1, 5000)
	desc := described(data)
	resumed, restarted := 0, 0
	for range 200 {
		s := open(t, scratch(t), Options{})
		p, err := s.Partial(ctx, desc)
		if err != nil {
			t.Fatal(err)
		}
		p.Write(data[:3000])
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(s.Dir(), cas.PartialDir, strings.Replace(string(desc.Digest), ":", "-", 1))
		if rng.IntN(2) == 0 {
			name += ".state"
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		switch rng.IntN(3) {
		case 0:
			raw[rng.IntN(len(raw))] ^= 1 << rng.IntN(8)
		case 1:
			raw = raw[:rng.IntN(len(raw))]
		case 2:
			raw = append(raw, noise(rng.Uint64N(99), rng.IntN(5000))...)
		}
		os.WriteFile(name, raw, 0o644)
		for try := 0; ; try++ {
			if p, err = s.Partial(ctx, desc); err != nil {
				t.Fatal(err)
			}
			if try == 0 && p.Offset() > 0 {
				resumed++
			}
			p.Write(data[p.Offset():])
			if err = p.Commit(); err == nil {
				break
			}
			restarted++
			if !errors.Is(err, artifact.ErrCorrupt) || try > 0 {
				t.Fatalf("try %d: %v", try, err)
			}
		}
		if err := s.Verify(ctx, desc); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("200 damaged: %d resumed, %d found wrong at the end and restarted", resumed, restarted)
}

// TestPartialOneAtATime: a second taker waits, and then finds the blob there.
func TestPartialOneAtATime(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	data := noise(1, 1000)
	p, err := s.Partial(ctx, described(data))
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := s.Partial(short, described(data)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("second taker: %v", err)
	}
	second := make(chan error)
	go func() { _, err := s.Partial(ctx, described(data)); second <- err }()
	p.Write(data)
	if err := p.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-second; !errors.Is(err, errdef.ErrAlreadyExists) {
		t.Errorf("second taker after commit: %v", err)
	}
}

const killSize = 300 << 20

// playPartial receives killSize bytes from its offset, slowly enough to be
// killed, and prints each start offset.
func playPartial(s *Store) error {
	data := noise(77, 1<<20)
	p, err := s.Partial(ctx, killDesc(data))
	if err != nil {
		return err
	}
	fmt.Printf("from %d\n", p.Offset())
	for p.Offset() < killSize {
		if _, err := p.Write(data[p.Offset()%(1<<20):]); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return p.Commit()
}

func killDesc(mib []byte) ocispec.Descriptor {
	h := digest.SHA256.Hash()
	for range killSize >> 20 {
		h.Write(mib)
	}
	return ocispec.Descriptor{MediaType: "x/y", Digest: digest.NewDigest(digest.SHA256, h), Size: killSize}
}

// TestPartialKilled kills a process that receives 300 MiB, five times; each
// next one resumes.
func TestPartialKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: writes 300 MiB")
	}
	s := open(t, t.TempDir(), Options{})
	desc := killDesc(noise(77, 1<<20))
	file := filepath.Join(s.Dir(), cas.PartialDir, strings.Replace(string(desc.Digest), ":", "-", 1))
	reached, wasted := int64(0), int64(0)
	for kill := range 6 {
		cmd, wait := spawn(t, "partial", s.Dir(), 0)
		goal := int64(kill+1) * killSize / 6
		for deadline := time.Now().Add(2 * time.Minute); kill < 5; time.Sleep(time.Millisecond) {
			fi, err := os.Stat(file)
			if err == nil && fi.Size() >= goal {
				reached = fi.Size()
				break
			}
			if done, err := s.Exists(ctx, desc); done && err == nil {
				break // it was faster than the observer
			}
			if time.Now().After(deadline) {
				t.Fatal("too slow")
			}
		}
		if kill < 5 {
			cmd.Process.Kill()
		}
		var from int64
		told, _ := fmt.Sscanf(strings.TrimSpace(wait()), "from %d", &from)
		if kill > 0 && told == 1 { // or it was killed before it printed anything
			lost := max(0, last(reached, goal, kill)-from)
			wasted += lost
			if lost > 0 {
				t.Errorf("kill %d: resumed at %d, lost %d", kill, from, lost)
			}
		}
		if cmd.ProcessState.Success() {
			break
		}
	}
	if err := s.Verify(ctx, desc); err != nil {
		t.Fatal(err)
	}
	t.Logf("5 kills, at most %d MiB written twice", wasted>>20)
}

// last is where the process killed before this one had come at least.
func last(reached, goal int64, kill int) int64 {
	if kill == 5 {
		return reached
	}
	return goal - killSize/6
}

func TestUpload(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	data := noise(1, 5000)
	for _, alg := range []digest.Algorithm{digest.SHA256, digest.SHA512} {
		id, err := s.NewUpload(ctx, "a/b")
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < 5000; at += 1000 {
			u, err := s.OpenUpload(ctx, "a/b", id)
			if err != nil || u.Offset() != int64(at) {
				t.Fatalf("offset %d, %v", u.Offset(), err)
			}
			u.Write(data[at : at+1000])
			if err := u.Close(); err != nil {
				t.Fatal(err)
			}
			if off, err := s.UploadOffset(ctx, "a/b", id); err != nil || off != int64(at+1000) {
				t.Errorf("status %d, %v", off, err)
			}
		}
		if _, err := s.OpenUpload(ctx, "a/c", id); !errors.Is(err, errdef.ErrNotFound) {
			t.Errorf("another owner's: %v", err)
		}
		u, err := s.OpenUpload(ctx, "a/b", id)
		if err != nil {
			t.Fatal(err)
		}
		desc := ocispec.Descriptor{MediaType: "x/y", Digest: alg.FromBytes(data), Size: 5000}
		if err := u.Commit(ctx, desc); err != nil {
			t.Fatal(err)
		}
		if err := s.Verify(ctx, desc); err != nil {
			t.Error(err)
		}
		if _, err := s.OpenUpload(ctx, "a/b", id); !errors.Is(err, errdef.ErrNotFound) {
			t.Errorf("after commit: %v", err)
		}
	}
	id, err := s.NewUpload(ctx, "a/b")
	if err != nil {
		t.Fatal(err)
	}
	u, err := s.OpenUpload(ctx, "a/b", id)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(u, bytes.NewReader(data))
	if err := u.Commit(ctx, described([]byte("other"))); !errors.Is(err, artifact.ErrCorrupt) {
		t.Errorf("wrong bytes: %v", err)
	}
	if report := sound(t, s); report.Temp != 0 {
		t.Errorf("left behind: %+v", report)
	}
}
