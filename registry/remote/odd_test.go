package remote

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/registrytest"
)

// An answer that is not the content asked for is the registry's fault; only bytes
// that can be judged are refused.
func TestPagesAreOdd(t *testing.T) {
	ctx := context.Background()
	src := openStore(t)
	a := newAssembly(t, src)
	for body, kind := range map[string]string{
		"<html>sign in</html>":                 "text/html; charset=utf-8",
		"":                                     "application/octet-stream",
		`{"errors":[{"code":"UNAUTHORIZED"}]}`: "application/json",
	} {
		for _, part := range []string{"manifests/0.1.0", "manifests/" + a.laptop.Digest.String(), "tags/list", "blobs/"} {
			if strings.HasPrefix(part, "blobs") && !strings.HasPrefix(kind, "text/html") {
				continue // bytes of a blob, and the wrong ones
			}
			s := registrytest.New()
			s.ReferrersAPI = true
			host := serve(t, s)
			ref := host + "/team/p-lite:0.1.0"
			c := newClient(t, Options{})
			if _, err := c.Push(ctx, src, a.index, ref, PushOptions{}); err != nil {
				t.Fatal(err)
			}
			s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, part) {
					return false
				}
				w.Header().Set("Content-Type", kind)
				io.WriteString(w, body)
				return true
			}
			var err error
			if part == "tags/list" {
				_, err = c.Tags(ctx, host+"/team/p-lite")
			} else {
				_, _, err = c.Pull(ctx, ref, openStore(t), PullOptions{})
			}
			var o *OddError
			if !errors.As(err, &o) || errors.Is(err, ErrReceived) || errors.Is(err, ErrHostile) || errors.Is(err, artifact.ErrCorrupt) {
				t.Errorf("%s answered by %q: %v", part, body, err)
			} else if o.Host != host || !strings.HasPrefix(o.Request, "GET http://"+host+"/v2/team/p-lite/"+part) || o.Answer == "" {
				t.Errorf("%s: %+v", part, o)
			}
		}
	}
}

// A page of HTML may be a blob.
func TestPageIsABlob(t *testing.T) {
	ctx := context.Background()
	src := openStore(t)
	desc := pack(t, src, "page", layer(t, src, "card.html", "doc", []byte("<html>a card</html>")))
	s := registrytest.New()
	host := serve(t, s)
	c := newClient(t, Options{})
	if _, err := c.Push(ctx, src, desc, host+"/team/page:1.0.0", PushOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
		}
		return false
	}
	if _, _, err := c.Pull(ctx, host+"/team/page:1.0.0", openStore(t), PullOptions{}); err != nil {
		t.Error(err)
	}
}

// A push beyond the limits is refused before anything is sent, and verifies nothing.
func TestPushBeyondTheLimits(t *testing.T) {
	ctx := context.Background()
	src := openStore(t)
	deep := pack(t, src, "deep", layer(t, src, "f", "core", []byte("f")))
	for range maxNesting + 1 {
		deep = putJSON(t, src, ocispec.Index{Versioned: versioned, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{deep}})
	}
	signed := pack(t, src, "signed", layer(t, src, "g", "core", []byte("g")))
	putJSON(t, src, ocispec.Index{Versioned: versioned, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{deep}, Subject: &signed})
	s := registrytest.New()
	host := serve(t, s)
	for what, desc := range map[string]ocispec.Descriptor{"the artifact": deep, "a referrer": signed} {
		for _, to := range []string{host + "/team/x:1.0.0", "oci:" + t.TempDir()} {
			_, err := newClient(t, Options{}).Push(ctx, src, desc, to, PushOptions{})
			if !errors.Is(err, errUnsendable) || errors.Is(err, ErrHostile) {
				t.Errorf("%s to %s: %v", what, to, err)
			}
		}
	}
	if n := len(s.Asked); n > 0 {
		t.Errorf("requests were sent: %v", s.Asked)
	}
}

// putJSON stores a manifest.
func putJSON(t testing.TB, s *registry.Store, m ocispec.Index) ocispec.Descriptor {
	t.Helper()
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	desc, err := s.AddBytes(context.Background(), m.MediaType, data)
	if err != nil {
		t.Fatal(err)
	}
	return desc
}

// Errors of connections that a flag, a variable or the clock mends have a hint.
func TestConnectHints(t *testing.T) {
	secure, clear := httptest.NewTLSServer(http.NotFoundHandler()), httptest.NewServer(http.NotFoundHandler())
	defer secure.Close()
	defer clear.Close()
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	c := newClient(t, Options{TLSLoopback: true, Retries: -1})
	_, private := c.Tags(t.Context(), strings.TrimPrefix(secure.URL, "https://")+"/x")
	_, plain := c.Tags(t.Context(), strings.TrimPrefix(clear.URL, "http://")+"/x")
	for want, err := range map[string]error{
		"--ca-file": private, "--plain-http": plain, "clock": connectError(x509.CertificateInvalidError{Reason: x509.Expired}),
		"HTTP_PROXY": proxyError(&url.URL{}, "http", ""), "HTTPS_PROXY": proxyError(&url.URL{}, "https", ""),
	} {
		var h interface{ Hint() string }
		if !errors.As(err, &h) || !strings.Contains(h.Hint(), want) {
			t.Errorf("%v: no hint with %s", err, want)
		}
	}
}
