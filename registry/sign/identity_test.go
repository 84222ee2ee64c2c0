package sign

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/memory"

	"mm-abi.org/mm/registry/sigstore"
	"mm-abi.org/mm/registry/sigstore/sigstoretest"
)

const (
	tokenIssuer = "https://token.test"
	workflow    = "https://forge.test/org/repo/.github/workflows/release.yml@refs/tags/v1"
	team        = "registry.example/team/model"
)

// parseRoot reads a root that is known to be sound.
func parseRoot(t testing.TB, data []byte) *sigstore.Root {
	t.Helper()
	r, err := sigstore.ParseRoot(data)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// certified returns a statement about d in a bundle with a certificate.
func certified(w *sigstoretest.World, d ocispec.Descriptor, typ string, edit func(*sigstoretest.Signing)) []byte {
	s := sigstoretest.Signing{Subject: workflow, Issuer: tokenIssuer, At: now.Add(-time.Hour), Extensions: map[int]string{12: "https://forge.test/org/repo", 17: "42"}}
	s.Payload = fmt.Appendf(nil, `{"_type":%q,"subject":[{"digest":{"sha256":%q}}],"predicateType":%q,"predicate":{"a":1}}`, statementType, d.Digest.Encoded(), typ)
	if edit != nil {
		edit(&s)
	}
	return w.Bundle(s)
}

// identities returns a policy that trusts one identity for team.
func identities(root *sigstore.Root, edit func(*TrustedIdentity)) Policy {
	i := TrustedIdentity{Root: "root", Issuer: tokenIssuer, Subject: workflow}
	if edit != nil {
		edit(&i)
	}
	return Policy{
		Roots: map[string]*sigstore.Root{"root": root}, Identities: map[string]TrustedIdentity{"ci": i},
		Rules: []Rule{{Match: "registry.example/team/**", Keys: []string{"ci"}}},
	}
}

// An identity of the policy releases an artifact; each part of it must match.
func TestIdentity(t *testing.T) {
	w := sigstoretest.New(t, now)
	root := parseRoot(t, w.Root())
	elsewhere := parseRoot(t, sigstoretest.New(t, now).Root())
	type signing = sigstoretest.Signing
	for name, c := range map[string]struct {
		signing func(*signing)
		policy  func(*TrustedIdentity)
		root    *sigstore.Root
		want    Reason // "": released
	}{
		"exact subject": {},
		"pattern": {policy: func(i *TrustedIdentity) {
			i.Subject, i.Pattern = "", `^https://forge\.test/org/repo/.*@refs/tags/v\d+$`
		}},
		"extensions":       {policy: func(i *TrustedIdentity) { i.Extensions = map[string]string{"source_repository_owner_identifier": "42"} }},
		"not yet expired":  {policy: func(i *TrustedIdentity) { i.NotAfter = now }},
		"other issuer":     {policy: func(i *TrustedIdentity) { i.Issuer = "https://other.test" }, want: UnknownKey},
		"issuer as prefix": {policy: func(i *TrustedIdentity) { i.Issuer = "https://token" }, want: UnknownKey},
		"other subject":    {policy: func(i *TrustedIdentity) { i.Subject = strings.Replace(workflow, "org", "fork", 1) }, want: UnknownKey},
		"branch, not a tag": {signing: func(s *signing) { s.Subject = strings.Replace(workflow, "tags/v1", "heads/v1", 1) }, policy: func(i *TrustedIdentity) {
			i.Subject, i.Pattern = "", `^https://forge\.test/org/repo/.*@refs/tags/v\d+$`
		}, want: UnknownKey},
		"pattern of a part":        {policy: func(i *TrustedIdentity) { i.Subject, i.Pattern = "", `^https://forge\.test/org|v2$` }, want: UnknownKey},
		"fork by owner's number":   {policy: func(i *TrustedIdentity) { i.Extensions = map[string]string{"source_repository_owner_identifier": "43"} }, want: UnknownKey},
		"extension absent":         {signing: func(s *signing) { s.Extensions = nil }, policy: func(i *TrustedIdentity) { i.Extensions = map[string]string{"source_repository_owner_identifier": "42"} }, want: UnknownKey},
		"expired":                  {policy: func(i *TrustedIdentity) { i.NotAfter = now.Add(-time.Second) }, want: Expired},
		"revoked":                  {policy: func(i *TrustedIdentity) { i.Revoked = true }, want: Revoked},
		"another root":             {root: elsewhere, want: BadCertificate},
		"certificate expired":      {signing: func(s *signing) { s.NotAfter = s.At.Add(-time.Second) }, want: BadCertificate},
		"not in the log":           {signing: func(s *signing) { s.OtherLeaf = true }, want: BadCertificate},
		"by another key":           {signing: func(s *signing) { s.ForeignSignature = true }, want: BadCertificate},
		"no issuer":                {signing: func(s *signing) { s.Issuer = "" }, want: BadCertificate},
		"clock ten minutes behind": {signing: func(s *signing) { s.At = now.Add(maxAhead) }},
		"clock an hour behind":     {signing: func(s *signing) { s.At = now.Add(time.Hour) }, want: Early},
		"payload type":             {signing: func(s *signing) { s.PayloadType = "text/plain" }, want: Malformed},
		"message signature":        {signing: func(s *signing) { s.Message, s.Payload = s.Payload, nil }, want: Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			s, r := memory.New(), root
			if c.root != nil {
				r = c.root
			}
			d := putManifest(t, s, "model")
			attachRaw(t, s, d, certified(w, d, ReleaseType, c.signing), nil)
			v := verifier(t, identities(r, c.policy))
			signers, err := v.Signers(context.Background(), s, team, d)
			if c.want != "" {
				if !errors.Is(err, &Refusal{Reason: c.want}) {
					t.Errorf("got %v, want %s", err, c.want)
				}
				return
			}
			if err != nil || len(signers) != 1 || signers[0].Issuer != tokenIssuer || signers[0].Subject != workflow || v.Names(signers[0])[0] != "ci" {
				t.Errorf("got %+v, %v", signers, err)
			}
		})
	}
}

// verifier returns the verifier of a sound policy at the time now.
func verifier(t testing.TB, p Policy) *Verifier {
	t.Helper()
	v, err := NewVerifier(p, VerifyOptions{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A signature of another digest, and one for which the identity may not sign.
func TestIdentityScope(t *testing.T) {
	ctx := context.Background()
	w := sigstoretest.New(t, now)
	v := verifier(t, identities(parseRoot(t, w.Root()), nil))
	s := memory.New()
	d, other := putManifest(t, s, "model"), putManifest(t, s, "other")
	attachRaw(t, s, d, certified(w, other, ReleaseType, nil), nil)
	attachRaw(t, s, other, certified(w, other, "https://slsa.dev/provenance/v1", nil), nil)
	for _, c := range []struct {
		repository string
		desc       ocispec.Descriptor
		want       Reason
	}{{team, d, OtherSubject}, {team, other, AttestationOnly}, {"registry.example/prod/model", other, NoRule}} {
		if _, err := v.Verify(ctx, s, c.repository, c.desc); !errors.Is(err, &Refusal{Reason: c.want}) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	bundle := attachRaw(t, s, other, certified(w, other, ReleaseType, nil), nil)
	if ok, err := v.Vouches(ctx, s, other, bundle); !ok || err != nil {
		t.Errorf("vouches: %v, %v", ok, err)
	}
	mixed := attachRaw(t, s, d, certified(w, other, ReleaseType, nil), nil)
	if ok, err := v.Vouches(ctx, s, d, mixed); ok || err != nil {
		t.Errorf("vouches for another digest: %v, %v", ok, err)
	}
}

// Evidence by an identity counts; evidence of another digest, of another identity, and by
// an identity that is not confirmed does not.
func TestIdentityAttestations(t *testing.T) {
	ctx := context.Background()
	w := sigstoretest.New(t, now)
	v := verifier(t, identities(parseRoot(t, w.Root()), nil))
	s := memory.New()
	d := putManifest(t, s, "model")
	const provenance = "https://slsa.dev/provenance/v1"
	attachRaw(t, s, d, certified(w, putManifest(t, s, "other"), provenance, nil), nil)
	attachRaw(t, s, d, certified(w, d, provenance, func(s *sigstoretest.Signing) { s.Subject = "https://forge.test/fork" }), nil)
	attachRaw(t, s, d, certified(w, d, provenance, func(s *sigstoretest.Signing) { s.NoTimestamps = true }), nil)
	list, others, err := v.Attestations(ctx, s, d)
	if err != nil || len(list) != 0 || others != 3 {
		t.Fatalf("got %v, %d, %v", list, others, err)
	}
	attachRaw(t, s, d, certified(w, d, provenance, nil), nil)
	list, _, err = v.Attestations(ctx, s, d)
	if err != nil || len(list) != 1 || list[0].Signer.Subject != workflow {
		t.Fatalf("got %v, %v", list, err)
	}
	if err := v.Accept(team, list[0].Signer); err != nil {
		t.Error(err)
	}
	if err := v.Accept(team, Signer{ID: list[0].Signer.ID, Issuer: tokenIssuer, Subject: workflow}); err == nil {
		t.Error("a signer that no root confirmed was accepted")
	}
}

// One identity counts once, however many subjects its pattern matches; a revoked entry
// precedes all others.
func TestIdentityThreshold(t *testing.T) {
	w := sigstoretest.New(t, now)
	root := parseRoot(t, w.Root())
	k := newKey(t, P256)
	s := memory.New()
	d := putManifest(t, s, "model")
	attachRaw(t, s, d, certified(w, d, ReleaseType, nil), nil)
	attachRaw(t, s, d, certified(w, d, ReleaseType, func(s *sigstoretest.Signing) { s.Subject = strings.Replace(workflow, "v1", "v2", 1) }), nil)
	p := identities(root, func(i *TrustedIdentity) { i.Subject, i.Pattern = "", `^https://forge\.test/org/.*$` })
	p.Keys = map[string]TrustedKey{"release": {PEM: k.pem}}
	p.Rules[0].Keys, p.Rules[0].Threshold = []string{"ci", "release"}, 2
	verify := func(want Reason) {
		t.Helper()
		_, err := verifier(t, p).Verify(context.Background(), s, team, d)
		if want == "" && err != nil || want != "" && !errors.Is(err, &Refusal{Reason: want}) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	verify(Threshold)
	sign(t, s, d, k)
	verify("")
	p.Identities["old"] = TrustedIdentity{Root: "root", Issuer: tokenIssuer, Subject: workflow, Revoked: true}
	verify("") // the other subject and the key
	p.Identities["old"] = TrustedIdentity{Root: "root", Issuer: tokenIssuer, Pattern: `^https://.*$`, Revoked: true}
	verify(Threshold)
}

// A signature of an identity counts even if another one by the same subject does not; the
// two count once.
func TestIdentityTwice(t *testing.T) {
	w := sigstoretest.New(t, now)
	s := memory.New()
	d := putManifest(t, s, "model")
	p := identities(parseRoot(t, w.Root()), nil)
	owner := func(number string) map[string]string {
		return map[string]string{"source_repository_owner_identifier": number}
	}
	for name, number := range map[string]string{"first": "1", "second": "2"} {
		p.Identities[name] = TrustedIdentity{Root: "root", Issuer: tokenIssuer, Subject: workflow, Extensions: owner(number)}
		attachRaw(t, s, d, certified(w, d, ReleaseType, func(s *sigstoretest.Signing) { s.Extensions = map[int]string{17: number} }), nil)
	}
	for _, name := range []string{"first", "second"} {
		p.Rules[0].Keys = []string{name}
		ids, err := verifier(t, p).Verify(context.Background(), s, team, d)
		if err != nil || len(ids) != 1 {
			t.Errorf("%s: got %v, %v", name, ids, err)
		}
	}
	p.Rules[0].Keys, p.Rules[0].Threshold = []string{"first", "second"}, 2
	if _, err := verifier(t, p).Verify(context.Background(), s, team, d); err == nil {
		t.Error("one subject counted as two")
	}
}

func TestPairs(t *testing.T) {
	for _, c := range []struct {
		sets string // a set a letter list
		want int
	}{{"", 0}, {"a", 1}, {"a a", 1}, {"ab a", 2}, {"a ab", 2}, {"ab ab ab", 2}, {"ab c c", 2}, {"ab bc ca", 3}, {"a ab abc", 3}} {
		var sets [][]string
		for _, f := range strings.Fields(c.sets) {
			sets = append(sets, strings.Split(f, ""))
		}
		if got := pairs(sets); got != c.want {
			t.Errorf("%q: got %d, want %d", c.sets, got, c.want)
		}
	}
}

func TestIdentityFaults(t *testing.T) {
	root := parseRoot(t, sigstoretest.New(t, now).Root())
	long := func(n int) string { return strings.Repeat("a", n) }
	for want, edit := range map[string]func(*TrustedIdentity){
		"":                            nil,
		"unknown root":                func(i *TrustedIdentity) { i.Root = "other" },
		"want an issuer":              func(i *TrustedIdentity) { i.Issuer = "" },
		"either subject or":           func(i *TrustedIdentity) { i.Subject = "" },
		"either subject or subject_p": func(i *TrustedIdentity) { i.Pattern = "^a$" },
		"does not begin with ^":       func(i *TrustedIdentity) { i.Subject, i.Pattern = "", "https://forge.test/.*" },
		"and end with $":              func(i *TrustedIdentity) { i.Subject, i.Pattern = "", `^a\$` },
		"missing closing":             func(i *TrustedIdentity) { i.Subject, i.Pattern = "", "^(a$" },
		"unknown extension":           func(i *TrustedIdentity) { i.Extensions = map[string]string{"color": "red"} },
		"more than 2048 bytes":        func(i *TrustedIdentity) { i.Subject = long(maxIdentity + 1) },
	} {
		p := identities(root, edit)
		err := p.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	p := identities(root, func(i *TrustedIdentity) { i.Subject = long(maxIdentity) })
	if err := p.Validate(); err != nil {
		t.Errorf("maxIdentity: %v", err)
	}
	for more, want := range []bool{false, true} {
		p := identities(root, func(i *TrustedIdentity) {
			i.Extensions = map[string]string{}
			for n := range maxExtensions + more {
				i.Extensions[fmt.Sprint("e", n)] = "x"
			}
		})
		if err := p.Validate(); err == nil || strings.Contains(err.Error(), "want at most 32") != want {
			t.Errorf("maxExtensions+%d: %v", more, err)
		}
	}
	p.Keys = map[string]TrustedKey{"ci": {PEM: newKey(t, P256).pem}}
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "same name") {
		t.Errorf("a key and an identity of one name: %v", err)
	}
}
