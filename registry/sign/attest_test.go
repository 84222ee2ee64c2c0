package sign

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"oras.land/oras-go/v2/content/memory"
)

// Evidence by keys of the policy is listed, everything else is counted, and only keys
// that may release a repository are accepted for it.
func TestAttestations(t *testing.T) {
	ctx := context.Background()
	good, other := newKey(t, P256), newKey(t, Ed25519)
	s := memory.New()
	d, another := putManifest(t, s, "model"), putManifest(t, s, "another")
	attestation := Attestation{PredicateType: "https://cyclonedx.org/bom", Predicate: []byte(`{"a": 1}`)}
	for _, c := range []struct {
		key     key
		subject string
	}{{good, "model"}, {other, "model"}, {good, "another"}} {
		subject := d
		if c.subject == "another" {
			subject = another
		}
		for range 2 { // idempotent
			if _, err := Attest(ctx, s, subject, attestation, c.key.private, Options{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := Sign(ctx, s, d, good.private, Options{}); err != nil {
		t.Fatal(err)
	}
	attachRaw(t, s, d, []byte(`{}`), nil)

	p := Policy{Keys: map[string]TrustedKey{"release": {PEM: good.pem}}, Rules: []Rule{{Match: "registry.example/team/*", Keys: []string{"release"}}}}
	v, err := NewVerifier(p, VerifyOptions{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	list, others, err := v.Attestations(ctx, s, d)
	if err != nil {
		t.Fatal(err)
	}
	id := good.private.Public().KeyID()
	want := []Attested{{Attestation{attestation.PredicateType, []byte(`{"a":1}`)}, Signer{ID: id}}}
	if diff := cmp.Diff(want, list, cmp.AllowUnexported(Signer{})); diff != "" || others != 3 { // another key, a release, a malformed one
		t.Errorf("%d others, (-want +got):\n%s", others, diff)
	}
	if err := v.Accept("registry.example/team/model", Signer{ID: id}); err != nil {
		t.Errorf("the release key: %v", err)
	}
	for repository, ids := range map[string][]string{
		"registry.example/other/model": {id}, "registry.example/team/model": {other.private.Public().KeyID()}, "registry.example/team/none": nil,
	} {
		var signers []Signer
		for _, id := range ids {
			signers = append(signers, Signer{ID: id})
		}
		if err := v.Accept(repository, signers...); err == nil {
			t.Errorf("%s: accepted keys %v", repository, ids)
		}
	}
	// An attestation alone is not a release.
	if _, err := v.Verify(ctx, s, "registry.example/team/model", another); err == nil {
		t.Error("an artifact with attestations only was verified")
	}
}

func TestAttestRefusals(t *testing.T) {
	s := memory.New()
	d, k := putManifest(t, s, "model"), newKey(t, P256)
	for name, a := range map[string]Attestation{
		"release":   {ReleaseType, []byte(`{}`)},
		"no type":   {"", []byte(`{}`)},
		"no object": {"https://example.org/x", []byte(`[]`)},
		"no JSON":   {"https://example.org/x", []byte(`{`)},
		"duplicate": {"https://example.org/x", []byte(`{"a":1,"A":2}`)},
	} {
		if _, err := Attest(context.Background(), s, d, a, k.private, Options{}); err == nil {
			t.Errorf("%s: attested", name)
		}
	}
}
