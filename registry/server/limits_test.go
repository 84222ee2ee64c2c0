package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/crypto/bcrypt"

	"mm-abi.org/mm/internal/fsx"
)

const asManifest = "Content-Type: " + ocispec.MediaTypeImageManifest

func TestManifestLimits(t *testing.T) {
	s := start(t, Options{})
	data, d := s.image("a", nil, "layer")
	for more, want := range []string{"201", "400 MANIFEST_INVALID"} {
		s.want(want, "PUT", "/v2/a/manifests/"+d.String()+"?tag=x"+strings.Repeat("&tag=x", maxTags-1+more), data, asManifest)
	}
	subject := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: d, Size: int64(len(data))}
	for more, want := range []string{"201", "413 MANIFEST_INVALID"} {
		data, _ := s.image("a", func(m *ocispec.Manifest) { m.Subject = &subject }, "layer")
		data = append(data, strings.Repeat(" ", maxReferrer-len(data)+more)...)
		s.want(want, "PUT", "/v2/a/manifests/"+digest.FromBytes(data).String(), data, asManifest)
	}
}

// A page of referrers ends with the one that exceeds maxListing.
func TestListingLimit(t *testing.T) {
	const n, each = 64, maxListing / 64
	for more, want := range []int{n + 1, n} {
		s := start(t, Options{})
		data, d := s.image("a", nil, "layer")
		s.want("201", "PUT", "/v2/a/manifests/x", data, asManifest)
		for i := range n + 1 {
			data, err := json.Marshal(ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
				ArtifactType: "x/y", Config: blobDesc("application/octet-stream", []byte("layer")), Layers: []ocispec.Descriptor{},
				Annotations: map[string]string{"p": fmt.Sprintf("%0*d", each-256-1+more, i)},
				Subject:     &ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: d, Size: int64(len(data))}})
			if err != nil {
				t.Fatal(err)
			}
			s.want("201", "PUT", "/v2/a/manifests/"+digest.FromBytes(data).String(), data, asManifest)
		}
		var list ocispec.Index
		a := s.want("200", "GET", "/v2/a/referrers/"+d.String(), nil)
		if err := json.Unmarshal(a.body, &list); err != nil || len(list.Manifests) != want {
			t.Errorf("maxListing+%d: %d on the page, want %d, %v", more*n, len(list.Manifests), want, err)
		}
	}
}

// The remembered passwords are forgotten when one would exceed maxRemembered.
func TestRememberedLimit(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	for more, want := range []int{maxRemembered, 1} {
		l, err := newLogins(Options{Htpasswd: []byte("user:" + string(hash))})
		if err != nil {
			t.Fatal(err)
		}
		for i := range maxRemembered - 1 + more {
			l.checked[[32]byte{byte(i), byte(i >> 8)}] = true
		}
		r, err := http.NewRequest("GET", "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth("user", "secret")
		if !l.allow(r) || len(l.checked) != want {
			t.Errorf("maxRemembered+%d: %d remembered, want %d", more, len(l.checked), want)
		}
	}
}

// A file of passwords of the size of maxHtpasswd is read, a larger one is not; only hosts
// that are named are accepted on loopback.
func TestServeOptions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "htpasswd")
	for more, want := range map[int64]bool{0: true, 1: false} {
		if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, maxHtpasswd+more)); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadHtpasswd(file); errors.Is(err, fsx.ErrTooLarge) == want {
			t.Errorf("maxHtpasswd+%d bytes: %v", more, err)
		}
	}
	for addr, want := range map[string][2]bool{"127.0.0.1:5000": {true, false}, "[::1]:5000": {true, false}, "10.0.0.1:5000": {false, true}} {
		tcp, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		open, named := ServeOptions{}, ServeOptions{Options: Options{Hosts: []string{"registry.example"}}}
		if loopback := open.Listening(tcp); loopback != want[0] || open.AnyHost != want[1] || named.Listening(tcp) != want[0] || named.AnyHost {
			t.Errorf("%s: loopback %v, any host %v, with a name %v", addr, loopback, open.AnyHost, named.AnyHost)
		}
	}
}
