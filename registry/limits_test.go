package registry

import (
	"fmt"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/registry/artifact"
)

// The pool of manifests is emptied before it grows over maxPoolBytes.
func TestPoolLimit(t *testing.T) {
	for more, want := range []int{2, 1} {
		s := &Store{}
		for i, size := range []int{1, maxPoolBytes - 1 + more} {
			s.pool(&artifact.Manifest{Descriptor: ocispec.Descriptor{Digest: digest.FromString(fmt.Sprint(i)), Size: int64(size)}})
		}
		if got := len(s.nodes.nodes); got != want {
			t.Errorf("maxPoolBytes+%d: %d manifests, want %d", more, got, want)
		}
	}
}

// A name may reach maxReach manifests.
func TestReachLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: walks 200,000 manifests")
	}
	s := open(t, t.TempDir(), Options{})
	const each = 20_000 // in an index of less than 4 MiB
	build := func(missing int) ocispec.Descriptor {
		top := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex}
		for from := 0; from < missing; from += each {
			index := ocispec.Index{Versioned: top.Versioned, MediaType: top.MediaType}
			for i := range min(each, missing-from) {
				index.Manifests = append(index.Manifests, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString(fmt.Sprint(from + i)), Size: 2})
			}
			d, err := pushDoc(ctx, s, ocispec.MediaTypeImageIndex, "", index)
			if err != nil {
				t.Fatal(err)
			}
			top.Manifests = append(top.Manifests, d)
		}
		d, err := pushDoc(ctx, s, ocispec.MediaTypeImageIndex, "", top)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	const indexes = 1 + maxReach/each
	for more, want := range []bool{true, false} {
		seen := 0
		err := s.Walk(ctx, build(maxReach-indexes+more), func(ocispec.Descriptor) error { seen++; return nil })
		if (err == nil) != want || seen != maxReach {
			t.Errorf("maxReach+%d: %d manifests, %v", more, seen, err)
		}
	}
}
