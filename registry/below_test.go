package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
)

// A store over another has its names and blobs, and leaves it unchanged.
func TestBelow(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	under := open(t, dir, Options{})
	old := tagged(t, under, "p-lite:0.1.0", 1)
	if _, err := attach(under, old, "test/referrer", "x"); err != nil {
		t.Fatal(err)
	}
	under.Close()
	before := files(t, dir)
	under = open(t, dir, Options{ReadOnly: true})
	s := open(t, t.TempDir(), Options{Below: under})
	if got, err := s.Resolve(ctx, "p-lite:0.1.0"); err != nil || got.Digest != old.Digest {
		t.Fatalf("%v, %v", got, err)
	}
	if list, err := s.Referrers(ctx, old, ""); err != nil || len(list) != 1 {
		t.Errorf("referrers: %v, %v", list, err)
	}
	a, err := artifact.Read(ctx, s, old)
	if err != nil {
		t.Fatal(err)
	}
	blob := a.Layers[0].Descriptor
	if err := s.Verify(ctx, blob); err != nil {
		t.Error(err)
	}
	if s.BlobPath(blob) != under.BlobPath(blob) {
		t.Error("path of a blob below: ", s.BlobPath(blob))
	}
	data, err := content.FetchAll(ctx, under, blob)
	if err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/layer"
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if d, err := s.AddFile(ctx, file, cas.AddOptions{}); err != nil || d.Digest != blob.Digest {
		t.Errorf("%v, %v", d, err)
	}
	if _, err := os.Stat(s.Dir() + "/blobs/sha256/" + blob.Digest.Encoded()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a blob below was stored again: %v", err)
	}
	fresh := tagged(t, s, "p-lite:0.2.0", 2)
	if err := s.Remove(ctx, "p-lite:0.1.0"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.GC(ctx, GCOptions{Grace: -1}); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(ctx, fresh); err != nil {
		t.Error(err)
	}
	if _, err := under.Resolve(ctx, "p-lite:0.1.0"); err != nil {
		t.Error(err)
	}
	if after := files(t, dir); !bytes.Equal(before, after) {
		t.Errorf("below changed:\n%s\n%s", before, after)
	}
}

// files lists the files of a folder with their times.
func files(t *testing.T, dir string) []byte {
	t.Helper()
	var b bytes.Buffer
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && !e.IsDir() {
			fmt.Fprintln(&b, p, info.Size(), info.ModTime())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
