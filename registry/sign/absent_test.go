package sign

import (
	"context"
	"errors"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A part of a signature that is not found is missing, not malformed.
func TestAbsentBundleIsMissing(t *testing.T) {
	src := &rawSource{t: t}
	subject := src.raw([]byte("{}"))
	budget := int64(maxBundleBytes)
	gone := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString("gone"), Size: 4}
	_, err := fetchBundle(context.Background(), src, gone, subject.Digest, &budget)
	var r *Refusal
	if !errors.As(err, &r) || r.Reason != Missing || nearest([]*Refusal{r}).Reason != Missing {
		t.Errorf("got %v, want %s", err, Missing)
	}
}
