package registry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/fsx/fsxtest"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
)

// operation is one thing a user does, in a form that may be done again after a
// failure. done checks that it took effect.
type operation struct {
	name    string
	names   bool // it changes names: done with a journal too
	journal bool
	act     func(sc scene, s *Store) error
	done    func(sc scene, s *Store) error
}

func resolves(ref string) func(scene, *Store) error {
	return func(_ scene, s *Store) error { _, err := s.Resolve(ctx, ref); return err }
}

var partialDesc = ocispec.Descriptor{MediaType: "x/y", Digest: digest.FromBytes(sourceBytes), Size: int64(len(sourceBytes))}

// elsewhereStore holds a signed artifact to copy from.
var elsewhereStore = func() *memory.Store {
	m := memory.New()
	layer := []byte("far")
	a := artifact.Artifact{Name: "far", Layers: []artifact.Layer{{Path: "f", Descriptor: ocispec.Descriptor{
		MediaType: abi.MediaWeight, Digest: digest.FromBytes(layer), Size: int64(len(layer))}}}}
	err := m.Push(ctx, a.Layers[0].Descriptor, bytes.NewReader(layer))
	if err == nil {
		var desc ocispec.Descriptor
		if desc, err = artifact.Pack(ctx, m, a); err == nil {
			_, attachErr := attach(m, desc, "x/sig", "far")
			err = errors.Join(attachErr, m.Tag(ctx, desc, "far:1"))
		}
	}
	if err != nil {
		panic(err)
	}
	return m
}()

var operations = []operation{
	{"pack and tag", true, false, func(_ scene, s *Store) error {
		desc, err := sample(s, "new", 100)
		if err != nil {
			return err
		}
		return s.Tag(ctx, desc, "new:1")
	}, resolves("new:1")},

	{"tag", true, false, func(sc scene, s *Store) error {
		desc, err := s.Resolve(ctx, "old:0")
		if err != nil {
			return err
		}
		return s.Tag(ctx, desc, "new:1")
	}, resolves("new:1")},

	{"attach", true, false, func(sc scene, s *Store) error {
		desc, err := s.Resolve(ctx, "old:0")
		if err != nil {
			return err
		}
		_, err = attach(s, desc, "x/sbom", "new")
		return err
	}, func(sc scene, s *Store) error {
		desc := ocispec.Descriptor{Digest: sc.seals["old:0"]}
		if got, err := s.Referrers(ctx, desc, "x/sbom"); err != nil || len(got) != 1 {
			return fmt.Errorf("%d referrers: %w", len(got), errors.Join(err, fs.ErrNotExist))
		}
		return nil
	}},

	{"copy in", true, false, func(_ scene, s *Store) error {
		_, err := oras.ExtendedCopy(ctx, elsewhereStore, "far:1", s, "far:1", oras.DefaultExtendedCopyOptions)
		return err
	}, func(_ scene, s *Store) error {
		desc, err := s.Resolve(ctx, "far:1")
		if err != nil {
			return err
		}
		if got, err := s.Referrers(ctx, desc, "x/sig"); err != nil || len(got) != 1 {
			return fmt.Errorf("%d signatures: %w", len(got), errors.Join(err, fs.ErrNotExist))
		}
		return nil
	}},

	{"import", false, false, func(sc scene, s *Store) error {
		from, err := Open(sc.far(), Options{ReadOnly: true})
		if err != nil {
			return err
		}
		defer from.Close()
		desc, err := from.Resolve(ctx, "near:1")
		if err != nil {
			return err
		}
		if err := s.Import(ctx, from, desc); err != nil {
			return err
		}
		return s.Tag(ctx, desc, "near:1")
	}, func(_ scene, s *Store) error {
		desc, err := s.Resolve(ctx, "near:1")
		if err != nil {
			return err
		}
		if got, err := s.Referrers(ctx, desc, "x/sig"); err != nil || len(got) != 1 {
			return fmt.Errorf("%d signatures: %w", len(got), errors.Join(err, fs.ErrNotExist))
		}
		return nil
	}},

	{"add by link", false, false, func(sc scene, s *Store) error {
		_, err := s.AddFile(ctx, sc.source(), cas.AddOptions{Link: true})
		return err
	}, func(_ scene, s *Store) error { return s.Verify(ctx, partialDesc) }},

	{"add by copy", false, false, func(sc scene, s *Store) error {
		_, err := s.AddFile(ctx, sc.source(), cas.AddOptions{})
		return err
	}, func(_ scene, s *Store) error { return s.Verify(ctx, partialDesc) }},

	{"take in", false, false, func(_ scene, s *Store) error {
		for _, upto := range []int{40_000, 80_000, len(sourceBytes)} {
			p, err := s.Partial(ctx, partialDesc)
			if errors.Is(err, errdef.ErrAlreadyExists) {
				return nil
			}
			if err != nil {
				return err
			}
			if at := int(p.Offset()); at < upto {
				if _, err := p.Write(sourceBytes[at:upto]); err != nil {
					return errors.Join(err, p.Close())
				}
			}
			if upto < len(sourceBytes) {
				err = p.Close()
			} else {
				err = p.Commit()
			}
			if err != nil {
				return err
			}
		}
		return nil
	}, func(_ scene, s *Store) error { return s.Verify(ctx, partialDesc) }},

	{"remove", true, false, func(_ scene, s *Store) error {
		desc, err := s.Resolve(ctx, "old:1")
		if err != nil {
			return err
		}
		if err := s.Tag(ctx, desc, "brief:1"); err != nil {
			return err
		}
		return s.Remove(ctx, "brief:1")
	}, func(_ scene, s *Store) error { return nil }},

	{"name and compact", true, false, func(_ scene, s *Store) error {
		desc, err := s.Resolve(ctx, "old:0")
		if err != nil {
			return err
		}
		for _, ref := range []string{"n:1", "n:2", "n:3", "n:4"} {
			if err := s.Tag(ctx, desc, ref); err != nil {
				return err
			}
		}
		if err := s.Untag(ctx, "n:2"); err != nil {
			return err
		}
		if err := s.Compact(ctx); err != nil {
			return err
		}
		return s.Tag(ctx, desc, "n:5")
	}, func(_ scene, s *Store) error {
		if _, err := s.Resolve(ctx, "n:2"); !errors.Is(err, errdef.ErrNotFound) {
			return fmt.Errorf("n:2 is back: %v", err)
		}
		for _, ref := range []string{"n:1", "n:3", "n:4", "n:5"} {
			if _, err := s.Resolve(ctx, ref); err != nil {
				return err
			}
		}
		return nil
	}},

	{"gc", true, false, func(_ scene, s *Store) error {
		_, err := s.GC(ctx, GCOptions{Grace: -1})
		return err
	}, func(_ scene, s *Store) error {
		report, err := s.GC(ctx, GCOptions{Grace: -1, DryRun: true})
		if err == nil && len(report.Blobs) > 0 {
			err = fmt.Errorf("%d blobs not collected", len(report.Blobs))
		}
		return err
	}},

	{"link", false, false, func(sc scene, s *Store) error {
		desc, err := s.Resolve(ctx, "old:0")
		if err != nil {
			return err
		}
		return errors.Join(s.Link(ctx, "a/b", desc), s.Unlink(ctx, "a/c", desc.Digest))
	}, func(sc scene, s *Store) error {
		_, b, err := s.Linked(ctx, "a/b", sc.seals["old:0"])
		_, c, err2 := s.Linked(ctx, "a/c", sc.seals["old:0"])
		if b != Linked || c != Deleted {
			return fmt.Errorf("states %d, %d: %w", b, c, errors.Join(err, err2, fs.ErrNotExist))
		}
		return nil
	}},

	{"check out by link", false, false, checkoutOld(true), checkedOut},
	{"check out by copy", false, false, checkoutOld(false), checkedOut},
}

func checkoutOld(link bool) func(sc scene, s *Store) error {
	return func(sc scene, s *Store) error {
		desc, err := s.Resolve(ctx, "old:0")
		if err != nil {
			return err
		}
		a, err := artifact.Read(ctx, s, desc)
		if err != nil {
			return err
		}
		_, err = s.Checkout(ctx, a, sc.out(), CheckoutOptions{Link: link, Force: true})
		return err
	}
}

// checkedOut is fs.ErrNotExist if a file is missing; wrong bytes panic.
func checkedOut(sc scene, s *Store) error {
	desc, err := s.Resolve(ctx, "old:0")
	if err != nil {
		return err
	}
	a, err := artifact.Read(ctx, s, desc)
	if err != nil {
		return err
	}
	for _, l := range a.Layers {
		data, err := os.ReadFile(filepath.Join(sc.out(), l.Path))
		if err != nil {
			return err
		}
		if digest.FromBytes(data) != l.Descriptor.Digest {
			panic("a wrong file was visible: " + l.Path)
		}
	}
	return nil
}

// TestFaultSweep fails, and kills, every operation at every one of its calls.
// Afterwards the store is sound, all earlier names exist, and the operation
// succeeds.
func TestFaultSweep(t *testing.T) {
	kinds := []struct {
		name  string
		fault *fsxtest.Fault
	}{
		{"EIO", &fsxtest.Fault{Err: syscall.EIO}},
		{"ENOSPC", &fsxtest.Fault{Err: syscall.ENOSPC, Short: true}},
		{"kill", &fsxtest.Fault{Crash: true, Short: true}},
	}
	if testing.Short() {
		kinds = kinds[2:]
	}
	for _, op := range withJournal(operations) {
		for _, kind := range kinds {
			t.Run(op.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				points := fsxtest.Sweep(t, kind.fault, func(t *testing.T, f *fsxtest.Fault) {
					sweepOne(t, op, f)
				})
				t.Logf("%d points", points)
			})
		}
	}
}

// withJournal lists the operations, and those that change names once more on a
// store with a journal.
func withJournal(ops []operation) []operation {
	out := slices.Clone(ops)
	for _, op := range ops {
		if op.names {
			op.name, op.journal = op.name+" (journal)", true
			out = append(out, op)
		}
	}
	return out
}

func sweepOne(t *testing.T, op operation, f *fsxtest.Fault) {
	sc := newScene(t)
	sc.journal = op.journal
	faulty, err := sc.reopen(f.Hook)
	if err != nil {
		if _, fired := f.Fired(); !fired {
			t.Fatal(err)
		}
	} else {
		err = op.act(sc, faulty)
		faulty.Close()
	}
	if _, fired := f.Fired(); !fired && err != nil {
		t.Fatal(err)
	}
	if err != nil && !f.Crash && len(sc.visible()) > 0 {
		t.Errorf("failed checkout left %v", sc.visible())
	}
	after, openErr := sc.reopen(nil)
	if openErr != nil {
		t.Fatal(openErr)
	}
	defer after.Close()
	sc.intact(t, after)
	if err == nil {
		if err := op.done(sc, after); err != nil {
			t.Errorf("reported as done: %v", err)
		}
	}
	if err := op.act(sc, after); err != nil {
		t.Errorf("again: %v", err)
	}
	if err := op.done(sc, after); err != nil {
		t.Errorf("done again: %v", err)
	}
	if _, err := after.GC(ctx, GCOptions{Grace: -1}); err != nil {
		t.Error(err)
	}
	sc.intact(t, after)
	if report := sound(t, after); report.Temp != 0 {
		t.Errorf("%d leftovers outlive gc", report.Temp)
	}
}

// TestCreateFaults creates a store under every fault.
func TestCreateFaults(t *testing.T) {
	for _, kind := range []*fsxtest.Fault{{Err: syscall.EIO}, {Err: syscall.ENOSPC, Short: true}, {Crash: true, Short: true}} {
		points := fsxtest.Sweep(t, kind, func(t *testing.T, f *fsxtest.Fault) {
			dir := filepath.Join(scratch(t), "new", "store")
			if s, err := Open(dir, Options{Hook: f.Hook}); err == nil {
				s.Close()
			}
			s := open(t, dir, Options{})
			tagged(t, s, "a:1", 1)
			sound(t, s)
		})
		t.Logf("%d points", points)
	}
}

// long reports whether the sweeps run at full length, which takes minutes.
func long() bool { return os.Getenv("MM_FAULTS") == "long" }

// TestPowerCut cuts the power after each call of each operation and loses any
// part of the unsynced data: nothing, all, random subsets, and with
// MM_FAULTS=long each single change, all but each, and more subsets.
func TestPowerCut(t *testing.T) {
	random := 6
	if long() {
		random = 32
	} else if testing.Short() {
		random = 1
	}
	for _, op := range withJournal(operations) {
		t.Run(op.name, func(t *testing.T) {
			t.Parallel()
			sc := newScene(t)
			sc.journal = op.journal
			rec, err := fsxtest.Record(sc.top)
			if err != nil {
				t.Fatal(err)
			}
			s, err := sc.reopen(rec.Hook)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if err := op.act(sc, s); err != nil {
				t.Fatal(err)
			}
			n := 0
			for call := 0; call <= rec.Len(); call++ {
				if !rec.Adds(call) && call < rec.Len() && !long() {
					continue
				}
				for _, lose := range rec.Losses(call, long(), random, 7) {
					after := scene{top: scratch(t), seals: sc.seals, journal: sc.journal}
					if err := rec.Replay(after.top, call, lose); err != nil {
						t.Fatal(err)
					}
					n++
					powerOn(t, op, after, call == rec.Len())
					os.RemoveAll(after.top)
					if t.Failed() {
						t.Fatalf("cut after call %d", call)
					}
				}
			}
			t.Logf("%d calls, %d states", rec.Len(), n)
		})
	}
}

// powerOn opens the store after a cut. Operations reported as done must be
// durable; unfinished ones can be repeated.
func powerOn(t *testing.T, op operation, sc scene, finished bool) {
	t.Helper()
	s, err := sc.reopen(nil)
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Close()
	sc.intact(t, s)
	if finished {
		if err := op.done(sc, s); err != nil && !strings.HasPrefix(op.name, "gc") {
			t.Errorf("lost after it was done: %v", err)
		}
		return
	}
	for _, p := range sc.visible() {
		if fi, err := os.Stat(p); err == nil && fi.Size() == 0 {
			t.Errorf("empty file %s visible", p)
		}
	}
	if err := op.act(sc, s); err != nil {
		t.Errorf("again: %v", err)
	}
	if err := op.done(sc, s); err != nil {
		t.Errorf("done again: %v", err)
	}
}

// TestRealENOSPC fills a 1 MiB tmpfs: the store stays sound and accepts small
// blobs again once there is room.
func TestRealENOSPC(t *testing.T) {
	dir := t.TempDir()
	if err := mountTmpfs(dir, 1<<20); err != nil {
		t.Skipf("skipped: no tmpfs: %v", err)
	}
	t.Cleanup(func() { unmount(dir) })
	s := open(t, filepath.Join(dir, "store"), Options{})
	seal := tagged(t, s, "old:1", 1)
	failed := 0
	for i := range 40 {
		data := noise(uint64(200+i), 100_000)
		_, err := s.AddBytes(ctx, "x/y", data)
		if err == nil {
			continue
		}
		failed++
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("error hides ENOSPC: %v", err)
		}
		if _, err := sample(s, "full", uint64(300+i)); err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Error(err)
		}
		p, err := s.Partial(ctx, ocispec.Descriptor{MediaType: "x/y", Digest: digest.FromBytes(data), Size: int64(len(data))})
		if err == nil {
			io.Copy(p, bytes.NewReader(data))
			p.Close()
		}
		tmp := filepath.Join(dir, "out")
		if a, err := artifact.Read(ctx, s, seal); err == nil {
			if _, err := s.Checkout(ctx, a, tmp, CheckoutOptions{}); err != nil && !errors.Is(err, syscall.ENOSPC) {
				t.Error(err)
			}
			os.RemoveAll(tmp)
		}
	}
	if failed == 0 {
		t.Fatal("the disk did not fill")
	}
	if _, err := s.Resolve(ctx, "old:1"); err != nil {
		t.Error(err)
	}
	sound(t, s)
	if _, err := s.GC(ctx, GCOptions{Grace: -1}); err != nil {
		t.Fatal(err)
	}
	tagged(t, s, "new:1", 5)
	sound(t, s)
	t.Logf("%d writes met a full disk", failed)
}

// TestReadOnlyNeverWrites opens a store on which every write would fail.
func TestReadOnlyNeverWrites(t *testing.T) {
	sc := newScene(t)
	f := &fsxtest.Fault{}
	s := open(t, sc.store(), Options{ReadOnly: true, Hook: f.Hook})
	sc.intact(t, s)
	if _, err := s.Exists(ctx, ocispec.Descriptor{Digest: sc.seals["old:0"], Size: 1}); err != nil {
		t.Error(err)
	}
	if f.Calls() != 0 {
		t.Errorf("%d writes", f.Calls())
	}
	for name, err := range map[string]error{
		"tag":    s.Tag(ctx, ocispec.Descriptor{}, "a"),
		"untag":  s.Untag(ctx, "old:0"),
		"remove": s.Remove(ctx, "old:0"),
		"push":   s.Push(ctx, partialDesc, bytes.NewReader(sourceBytes)),
	} {
		if !errors.Is(err, cas.ErrReadOnly) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.GC(ctx, GCOptions{Grace: time.Hour}); !errors.Is(err, cas.ErrReadOnly) {
		t.Errorf("gc: %v", err)
	}
	if _, err := s.Partial(ctx, partialDesc); !errors.Is(err, cas.ErrReadOnly) {
		t.Errorf("partial: %v", err)
	}
}
