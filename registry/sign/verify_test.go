package sign

import (
	"bytes"
	"context"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/memory"
)

// attachRaw hangs any bytes on subject as if they were a bundle.
func attachRaw(t testing.TB, dst content.Pusher, subject ocispec.Descriptor, data []byte, change func(*ocispec.Manifest)) ocispec.Descriptor {
	t.Helper()
	layer := put(t, dst, BundleMediaType, data)
	config := put(t, dst, ocispec.MediaTypeEmptyJSON, []byte(`{}`))
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		ArtifactType: BundleMediaType, Config: config, Layers: []ocispec.Descriptor{layer},
		Subject: &ocispec.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size},
	}
	if change != nil {
		change(&m)
	}
	return putJSON(t, dst, ocispec.MediaTypeImageManifest, m)
}

// release seals a release of subject.
func release(t testing.TB, k key, subject ocispec.Descriptor) []byte {
	t.Helper()
	data, err := seal(t.Context(), k.private, subject.Digest, Attestation{ReleaseType, json.RawMessage(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// edit changes one member of a JSON document, by its path.
func edit(t testing.TB, data []byte, v any, path ...string) []byte {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	at := doc
	for _, p := range path[:len(path)-1] {
		at = at[p].(map[string]any)
	}
	if v == nil {
		delete(at, path[len(path)-1])
	} else {
		at[path[len(path)-1]] = v
	}
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// flipPayload changes one byte of the payload.
func flipPayload(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bundle
	if err := json.Unmarshal(data, &b); err != nil {
		t.Fatal(err)
	}
	payload, _ := base64.StdEncoding.DecodeString(b.DSSEEnvelope.Payload)
	forged := strings.Replace(string(payload), `"predicate":{}`, `"predicate":{"x":1}`, 1)
	return edit(t, data, base64.StdEncoding.EncodeToString([]byte(forged)), "dsseEnvelope", "payload")
}

// TestRefusals holds one artifact for each way of not being released.
func TestRefusals(t *testing.T) {
	good, second, other := newKey(t, P256), newKey(t, Ed25519), newKey(t, P256)
	trust := func() Policy { return policy(map[string]key{"release": good}) }
	past, future := now.Add(-time.Second), now.Add(time.Hour)
	tests := []struct {
		name       string
		attach     func(t *testing.T, s *memory.Store, desc ocispec.Descriptor)
		policy     func() Policy
		repository string
		want       Reason
	}{
		{name: "unsigned", attach: func(*testing.T, *memory.Store, ocispec.Descriptor) {}, want: Unsigned},
		{name: "wrong key", want: UnknownKey, attach: func(t *testing.T, s *memory.Store, d ocispec.Descriptor) { sign(t, s, d, other) }},
		{name: "key not for this repository", want: Scope, repository: "registry.example/prod/core-llm", policy: func() Policy {
			p := policy(map[string]key{"release": good, "prod": second})
			p.Rules = []Rule{{Match: "registry.example/**", Keys: []string{"release"}}, {Match: "registry.example/prod/*", Keys: []string{"prod"}}}
			return p
		}},
		{name: "past not_after", want: Expired, policy: func() Policy {
			p := trust()
			p.Keys["release"] = TrustedKey{PEM: good.pem, NotAfter: past}
			return p
		}},
		{name: "revoked", want: Revoked, policy: func() Policy {
			p := trust()
			p.Keys["release"] = TrustedKey{PEM: good.pem, NotAfter: future, Revoked: true}
			return p
		}},
		{name: "signature of another subject", want: OtherSubject, attach: func(t *testing.T, s *memory.Store, d ocispec.Descriptor) {
			attachRaw(t, s, d, release(t, good, putManifest(t, s, "another")), nil)
		}},
		{name: "referrer of another subject", want: Unsigned, attach: func(t *testing.T, s *memory.Store, d ocispec.Descriptor) {
			attachRaw(t, s, putManifest(t, s, "another"), release(t, good, d), nil)
		}},
		{name: "attestation only", want: AttestationOnly, attach: func(t *testing.T, s *memory.Store, d ocispec.Descriptor) {
			if _, err := Attest(t.Context(), s, d, Attestation{PredicateType: "https://slsa.dev/provenance/v1", Predicate: []byte(`{}`)}, good.private, Options{}); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "attestation dressed as a release", want: AttestationOnly, attach: func(t *testing.T, s *memory.Store, d ocispec.Descriptor) {
			data, err := seal(t.Context(), good.private, d.Digest, Attestation{"https://example.org/evil/v1", json.RawMessage(`{}`)})
			if err != nil {
				t.Fatal(err)
			}
			attachRaw(t, s, d, data, func(m *ocispec.Manifest) {
				m.Annotations = map[string]string{annotationPredicate: ReleaseType, annotationContent: contentDSSE}
			})
		}},
		{name: "payload changed after signing", want: BadSignature, attach: func(t *testing.T, s *memory.Store, d ocispec.Descriptor) {
			attachRaw(t, s, d, flipPayload(t, release(t, good, d)), nil)
		}},
		{name: "signed by another key under this key's hint", want: BadSignature, attach: func(t *testing.T, s *memory.Store, d ocispec.Descriptor) {
			attachRaw(t, s, d, edit(t, release(t, other, d), good.private.Public().hint(), "verificationMaterial", "publicKey", "hint"), nil)
		}},
		{name: "threshold", want: Threshold, policy: func() Policy {
			p := policy(map[string]key{"release": good, "second": second})
			p.Rules[0].Threshold = 2
			return p
		}},
		{name: "threshold by one key twice", want: Threshold, policy: func() Policy {
			p := policy(map[string]key{"release": good, "second": second})
			p.Rules[0].Threshold = 2
			return p
		}, attach: func(t *testing.T, s *memory.Store, d ocispec.Descriptor) {
			for _, at := range []time.Time{now, future} {
				if _, err := Sign(context.Background(), s, d, good.private, Options{Created: at}); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{name: "threshold with one revoked", want: Threshold, policy: func() Policy {
			p := policy(map[string]key{"release": good, "second": second})
			p.Rules[0].Threshold = 2
			p.Keys["second"] = TrustedKey{PEM: second.pem, Revoked: true}
			return p
		}, attach: func(t *testing.T, s *memory.Store, d ocispec.Descriptor) { sign(t, s, d, good); sign(t, s, d, second) }},
		{name: "no rule", want: NoRule, repository: "registry.example/teams/core-llm"},
		{name: "ambiguous rule", want: AmbiguousRule, policy: func() Policy {
			p := trust()
			p.Rules = []Rule{{Match: "registry.example/team/core-*", Keys: []string{"release"}}, {Match: "registry.example/team/*-llm*", Keys: []string{"release"}}}
			p.Rules[1].Match = "registry.example/team/*e-llm"
			return p
		}},
		{name: "certificate", want: Malformed, attach: func(t *testing.T, s *memory.Store, d ocispec.Descriptor) {
			data := edit(t, release(t, good, d), nil, "verificationMaterial", "publicKey")
			attachRaw(t, s, d, edit(t, data, map[string]any{"rawBytes": "AA=="}, "verificationMaterial", "certificate"), nil)
		}},
		{name: "no identity", want: Malformed, attach: func(t *testing.T, s *memory.Store, d ocispec.Descriptor) {
			attachRaw(t, s, d, edit(t, release(t, good, d), nil, "verificationMaterial", "publicKey"), nil)
		}},
		{name: "other payload type", want: Malformed, attach: func(t *testing.T, s *memory.Store, d ocispec.Descriptor) {
			attachRaw(t, s, d, edit(t, release(t, good, d), "application/json", "dsseEnvelope", "payloadType"), nil)
		}},
		{name: "other bundle version", want: Malformed, attach: func(t *testing.T, s *memory.Store, d ocispec.Descriptor) {
			attachRaw(t, s, d, edit(t, release(t, good, d), "application/vnd.dev.sigstore.bundle+json;version=0.1", "mediaType"), nil)
		}},
		{name: "message signature", want: Malformed, attach: func(t *testing.T, s *memory.Store, d ocispec.Descriptor) {
			data := edit(t, release(t, good, d), nil, "dsseEnvelope")
			attachRaw(t, s, d, edit(t, data, map[string]any{"signature": "AA=="}, "messageSignature"), nil)
		}},
		{name: "not JSON", want: Malformed, attach: func(t *testing.T, s *memory.Store, d ocispec.Descriptor) { attachRaw(t, s, d, []byte("{"), nil) }},
		{name: "two layers", want: Malformed, attach: func(t *testing.T, s *memory.Store, d ocispec.Descriptor) {
			attachRaw(t, s, d, release(t, good, d), func(m *ocispec.Manifest) { m.Layers = append(m.Layers, m.Layers[0]) })
		}},
		{name: "bundle too long", want: Malformed, attach: func(t *testing.T, s *memory.Store, d ocispec.Descriptor) {
			attachRaw(t, s, d, append(release(t, good, d), strings.Repeat(" ", maxBundle)...), nil)
		}},
		{name: "absent bundle", want: Missing, attach: func(t *testing.T, s *memory.Store, d ocispec.Descriptor) {
			attachRaw(t, s, d, release(t, good, d), func(m *ocispec.Manifest) {
				m.Layers[0] = content.NewDescriptorFromBytes(BundleMediaType, []byte("gone"))
			})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := memory.New()
			desc := putManifest(t, s, "core-llm")
			if tt.attach == nil {
				tt.attach = func(t *testing.T, s *memory.Store, d ocispec.Descriptor) { sign(t, s, d, good) }
			}
			tt.attach(t, s, desc)
			if tt.policy == nil {
				tt.policy = trust
			}
			if tt.repository == "" {
				tt.repository = repository
			}
			ids, err := verify(t, tt.policy(), s, tt.repository, desc)
			var r *Refusal
			if !errors.As(err, &r) {
				t.Fatalf("keys %v, error %v; want a refusal", ids, err)
			}
			if r.Reason != tt.want {
				t.Errorf("reason %s (%v), want %s", r.Reason, r, tt.want)
			}
			if r.Subject != desc.Digest || r.Repository != tt.repository || r.Detail == "" || r.Hint == "" || ids != nil {
				t.Errorf("refusal not complete: %+v", r)
			}
		})
	}
}

func TestVerifyAcceptsBesideRefuse(t *testing.T) {
	good, second, other := newKey(t, P256), newKey(t, Ed25519), newKey(t, P256)
	s := memory.New()
	desc := putManifest(t, s, "core-llm")
	attachRaw(t, s, desc, []byte("garbage"), nil)
	attachRaw(t, s, desc, flipPayload(t, release(t, good, desc)), nil)
	attachRaw(t, s, desc, release(t, good, putManifest(t, s, "another")), nil)
	sign(t, s, desc, other)
	sign(t, s, desc, good)
	sign(t, s, desc, second)
	p := policy(map[string]key{"release": good, "second": second})
	p.Rules[0].Threshold = 2
	ids, err := verify(t, p, s, repository, desc)
	if err != nil || len(ids) != 2 || ids[0] >= ids[1] {
		t.Errorf("keys %v, error %v; want two, sorted", ids, err)
	}
}

func TestVerifyToleratesForeignMembers(t *testing.T) {
	k := newKey(t, P256)
	s := memory.New()
	desc := putManifest(t, s, "core-llm")
	data := release(t, k, desc)
	data = edit(t, data, []any{map[string]any{"logIndex": "1"}}, "verificationMaterial", "tlogEntries")
	data = edit(t, data, map[string]any{"rfc3161Timestamps": []any{}}, "verificationMaterial", "timestampVerificationData")
	data = edit(t, data, "", "verificationMaterial", "publicKey", "hint")
	attachRaw(t, s, desc, data, nil)
	if _, err := verify(t, policy(map[string]key{"release": k}), s, repository, desc); err != nil {
		t.Error(err)
	}
}

func TestVerifyDefaultWarn(t *testing.T) {
	s := memory.New()
	desc := putManifest(t, s, "core-llm")
	p := Policy{Default: Warn}
	if _, err := verify(t, p, s, repository, desc); !errors.Is(err, &Refusal{Reason: NoRule}) {
		t.Errorf("without Warned: %v, want %s", err, NoRule)
	}
	var warned *Refusal
	v, err := NewVerifier(p, VerifyOptions{Now: now, Warned: func(r *Refusal) { warned = r }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(context.Background(), s, repository, desc); err != nil {
		t.Error(err)
	}
	if warned == nil || warned.Reason != NoRule || warned.Subject != desc.Digest {
		t.Errorf("warned of %v", warned)
	}
}

func TestVerifyWithoutTimeDistrustsKeysWithAnEnd(t *testing.T) {
	k := newKey(t, Ed25519)
	s := memory.New()
	desc := putManifest(t, s, "core-llm")
	sign(t, s, desc, k)
	p := policy(map[string]key{"release": k})
	p.Keys["release"] = TrustedKey{PEM: k.pem, NotAfter: now.AddDate(100, 0, 0)}
	v, err := NewVerifier(p, VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(context.Background(), s, repository, desc); !errors.Is(err, &Refusal{Reason: Expired}) {
		t.Errorf("%v, want %s", err, Expired)
	}
}

// TestVerifyIsBounded hangs far more on a manifest than is ever read.
func TestVerifyIsBounded(t *testing.T) {
	k, other := newKey(t, Ed25519), newKey(t, Ed25519)
	s := memory.New()
	desc := putManifest(t, s, "core-llm")
	for i := range 3 * maxBundles {
		attachRaw(t, s, desc, edit(t, release(t, other, desc), fmt.Sprint(i), "verificationMaterial", "publicKey", "hint"), nil)
	}
	count := &counted{ReadOnlyGraphStorage: s}
	if _, err := verify(t, policy(map[string]key{"release": k}), count, repository, desc); !errors.Is(err, &Refusal{Reason: UnknownKey}) {
		t.Errorf("%v, want %s", err, UnknownKey)
	}
	if count.bytes > maxBundleBytes+2*maxBundle || count.fetched > 2*maxManifests+1 {
		t.Errorf("%d blobs read, %d bytes", count.fetched, count.bytes)
	}
	// A real release is found among them by its annotation.
	sign(t, s, desc, k)
	if _, err := verify(t, policy(map[string]key{"release": k}), annotated{s}, repository, desc); err != nil {
		t.Error(err)
	}
}

// counted counts the blobs read from a source.
type counted struct {
	content.ReadOnlyGraphStorage
	fetched int
	bytes   int64
}

func (c *counted) Fetch(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	c.fetched++
	c.bytes += d.Size
	return c.ReadOnlyGraphStorage.Fetch(ctx, d)
}

// annotated lists referrers with their annotations, as registries do.
type annotated struct{ *memory.Store }

func (a annotated) Referrers(ctx context.Context, desc ocispec.Descriptor, artifactType string) ([]ocispec.Descriptor, error) {
	list, err := a.Store.Predecessors(ctx, desc)
	if err != nil {
		return nil, err
	}
	for i, d := range list {
		data, err := content.FetchAll(ctx, a.Store, d)
		if err != nil {
			return nil, err
		}
		var m ocispec.Manifest
		if err := json.Unmarshal(data, &m); err != nil {
			return nil, err
		}
		list[i].ArtifactType, list[i].Annotations = m.ArtifactType, m.Annotations
	}
	return list, nil
}

// TestJunkHidesNothing attaches more bundles to a manifest than were once
// read, all labeled as releases; the real one is larger than they are.
func TestJunkHidesNothing(t *testing.T) {
	k, other := newKey(t, P256), newKey(t, Ed25519)
	s := memory.New()
	desc := putManifest(t, s, "core-llm")
	notes := func(m *ocispec.Manifest) { m.Annotations = map[string]string{annotationPredicate: ReleaseType} }
	for i := range maxBundles + 50 {
		attachRaw(t, s, desc, edit(t, release(t, other, desc), fmt.Sprint(i), "verificationMaterial", "publicKey", "hint"), notes)
	}
	sign(t, s, desc, k)
	if _, err := verify(t, policy(map[string]key{"release": k}), annotated{s}, repository, desc); err != nil {
		t.Error(err)
	}

	// Bundles beyond the budget are not read.
	s = memory.New()
	desc = putManifest(t, s, "core-llm")
	for i := range 40 {
		attachRaw(t, s, desc, append(release(t, other, desc), bytes.Repeat([]byte(" "), maxBundle-4096+i)...), notes)
	}
	count := &counted{ReadOnlyGraphStorage: s}
	if _, err := verify(t, policy(map[string]key{"release": k}), count, repository, desc); err == nil {
		t.Error("verified")
	}
	if count.bytes > maxBundleBytes+2*maxBundle {
		t.Errorf("%d bytes read", count.bytes)
	}
}

// TestVouches: a statement by a known key is kept, whatever its type; those of
// other keys are not.
func TestVouches(t *testing.T) {
	k, other := newKey(t, P256), newKey(t, Ed25519)
	s := memory.New()
	desc, elsewhere := putManifest(t, s, "core-llm"), putManifest(t, s, "other")
	v, err := NewVerifier(policy(map[string]key{"release": k}), VerifyOptions{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	sign(t, s, desc, k)
	sign(t, s, desc, other)
	attachRaw(t, s, desc, release(t, k, elsewhere), nil)
	attachRaw(t, s, desc, []byte("junk"), nil)
	list, err := s.Predecessors(context.Background(), desc)
	if err != nil || len(list) != 4 {
		t.Fatal(len(list), err)
	}
	n := 0
	for _, b := range list {
		ok, err := v.Vouches(context.Background(), s, desc, b)
		if err != nil {
			t.Error(err)
		}
		if ok {
			n++
		}
	}
	if n != 1 {
		t.Errorf("vouches for %d bundles of 4, want 1", n)
	}
}

// TestDEROnly: one signature has one form.
func TestDEROnly(t *testing.T) {
	k := newKey(t, P256)
	message := []byte("message")
	der, err := k.private.sign(message)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.private.Public().verify(message, der); err != nil {
		t.Error(err)
	}
	var pair struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &pair); err != nil {
		t.Fatal(err)
	}
	plain := append(pair.R.FillBytes(make([]byte, 32)), pair.S.FillBytes(make([]byte, 32))...)
	for name, sig := range map[string][]byte{"two numbers side by side": plain, "with a byte more": append(slices.Clone(der), 0), "none": nil} {
		if err := k.private.Public().verify(message, sig); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestVerifyTamperedManifest(t *testing.T) {
	k := newKey(t, P256)
	s := memory.New()
	desc := putManifest(t, s, "core-llm")
	sign(t, s, desc, k)
	p := policy(map[string]key{"release": k})
	for name, tt := range map[string]struct {
		src  content.ReadOnlyGraphStorage
		desc ocispec.Descriptor
		want Reason
	}{
		"changed": {&flipped{ReadOnlyGraphStorage: s, digest: desc.Digest.String()}, desc, Tampered},
		"huge":    {s, ocispec.Descriptor{MediaType: desc.MediaType, Digest: desc.Digest, Size: maxManifest + 1}, Hostile},
		"absent":  {s, content.NewDescriptorFromBytes(desc.MediaType, []byte("absent")), Missing},
	} {
		if _, err := verify(t, p, tt.src, repository, tt.desc); !errors.Is(err, &Refusal{Reason: tt.want}) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}

// flipped serves one blob with a byte changed.
type flipped struct {
	content.ReadOnlyGraphStorage
	digest string
}

func (f *flipped) Fetch(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	r, err := f.ReadOnlyGraphStorage.Fetch(ctx, ocispec.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size})
	if err != nil || d.Digest.String() != f.digest {
		return r, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	data[len(data)/2] ^= 1
	return io.NopCloser(strings.NewReader(string(data))), nil
}

func TestNewVerifierTellsAllFaults(t *testing.T) {
	k := newKey(t, P256)
	_, err := NewVerifier(Policy{
		Default: "maybe",
		Rules: []Rule{
			{Match: "a//b", Keys: []string{"good"}},
			{Match: "a/**", Keys: []string{"nobody", "good", "good"}, Threshold: 4},
			{Match: "a/**"},
		},
		Keys: map[string]TrustedKey{"good": {PEM: k.pem}, "twin": {PEM: k.pem}, "bad": {PEM: []byte("x")}},
	}, VerifyOptions{})
	var got []string
	for _, line := range strings.Split(fmt.Sprint(err), "\n") {
		path, _, _ := strings.Cut(strings.TrimPrefix(line, "trust policy: "), ": ")
		got = append(got, path)
	}
	want := []string{"default", "keys.bad", "keys.twin", "rules[0].match", "rules[1].keys[0]", "rules[1].keys[2]",
		"rules[1].threshold", "rules[2].match", "rules[2].keys"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff, err)
	}
}
