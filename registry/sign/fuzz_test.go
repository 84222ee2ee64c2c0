package sign

import (
	"context"
	"errors"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// FuzzVerifyTree holds that any bytes whatever in a manifest's place lead to a
// tree or to a refusal.
func FuzzVerifyTree(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2,"config":{"digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2},"layers":[]}`))
	f.Add([]byte(`{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2}]}`))
	f.Add([]byte(`{"layers":[{"digest":"sha256:..","size":-1}],"Layers":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &rawSource{t: t}
		s.raw([]byte(`{}`))
		for _, mediaType := range []string{ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex} {
			d := s.raw(data)
			d.MediaType = mediaType
			tree, err := VerifyTree(context.Background(), s, d, TreeOptions{Workers: 1})
			var r *Refusal
			if err != nil && !errors.As(err, &r) {
				t.Fatal(err)
			}
			if err == nil && (tree.Blobs < 1 || tree.Bytes < int64(len(data))) {
				t.Fatalf("read %+v", tree)
			}
		}
	})
}

// FuzzKeys holds that key files of any content are read or refused, and that a
// key that was read has an id.
func FuzzKeys(f *testing.F) {
	private, public, err := Generate(P256, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(private)
	f.Add(public)
	f.Add([]byte(fuzzKey))
	f.Add([]byte("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\nbnVsbA==\n-----END ENCRYPTED SIGSTORE PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if k, err := LoadPublic(data); err == nil && len(k.KeyID()) != 64 {
			t.Fatalf("public id %q", k.KeyID())
		}
		k, err := LoadPrivate(data, func() ([]byte, error) { return []byte("x"), nil })
		if err != nil {
			return
		}
		sig, err := k.sign([]byte("m"))
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Public().verify([]byte("m"), sig); err != nil {
			t.Fatal(err)
		}
	})
}
