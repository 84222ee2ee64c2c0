package registry

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/artifact"
)

// scene is a folder with a store and a source file, before an operation.
type scene struct {
	top     string
	journal bool                     // the store is opened with a journal
	seals   map[string]digest.Digest // tags that must outlive whatever happens
}

func (sc scene) store() string  { return filepath.Join(sc.top, "store") }
func (sc scene) far() string    { return filepath.Join(sc.top, "far") }
func (sc scene) source() string { return filepath.Join(sc.top, "source.bin") }
func (sc scene) out() string    { return filepath.Join(sc.top, "out") }

// sourceBytes needs a few writes to store.
var sourceBytes = noise(9, 100_000)

// reopen opens the scene's store with a digest cache that remembers the source.
func (sc scene) reopen(hook fsx.Hook) (*Store, error) {
	s, err := Open(sc.store(), Options{Hook: hook, Journal: sc.journal})
	if err == nil {
		s.CacheMin = 1000
		s.names.FoldAt = 500 // folded in at the second or third change
	}
	return s, err
}

// scratch returns a folder in memory if there is one: the sweeps build
// thousands of stores, and a sync to disk for each write proves nothing more.
func scratch(t *testing.T) string {
	t.Helper()
	if dir, err := os.MkdirTemp("/dev/shm", "mm-test-"); err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		return dir
	}
	return t.TempDir()
}

// newScene writes a copy of the template into a new folder.
func newScene(t *testing.T) scene {
	t.Helper()
	tm, err := template()
	if err != nil {
		t.Fatal(err)
	}
	sc := scene{top: scratch(t), seals: maps.Clone(tm.seals)}
	for _, e := range tm.entries {
		name := filepath.Join(sc.top, e.name)
		if e.mode.IsDir() {
			err = os.Mkdir(name, e.mode.Perm())
		} else if err = os.WriteFile(name, e.data, 0o600); err == nil {
			err = os.Chmod(name, e.mode.Perm())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return sc
}

// entry is a file or folder of the template.
type entry struct {
	name string
	mode fs.FileMode
	data []byte
}

// templateScene is a scene in memory.
type templateScene struct {
	entries []entry // a folder before its files
	seals   map[string]digest.Digest
}

// template builds the scene once: the sweeps need thousands of copies.
var template = sync.OnceValues(func() (tm templateScene, err error) {
	top, err := os.MkdirTemp("", "mm-scene-*")
	if err != nil {
		return tm, err
	}
	defer os.RemoveAll(top)
	if tm.seals, err = buildScene(scene{top: top}); err != nil {
		return tm, err
	}
	err = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == top {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		e := entry{name: path[len(top)+1:], mode: info.Mode()}
		switch {
		case e.mode.IsRegular():
			if e.data, err = os.ReadFile(path); err != nil {
				return err
			}
		case !e.mode.IsDir():
			return fmt.Errorf("%s: got mode %v, want a file or a folder", path, e.mode)
		}
		tm.entries = append(tm.entries, e)
		return nil
	})
	return tm, err
})

// buildScene writes two stores and a source, and returns the tags of the first store.
func buildScene(sc scene) (map[string]digest.Digest, error) {
	seals := map[string]digest.Digest{}
	s, err := Open(sc.store(), Options{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	push := func(s *Store, ref, sig string, seed uint64) (ocispec.Descriptor, error) {
		desc, err := sample(s, "sample", seed)
		if err == nil {
			err = s.Tag(ctx, desc, ref)
		}
		if err == nil {
			_, err = attach(s, desc, "x/sig", sig)
		}
		return desc, err
	}
	for i := range 2 {
		ref := fmt.Sprintf("old:%d", i)
		desc, err := push(s, ref, ref, uint64(i))
		if err != nil {
			return nil, err
		}
		seals[ref] = desc.Digest
	}
	if _, err := push(s, "gone:1", "gone", 50); err != nil {
		return nil, err
	}
	if err := s.Untag(ctx, "gone:1"); err != nil {
		return nil, err
	}
	far, err := Open(sc.far(), Options{})
	if err != nil {
		return nil, err
	}
	defer far.Close()
	if _, err := push(far, "near:1", "near", 70); err != nil {
		return nil, err
	}
	return seals, os.WriteFile(sc.source(), sourceBytes, 0o644)
}

// intact checks the invariants that no fault may break.
func (sc scene) intact(t *testing.T, s *Store) {
	t.Helper()
	sound(t, s)
	for ref, want := range sc.seals {
		desc, err := s.Resolve(ctx, ref)
		if err != nil || desc.Digest != want {
			t.Errorf("%s: %v, %v", ref, desc.Digest, err)
			continue
		}
		if _, err := artifact.Read(ctx, s, desc); err != nil {
			t.Errorf("%s: %v", ref, err)
		}
		if sigs, err := s.Referrers(ctx, desc, "x/sig"); err != nil || len(sigs) != 1 {
			t.Errorf("%s: %d signatures, %v", ref, len(sigs), err)
		}
	}
}

// visible lists the files below the checkout folder, staging apart.
func (sc scene) visible() []string {
	var out []string
	filepath.WalkDir(sc.out(), func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == artifact.CheckoutDir {
			return fs.SkipDir
		}
		if err == nil && !d.IsDir() {
			out = append(out, p)
		}
		return nil
	})
	return out
}
