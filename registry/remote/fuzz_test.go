package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/registrytest"
)

func FuzzParseReference(f *testing.F) {
	for _, s := range []string{"registry.example/team/p-lite:0.1.0", "oci:dist/p-lite:x", "oci:C:\\x@sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", "[::1]:5000/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseReference(s)
		if err != nil {
			if !errors.Is(err, errdef.ErrInvalidReference) {
				t.Fatal(err)
			}
			return
		}
		again, err := ParseReference(r.String())
		if err != nil || again != r {
			t.Fatalf("%q is %+v, its spelling %q is %+v, %v", s, r, r.String(), again, err)
		}
		if r.Layout == "" {
			if u, err := url.Parse("https://" + r.Place()); err != nil || u.Host != r.Ref.Host || u.Path != "/"+r.Ref.FullName() {
				t.Fatalf("%q: host %q and repository %q make the address %v", s, r.Ref.Host, r.Ref.FullName(), u)
			}
		}
	})
}

// FuzzPlan holds that a plan of any bytes is bounded and checked.
func FuzzPlan(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2,"config":{"digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2},"layers":[]}`))
	f.Add([]byte(`{"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2}]}`))
	f.Add([]byte(`{"layers":[{"digest":"sha256:..","size":-1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		ctx := context.Background()
		s := registrytest.New()
		src := memory.New()
		desc := s.Add(ocispec.MediaTypeImageManifest, data)
		if err := src.Push(ctx, desc, bytes.NewReader(data)); err != nil {
			t.Skip()
		}
		p, err := newPlan(ctx, src, desc, filter{})
		if err != nil {
			if !errors.Is(err, ErrHostile) && !errors.Is(err, errdef.ErrNotFound) && !errors.Is(err, artifact.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		for _, b := range p.blobs {
			if b.Digest.Validate() != nil || b.Size < 0 {
				t.Fatalf("planned %+v", b)
			}
		}
	})
}

// FuzzHeaders checks that no response header leads out of bounds.
func FuzzHeaders(f *testing.F) {
	f.Add("0-41", "bytes 5-41/42", "/v2/x/blobs/uploads/1")
	f.Add("bytes=0-0", "bytes 5-41/*", "http://other/x?y=z")
	f.Add("0-9223372036854775807", "bytes --/", "javascript:alert(1)")
	f.Fuzz(func(t *testing.T, span, content, location string) {
		if n, ok := uploaded(http.Header{"Range": {span}}); ok && n < 0 {
			t.Fatalf("%q is %d bytes", span, n)
		}
		d := &download{desc: ocispec.Descriptor{Size: 42}}
		if d.follows(&http.Response{Header: http.Header{"Content-Range": {content}}}, 5) {
			var first, last int64
			if _, err := fmt.Sscanf(content, "bytes %d-%d/", &first, &last); err == nil && first != 5 {
				t.Fatalf("%q follows 5", content)
			}
		}
		for _, plain := range []bool{false, true} {
			host := "registry.example"
			opt := Options{Credentials: nobody}
			if plain {
				opt.PlainHTTP = []string{host}
			}
			c, err := New(opt)
			if err != nil {
				t.Fatal(err)
			}
			u := &upload{r: c.repository(Reference{Ref: abi.Ref{Host: host, Name: "x"}})}
			own, _ := url.Parse(u.r.url("blobs/uploads/"))
			if u.move(&http.Response{Header: http.Header{"Location": {location}}, Request: &http.Request{URL: own}}) != nil {
				continue
			}
			if s := u.location.Scheme; s != "https" && (s != "http" || !plain) {
				t.Fatalf("%q leads to %s", location, u.location)
			}
			if u.by() == doer(c.bulk) && (u.location.Host != own.Host || u.location.Scheme != own.Scheme) {
				t.Fatalf("credentials for %s", u.location)
			}
		}
	})
}
