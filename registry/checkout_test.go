package registry

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
)

// full returns an artifact that uses every field, with its content.
func full() (artifact.Artifact, map[digest.Digest][]byte) {
	blobs := map[digest.Digest][]byte{}
	layer := func(path, media, role, format string) artifact.Layer {
		data := []byte("content of " + path)
		blobs[digest.FromBytes(data)] = data
		desc := described(data)
		desc.MediaType = media
		return artifact.Layer{Path: path, Descriptor: desc, Annotations: map[string]string{
			abi.AnnotationComponent: "sample", abi.AnnotationRole: role, abi.AnnotationFormat: format,
			abi.AnnotationVersion: "1.2.3", abi.AnnotationQuant: "int4"}}
	}
	created := time.Unix(1700000000, 0).UTC()
	return artifact.Artifact{
		Name: "p-lite", Version: "1.2.3",
		Config: artifact.ModelConfig{
			Descriptor: artifact.ModelDescriptor{CreatedAt: &created, Licenses: []string{"Apache-2.0"}, Family: "mm"},
			Config: artifact.ModelParams{Format: "gguf", Architecture: "transformer", Quantization: "int4",
				Capabilities: &artifact.ModelCapabilities{InputTypes: []string{"text", "image"}, OutputTypes: []string{"text"}}},
		},
		Annotations: map[string]string{abi.AnnotationKind: abi.KindAssembly, abi.AnnotationABI: "mm-abi-1.0", abi.AnnotationTarget: "laptop"},
		Layers: []artifact.Layer{
			layer("vision/enc.onnx", abi.MediaWeight, "encoder", "onnx"),
			layer("README.md", abi.MediaDoc, abi.RoleDoc, "md"),
			layer("core/core-llm.gguf", abi.MediaWeight, "core", "gguf"),
			layer("assembly.json", abi.MediaWeightConfig, abi.RoleAssembly, "json"),
		},
	}, blobs
}

func TestCheckout(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	a, blobs := full()
	for _, data := range blobs {
		if _, err := s.AddBytes(ctx, "x/y", data); err != nil {
			t.Fatal(err)
		}
	}
	onlyCore := func(l artifact.Layer) bool { return l.Annotations[abi.AnnotationRole] == "core" }
	for _, link := range []bool{true, false} {
		dir := filepath.Join(t.TempDir(), "deep", "out")
		paths, err := s.Checkout(ctx, &a, dir, CheckoutOptions{Link: link})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"README.md", "assembly.json", "core/core-llm.gguf", "vision/enc.onnx"}, paths); diff != "" {
			t.Error(diff)
		}
		for _, l := range a.Layers {
			p := filepath.Join(dir, l.Path)
			data, err := os.ReadFile(p)
			if err != nil || !bytes.Equal(data, blobs[l.Descriptor.Digest]) {
				t.Errorf("%s: %q, %v", l.Path, data, err)
			}
			fi, _ := os.Stat(p)
			blob, _ := os.Stat(s.BlobPath(l.Descriptor))
			if os.SameFile(fi, blob) != link {
				t.Errorf("%s: linked %v", l.Path, !link)
			}
			if !link && fi.Mode().Perm()&0o200 == 0 {
				t.Errorf("%s: a copy is read-only", l.Path)
			}
		}
		if list, _ := os.ReadDir(dir); len(list) != 4 {
			t.Errorf("in the folder: %v", list)
		}
		// Again: linked files are the blobs and remain; copies are in the way.
		_, err = s.Checkout(ctx, &a, dir, CheckoutOptions{Link: link})
		if (err == nil) != link {
			t.Errorf("again, link %v: %v", link, err)
		}
		if _, err = s.Checkout(ctx, &a, dir, CheckoutOptions{Link: link, Force: true}); err != nil {
			t.Errorf("again with force: %v", err)
		}
		dir = t.TempDir()
		if paths, err := s.Checkout(ctx, &a, dir, CheckoutOptions{Link: link, Only: onlyCore}); err != nil || len(paths) != 1 {
			t.Errorf("only the core: %v, %v", paths, err)
		}
	}
}

// TestCheckoutFaults: whatever is wrong, nothing stays.
func TestCheckoutFaults(t *testing.T) {
	for _, link := range []bool{true, false} {
		for name, spoil := range map[string]func(s *Store, dir string, l *artifact.Layer){
			"flipped bit": func(s *Store, _ string, l *artifact.Layer) { flip(t, s.BlobPath(l.Descriptor), 5, 1) },
			"shorter": func(s *Store, _ string, l *artifact.Layer) {
				p := s.BlobPath(l.Descriptor)
				os.Chmod(p, 0o644)
				os.Truncate(p, 3)
			},
			"missing": func(s *Store, _ string, l *artifact.Layer) { os.Remove(s.BlobPath(l.Descriptor)) },
			"in the way": func(_ *Store, dir string, l *artifact.Layer) {
				os.MkdirAll(filepath.Join(dir, "vision", "enc.onnx"), 0o755)
			},
			"link out": func(_ *Store, dir string, l *artifact.Layer) {
				os.MkdirAll(dir, 0o755)
				os.Symlink(t.TempDir(), filepath.Join(dir, "vision"))
			},
			"bad path": func(_ *Store, _ string, l *artifact.Layer) { l.Path = "../x" },
		} {
			s := open(t, t.TempDir(), Options{})
			a, blobs := full()
			for _, data := range blobs {
				if _, err := s.AddBytes(ctx, "x/y", data); err != nil {
					t.Fatal(err)
				}
			}
			dir := filepath.Join(t.TempDir(), "out")
			spoil(s, dir, &a.Layers[0])
			for _, force := range []bool{false, true} {
				if paths, err := s.Checkout(ctx, &a, dir, CheckoutOptions{Link: link, Force: force}); err == nil {
					t.Errorf("%s: checked out %v", name, paths)
				}
				filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
					if err == nil && d.Type().IsRegular() {
						t.Errorf("%s: left %s", name, p)
					}
					return nil
				})
			}
		}
	}
}

// flip changes one bit of the file at path, read-only or not.
func flip(t testing.TB, path string, at, bit int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[at] ^= 1 << bit
	os.Chmod(path, 0o644)
	if err := os.WriteFile(path, data, 0o444); err != nil {
		t.Fatal(err)
	}
	os.Chmod(path, 0o444)
}

func TestCheckoutClearsWhatAKillLeft(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	a, blobs := full()
	for _, data := range blobs {
		if _, err := s.AddBytes(ctx, "x/y", data); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	os.Mkdir(filepath.Join(dir, artifact.CheckoutDir), 0o755)
	os.WriteFile(filepath.Join(dir, artifact.CheckoutDir, "17"), []byte("half"), 0o644)
	if _, err := s.Checkout(ctx, &a, dir, CheckoutOptions{}); err != nil {
		t.Fatal(err)
	}
	if list, _ := os.ReadDir(dir); len(list) != 4 {
		t.Errorf("in the folder: %v", list)
	}
}

// TestCachedVerify: the record of a blob survives a checkout by link, and does
// not survive a change of the blob.
func TestCachedVerify(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, noise(1, 1<<20+1), 0o644); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	desc, err := s.AddFile(ctx, path, cas.AddOptions{Link: true})
	if err != nil {
		t.Fatal(err)
	}
	cacheHit := func() bool {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		key, ok := cas.KeyOf(f)
		return ok && s.Cached(key) != ""
	}
	if !cacheHit() {
		t.Skip("skipped: no digest cache here")
	}
	a := &artifact.Artifact{Name: "a", Layers: []artifact.Layer{{Path: "f", Descriptor: desc}}}
	if _, err := s.Checkout(ctx, a, t.TempDir(), CheckoutOptions{Link: true, Cached: true}); err != nil {
		t.Fatal(err)
	}
	if !cacheHit() {
		t.Error("forgotten by a checkout")
	}
	if err := s.VerifyCached(ctx, desc); err != nil {
		t.Error(err)
	}
	flip(t, s.BlobPath(desc), 100, 1)
	if err := s.VerifyCached(ctx, desc); !errors.Is(err, artifact.ErrCorrupt) {
		t.Errorf("a changed blob: %v", err)
	}
}

// If a link and its blob have different inode numbers, files are copied.
func TestCheckoutCopiesWhereLinksDiffer(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	s.same = func(_, _ fs.FileInfo) bool { return false }
	a, blobs := full()
	for _, data := range blobs {
		if _, err := s.AddBytes(ctx, "x/y", data); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	if _, err := s.Checkout(ctx, &a, dir, CheckoutOptions{Link: true}); err != nil {
		t.Fatal(err)
	}
	for _, l := range a.Layers {
		p := filepath.Join(dir, l.Path)
		data, err := os.ReadFile(p)
		if err != nil || !bytes.Equal(data, blobs[l.Descriptor.Digest]) {
			t.Errorf("%s: %q, %v", l.Path, data, err)
		}
		fi, _ := os.Stat(p)
		if blob, _ := os.Stat(s.BlobPath(l.Descriptor)); os.SameFile(fi, blob) {
			t.Errorf("%s is a link", l.Path)
		}
	}
	// Again, the copies are as good as links; another file is not.
	if _, err := s.Checkout(ctx, &a, dir, CheckoutOptions{Link: true}); err != nil {
		t.Errorf("the same folder again: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, a.Layers[0].Path), make([]byte, a.Layers[0].Descriptor.Size), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Checkout(ctx, &a, dir, CheckoutOptions{Link: true}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("another file: %v", err)
	}
}
