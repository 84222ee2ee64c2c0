package artifact

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
)

// Each limit accepts its value and refuses one more.
func TestLimits(t *testing.T) {
	desc := ocispec.Descriptor{MediaType: "x/y", Digest: digest.FromString("x")}
	layers := make([]Layer, MaxLayers+1)
	for i := range layers {
		layers[i] = Layer{Path: fmt.Sprint("f", i), Descriptor: desc}
	}
	targets := make([]ocispec.Descriptor, MaxTargets+1)
	for i := range targets {
		targets[i] = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: desc.Digest, Annotations: map[string]string{abi.AnnotationTarget: fmt.Sprint("t", i)}}
	}
	for name, check := range map[string]func(more int) error{
		"MaxLayers":  func(more int) error { return CheckLayers(layers[:MaxLayers+more]) },
		"MaxTargets": func(more int) error { return checkTargets(targets[:MaxTargets+more]) },
		"maxBlobBytes": func(more int) error {
			d := desc
			d.Size = maxBlobBytes + int64(more)
			return CheckDescriptor(d)
		},
		"maxMediaType": func(more int) error {
			text := fmt.Sprintf(`{"schemaVersion":2,"artifactType":%q,"manifests":[]}`, strings.Repeat("a", maxMediaType+more))
			_, err := ParseManifest(ocispec.Descriptor{MediaType: ocispec.MediaTypeImageIndex}, []byte(text))
			return err
		},
		"maxDepth": func(more int) error {
			var v struct{}
			n := maxDepth + more
			return DecodeStrict([]byte(`{"a":`+strings.Repeat("[", n)+strings.Repeat("]", n)+`}`), &v)
		},
		"maxPath": func(more int) error { return CheckPath(strings.Repeat("a", maxPath+more)) },
		"MaxManifestBytes": func(more int) error {
			d := desc
			d.Size = MaxManifestBytes + int64(more)
			_, err := fetchSmall(ctx, memory.New(), d)
			if errors.Is(err, errdef.ErrNotFound) {
				return nil // of an allowed size, and missing
			}
			return err
		},
	} {
		if err := check(0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if check(1) == nil {
			t.Errorf("%s: one more accepted", name)
		}
	}
}
