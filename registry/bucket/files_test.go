package bucket_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/registry/bucket"
)

// Files are saved and fetched whole, and an object without a digest is refused.
func TestFiles(t *testing.T) {
	for name, open := range stores(t) {
		_, b := open()
		place, err := bucket.ParseAddress(prefixes[name] + "run")
		if err != nil {
			t.Fatal(err)
		}
		f, dir := bucket.Files{Bucket: b, Place: place}, t.TempDir()
		from, to := filepath.Join(dir, "from"), filepath.Join(dir, "round-0", "to")
		if err := f.Fetch(t.Context(), "round-0/a", to); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a missing object: %v", name, err)
		}
		for _, text := range []string{"first", "second"} {
			if err := os.WriteFile(from, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(f.Save(t.Context(), "round-0/a", from), f.Fetch(t.Context(), "round-0/a", to)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if got, err := os.ReadFile(to); err != nil || string(got) != text {
				t.Errorf("%s: got %q, %v, want %q", name, got, err, text)
			}
		}
		if _, err := b.Put(t.Context(), "run/b", strings.NewReader("b"), 1, bucket.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := f.Fetch(t.Context(), "b", to); !errors.Is(err, bucket.ErrDigest) {
			t.Errorf("%s: an object without a digest: %v", name, err)
		}
	}
}
