package sign

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/content/memory"
)

// olderStore is a store with tags of cosign's older form.
type olderStore struct {
	*memory.Store
	tags map[string]bool
	err  error
}

func (s olderStore) OlderTag(_ context.Context, subject digest.Digest, kind string) (string, error) {
	tag := "sha256-" + subject.Encoded() + "." + kind
	if !s.tags[tag] {
		return "", s.err
	}
	return tag, s.err
}

// Without a bundle that releases it, an artifact with a tag of cosign's older form is
// refused by the name of that form; other refusals stay.
func TestOlderForm(t *testing.T) {
	good, stranger := newKey(t, P256), newKey(t, P256)
	v, err := NewVerifier(policy(map[string]key{"release": good}), VerifyOptions{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, kind string
		err        error
		attested   bool
		by         *key
		want       Reason
	}{
		{name: "signature", kind: "sig", want: OlderForm},
		{name: "evidence alone", kind: "att", want: Unsigned},
		{name: "nothing", want: Unsigned},
		{name: "the registry fails", kind: "sig", err: errors.New("503"), want: Unsigned},
		{name: "and an attestation", kind: "sig", attested: true, want: OlderForm},
		{name: "and a stranger's bundle", kind: "sig", by: &stranger, want: UnknownKey},
		{name: "and a bundle", kind: "sig", by: &good},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := olderStore{memory.New(), map[string]bool{}, c.err}
			d := putManifest(t, s.Store, "subject")
			s.tags["sha256-"+d.Digest.Encoded()+"."+c.kind] = true
			if c.attested {
				if _, err := Attest(t.Context(), s.Store, d, Attestation{PredicateType: "https://slsa.dev/provenance/v1", Predicate: []byte(`{}`)}, good.private, Options{}); err != nil {
					t.Fatal(err)
				}
			}
			if c.by != nil {
				if _, err := Sign(t.Context(), s.Store, d, c.by.private, Options{}); err != nil {
					t.Fatal(err)
				}
			}
			_, err := v.Verify(t.Context(), s, "registry.example/team/x", d)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, &Refusal{Reason: c.want}) || (c.want == OlderForm) != strings.Contains(err.Error(), ".sig holds a signature in the older form of cosign") {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if got, want := OlderEvidence(t.Context(), s, d) != "", c.kind == "att"; got != want {
				t.Errorf("evidence in the older form: got %v, want %v", got, want)
			}
		})
	}
}

// A refusal names its repository and its digest, if it has them.
func TestRefusalError(t *testing.T) {
	for want, r := range map[string]Refusal{
		"r/x@sha256:1 refused: why": {Repository: "r/x", Subject: "sha256:1", Detail: "why"},
		"sha256:1 refused: why":     {Subject: "sha256:1", Detail: "why"},
		"r/x refused: why":          {Repository: "r/x", Detail: "why"},
		"refused: why":              {Detail: "why"},
	} {
		if got := r.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
