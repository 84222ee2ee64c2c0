package remote

import (
	"context"
	"fmt"
	"slices"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/registry/sign"
)

// listing is a layout with a fixed listing for one manifest.
type listing struct {
	layout
	of     ocispec.Descriptor
	listed []ocispec.Descriptor
}

func (l listing) list(_ context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	if desc.Digest != l.of.Digest {
		return nil, nil
	}
	return l.listed, nil
}

// A listed signature is one only if its manifest is that of a bundle about
// this subject and within the limits, and the search ends.
func TestBundlesAreBounded(t *testing.T) {
	ctx := context.Background()
	there := openStore(t)
	a := newAssembly(t, there)
	main, err := newPlan(ctx, layout{there}, a.index, filter{})
	if err != nil {
		t.Fatal(err)
	}
	of := func(d ocispec.Descriptor) []ocispec.Descriptor {
		t.Helper()
		list, err := there.Referrers(ctx, d, "")
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	kept := func(list []ocispec.Descriptor, opt PullOptions) []manifest {
		t.Helper()
		p, err := bundles(ctx, listing{layout{there}, a.index, list}, main, opt)
		if err != nil {
			t.Fatal(err)
		}
		return p.manifests
	}
	own := of(a.index)
	if got := kept(own, PullOptions{}); len(own) != 1 || len(got) != 1 {
		t.Errorf("of its %d signatures %d are kept", len(own), len(got))
	}
	if got := kept(of(a.laptop), PullOptions{}); len(got) != 0 {
		t.Errorf("%d signatures of another manifest are kept", len(got))
	}
	hang(t, there, a.mobile, sign.BundleMediaType, []byte("not this subject"), nil)
	if got := kept(of(a.mobile), PullOptions{}); len(got) != 0 {
		t.Errorf("%d of another subject are kept", len(got))
	}

	// As large as a bundle may be, and a byte more.
	for size, want := range map[int]int{maxBundle: 1, maxBundle + 1: 0} {
		before := of(a.index)
		hang(t, there, a.index, sign.BundleMediaType, noise(uint64(size), size), nil)
		fresh := slices.DeleteFunc(of(a.index), func(d ocispec.Descriptor) bool {
			return slices.ContainsFunc(before, func(b ocispec.Descriptor) bool { return b.Digest == d.Digest })
		})
		if got := kept(fresh, PullOptions{}); len(fresh) != 1 || len(got) != want {
			t.Errorf("a bundle of %d bytes: %d kept, want %d", size, len(got), want)
		}
	}

	// Forty of a megabyte exceed the budget.
	data := noise(9, maxBundle)
	for i := range 40 {
		hang(t, there, a.index, sign.BundleMediaType, data, map[string]string{"n": fmt.Sprint(i)})
	}
	looked := 0
	kept(of(a.index), PullOptions{Keep: func(context.Context, content.Fetcher, ocispec.Descriptor, ocispec.Descriptor) (bool, error) {
		looked++
		return false, nil
	}})
	if most := maxLookedBytes/maxBundle + 1; looked < 10 || looked > most+1 {
		t.Errorf("looked at %d bundles of %d bytes, want at most %d", looked, maxBundle, most+1)
	}
}
