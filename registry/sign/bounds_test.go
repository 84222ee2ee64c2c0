package sign

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/memory"
)

// Indexes may nest up to the limit.
func TestNesting(t *testing.T) {
	s := memory.New()
	d := putManifest(t, s, "m")
	for range maxNesting {
		d = putIndex(t, s, d)
	}
	if _, err := VerifyTree(context.Background(), s, d, TreeOptions{}); err != nil {
		t.Errorf("%d indexes: %v", maxNesting, err)
	}
	if _, err := VerifyTree(context.Background(), s, putIndex(t, s, d), TreeOptions{}); !errors.Is(err, &Refusal{Reason: Hostile}) {
		t.Errorf("%d indexes: %v", maxNesting+1, err)
	}
}

// endless sends one endless blob in addition to those of src.
type endless struct {
	*memory.Store
	blob digest.Digest
	sent int
}

func (e *endless) Fetch(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	if d.Digest == e.blob {
		return io.NopCloser(e), nil
	}
	return e.Store.Fetch(ctx, d)
}

// Read sends zeros.
func (e *endless) Read(p []byte) (int, error) {
	if e.sent += len(p); e.sent > 64<<20 {
		return 0, errors.New("read on and on")
	}
	clear(p)
	return len(p), nil
}

// A blob longer than its size is not read to the end.
func TestLongerThanItSays(t *testing.T) {
	s := memory.New()
	d := putManifest(t, s, "m")
	var layer digest.Digest
	if err := walkNodes(context.Background(), s, d, 0, new(int), func(_ ocispec.Descriptor, n *node) error {
		layer = n.Layers[0].Digest
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	e := &endless{Store: s, blob: layer}
	if _, err := VerifyTree(context.Background(), e, d, TreeOptions{}); !errors.Is(err, &Refusal{Reason: Tampered}) {
		t.Error(err)
	}
	if e.sent > 4*readBuffer {
		t.Errorf("%d bytes were read", e.sent)
	}
}

// shelf has a fixed listing of referrers.
type shelf struct {
	*memory.Store
	listed []ocispec.Descriptor
}

// Referrers implements finder.
func (s shelf) Referrers(context.Context, ocispec.Descriptor, string) ([]ocispec.Descriptor, error) {
	return s.listed, nil
}

// Claimed releases are read first, then unlabeled bundles, each the small ones
// first.
func TestReleasesFirst(t *testing.T) {
	d := func(name, predicate string, size int64) ocispec.Descriptor {
		return ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, ArtifactType: BundleMediaType, Digest: digest.FromString(name), Size: size,
			Annotations: map[string]string{"name": name, annotationPredicate: predicate}}
	}
	src := shelf{memory.New(), []ocispec.Descriptor{
		d("other", "https://example.org/sbom", 1), d("silent", "", 2), d("large", ReleaseType, 4000), d("small", ReleaseType, 3000),
	}}
	found, err := bundles(context.Background(), src, ocispec.Descriptor{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range found {
		names = append(names, f.Annotations["name"])
	}
	if got := strings.Join(names, " "); got != "small large silent other" {
		t.Error(got)
	}
}

// A sound bundle on another manifest releases nothing, though a registry lists
// it here.
func TestListedForAnother(t *testing.T) {
	s := memory.New()
	one, other := putManifest(t, s, "one"), putManifest(t, s, "other")
	at := attachRaw(t, s, other, release(t, newKey(t, Ed25519), one), nil)
	budget := int64(1 << 20)
	if o, err := fetchBundle(context.Background(), s, at, one.Digest, &budget); o != nil || !errors.Is(err, &Refusal{Reason: OtherSubject}) {
		t.Errorf("%v, %v", o, err)
	}
	at = attachRaw(t, s, one, release(t, newKey(t, Ed25519), one), nil)
	if o, err := fetchBundle(context.Background(), s, at, one.Digest, &budget); o == nil || err != nil {
		t.Errorf("its own: %v", err)
	}
}
