package remote

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/registrytest"
)

// Faults that one request can detect are reported before a byte of a blob is sent.
func TestFaultsAreToldBeforeBytes(t *testing.T) {
	ctx := context.Background()
	src := openStore(t)
	desc := pack(t, src, "p-lite", layer(t, src, "core.gguf", "core", noise(1, 1<<20)))
	for name, tt := range map[string]struct {
		fault func(w http.ResponseWriter, r *http.Request) bool
		tag   string
		want  func(err error) bool
	}{
		"taken":   {nil, "", func(err error) bool { return errors.As(err, new(*registry.TakenError)) }},
		"invalid": {nil, strings.Repeat("a", 129), func(err error) bool { return errors.Is(err, errdef.ErrInvalidReference) }},
		"login": {func(w http.ResponseWriter, r *http.Request) bool { w.WriteHeader(http.StatusUnauthorized); return true }, "",
			func(err error) bool { return status(err) == http.StatusUnauthorized }},
		"read-only": {func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost {
				w.WriteHeader(http.StatusForbidden)
			}
			return r.Method == http.MethodPost
		}, "latest", func(err error) bool { return status(err) == http.StatusForbidden }},
	} {
		s := registrytest.New()
		s.Fault = tt.fault
		other := s.AddJSON(desc.MediaType, map[string]any{"schemaVersion": 2, "mediaType": desc.MediaType})
		s.Tags["x:1.0.0"] = other.Digest
		var also []registry.Tag
		ref := "/x:1.0.0"
		if tt.tag != "" {
			also, ref = []registry.Tag{{Ref: tt.tag, Descriptor: desc}}, "/x:latest"
		}
		_, err := newClient(t, Options{}).Push(ctx, src, desc, serve(t, s)+ref, PushOptions{Also: also})
		if !tt.want(err) || s.Received != 0 || s.Requested("PATCH uploads")+s.Requested("PUT uploads") != 0 {
			t.Errorf("%s: %v after %d bytes", name, err, s.Received)
		}
	}
}

// Two signatures before the first push need one list of referrers, which an immutable
// tag can hold.
func TestImmutableTwoSignatures(t *testing.T) {
	ctx := context.Background()
	src := openStore(t)
	desc := pack(t, src, "p-lite", layer(t, src, "g", "core", []byte("g")))
	for range 2 {
		if _, err := signWith(t, src, desc); err != nil {
			t.Fatal(err)
		}
	}
	s := registrytest.New()
	s.Immutable, s.ImmutableStrictly = true, true
	host := serve(t, s)
	for range 2 {
		if _, err := newClient(t, Options{}).Push(ctx, src, desc, host+"/team/p-lite:0.1.0", PushOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := newClient(t, Options{}).Referrers(ctx, host+"/team/p-lite", desc, ""); err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
}
