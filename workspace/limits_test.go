package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/memory"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/sign"
)

// shelf lists fixed referrers.
type shelf struct {
	*memory.Store
	listed []ocispec.Descriptor
}

func (s shelf) Referrers(context.Context, ocispec.Descriptor, string) ([]ocispec.Descriptor, error) {
	return s.listed, nil
}

func TestAttachable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	for _, size := range []int64{0, maxAttached, maxAttached + 1} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(file, size); err != nil {
			t.Fatal(err)
		}
		if err := attachable(file); (err != nil) != (size > maxAttached) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	for _, bad := range []string{filepath.Dir(file), file + ".none"} {
		if attachable(bad) == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

func TestLimits(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	w, err := Open(Options{Home: filepath.Join(dir, "home")})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	store, err := registry.Open(filepath.Join(dir, "store"), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	// sparse returns a file of n zero bytes.
	sparse := func(name string, n int) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(file, int64(n)); err != nil {
			t.Fatal(err)
		}
		return file
	}
	near := filepath.Join(dir, "near")
	if err := os.Mkdir(near, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range maxNear - 1 {
		if err := os.WriteFile(filepath.Join(near, fmt.Sprintf("a%04d", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(near, "zebra.gguf"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, check := range map[string]func(more int) bool{
		"maxAgents": func(more int) bool {
			var list diag.List
			err := w.within(ctx, "inner", make([]string, maxAgents+more), diag.Pos{}, &list)
			return err == nil && list.Err() == nil
		},
		"maxSmall": func(more int) bool {
			v := &Verified{at: &Located{store: store}}
			_, err := v.small(ctx, artifact.Layer{Descriptor: ocispec.Descriptor{Digest: digest.FromString("x"), Size: int64(maxSmall + more)}})
			return !strings.Contains(err.Error(), "over the limit")
		},
		"maxSignatures": func(more int) bool {
			list := make([]ocispec.Descriptor, maxSignatures+more)
			for i := range list {
				list[i].ArtifactType = sign.BundleMediaType
			}
			found, err := bundles(ctx, shelf{memory.New(), list}, ocispec.Descriptor{})
			return err == nil && len(found) == len(list)
		},
		"maxTable": func(more int) bool {
			_, err := readCompat(sparse("compat.csv", maxTable+more))
			return !errors.Is(err, fsx.ErrTooLarge)
		},
		"maxNear": func(more int) bool {
			if more == 1 {
				if err := os.WriteFile(filepath.Join(near, "b"), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			return w.nearest(ctx, filepath.Join(near, "zebre.gguf")) != ""
		},
	} {
		if !check(0) {
			t.Errorf("%s: refused", name)
		}
		if check(1) {
			t.Errorf("%s: one more accepted", name)
		}
	}
}
