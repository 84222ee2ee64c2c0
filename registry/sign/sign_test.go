package sign

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/memory"
)

// now is the time at which the tests verify.
var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// key is a pair of one test.
type key struct {
	private *PrivateKey
	pem     []byte // public
}

func newKey(t testing.TB, alg Algorithm) key {
	t.Helper()
	private, public, err := Generate(alg, nil)
	if err != nil {
		t.Fatal(err)
	}
	k, err := LoadPrivate(private, nil)
	if err != nil {
		t.Fatal(err)
	}
	return key{private: k, pem: public}
}

// put stores data and returns its descriptor.
func put(t testing.TB, dst content.Pusher, mediaType string, data []byte) ocispec.Descriptor {
	t.Helper()
	d := content.NewDescriptorFromBytes(mediaType, data)
	if err := dst.Push(context.Background(), d, bytes.NewReader(data)); err != nil && !isExists(err) {
		t.Fatal(err)
	}
	return d
}

func isExists(err error) bool {
	return err != nil && bytes.Contains([]byte(err.Error()), []byte("already exists"))
}

// putJSON stores v as JSON.
func putJSON(t testing.TB, dst content.Pusher, mediaType string, v any) ocispec.Descriptor {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return put(t, dst, mediaType, data)
}

// putManifest stores a small artifact whose bytes depend on name.
func putManifest(t testing.TB, dst content.Pusher, name string) ocispec.Descriptor {
	t.Helper()
	config := put(t, dst, "application/vnd.cncf.model.config.v1+json", []byte(`{}`))
	layer := put(t, dst, "application/vnd.cncf.model.weight.v1.raw", []byte("weights of "+name))
	return putJSON(t, dst, ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		ArtifactType: "application/vnd.cncf.model.manifest.v1+json",
		Config:       config, Layers: []ocispec.Descriptor{layer},
	})
}

// putIndex stores an index over children.
func putIndex(t testing.TB, dst content.Pusher, children ...ocispec.Descriptor) ocispec.Descriptor {
	t.Helper()
	return putJSON(t, dst, ocispec.MediaTypeImageIndex, ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: children,
	})
}

// policy trusts the keys for registry.example/team.
func policy(keys map[string]key) Policy {
	p := Policy{Keys: map[string]TrustedKey{}}
	rule := Rule{Match: "registry.example/team/**"}
	for name, k := range keys {
		p.Keys[name] = TrustedKey{PEM: k.pem}
		rule.Keys = append(rule.Keys, name)
	}
	slices.Sort(rule.Keys)
	p.Rules = []Rule{rule}
	return p
}

const repository = "registry.example/team/core-llm"

// verify asks a policy about desc.
func verify(t testing.TB, p Policy, src content.ReadOnlyGraphStorage, repository string, desc ocispec.Descriptor) ([]string, error) {
	t.Helper()
	v, err := NewVerifier(p, VerifyOptions{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return v.Verify(context.Background(), src, repository, desc)
}

// sign releases desc.
func sign(t testing.TB, dst Target, desc ocispec.Descriptor, k key) []Signature {
	t.Helper()
	made, err := Sign(context.Background(), dst, desc, k.private, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestSignThenVerify(t *testing.T) {
	for _, alg := range []Algorithm{P256, Ed25519} {
		t.Run(string(alg), func(t *testing.T) {
			store := memory.New()
			desc := putManifest(t, store, "core-llm")
			k := newKey(t, alg)
			sign(t, store, desc, k)
			ids, err := verify(t, policy(map[string]key{"release": k}), store, repository, desc)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{k.private.Public().KeyID()}, ids); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSignIsDeterministic(t *testing.T) {
	for _, alg := range []Algorithm{P256, Ed25519} {
		k := newKey(t, alg)
		var made [2][]Signature
		for i := range made {
			store := memory.New()
			a, b := putManifest(t, store, "a"), putManifest(t, store, "b")
			index := putIndex(t, store, a, b, a)
			made[i] = sign(t, store, index, k)
			made[i] = append(made[i], sign(t, store, index, k)...) // again, on top
		}
		if diff := cmp.Diff(made[0], made[1]); diff != "" {
			t.Errorf("%s: two machines, two results: %s", alg, diff)
		}
		if diff := cmp.Diff(made[0][:3], made[0][3:]); diff != "" {
			t.Errorf("%s: signing again changed something: %s", alg, diff)
		}
	}
}

func TestSignIndexSignsChildren(t *testing.T) {
	store := memory.New()
	a, b := putManifest(t, store, "a"), putManifest(t, store, "b")
	index := putIndex(t, store, a, b)
	k := newKey(t, P256)
	var subjects []ocispec.Descriptor
	for _, s := range sign(t, store, index, k) {
		subjects = append(subjects, s.Subject)
	}
	if diff := cmp.Diff([]ocispec.Descriptor{a, b, index}, subjects); diff != "" {
		t.Fatal(diff)
	}
	for _, d := range subjects {
		if _, err := verify(t, policy(map[string]key{"release": k}), store, repository, d); err != nil {
			t.Error(err)
		}
	}
}

func TestSignCreatedComesFromOptionsOnly(t *testing.T) {
	store := memory.New()
	desc := putManifest(t, store, "a")
	k := newKey(t, Ed25519)
	made := sign(t, store, desc, k)
	if c, ok := made[0].Bundle.Annotations[ocispec.AnnotationCreated]; ok {
		t.Errorf("created %s from nowhere", c)
	}
	made, err := Sign(context.Background(), store, desc, k.private, Options{Created: time.Unix(1700000000, 0)})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := made[0].Bundle.Annotations[ocispec.AnnotationCreated], "2023-11-14T22:13:20Z"; got != want {
		t.Errorf("created %q, want %q", got, want)
	}
}

func TestSignRefusesNonsense(t *testing.T) {
	store := memory.New()
	k := newKey(t, P256)
	nested := putManifest(t, store, "a")
	for range maxNesting + 1 {
		nested = putIndex(t, store, nested)
	}
	layered := putIndex(t, store, put(t, store, "application/octet-stream", []byte("no manifest")))
	absent := putManifest(t, memory.New(), "elsewhere")
	upper := nested
	upper.Digest = "sha256:ABCDEF0000000000000000000000000000000000000000000000000000000000"
	for name, tt := range map[string]struct {
		desc ocispec.Descriptor
		want Reason
	}{
		"nested too deep":   {nested, Hostile},
		"blob in an index":  {layered, Hostile},
		"absent":            {absent, Missing},
		"upper-case digest": {upper, Hostile},
	} {
		_, err := Sign(context.Background(), store, tt.desc, k.private, Options{})
		if !errors.Is(err, &Refusal{Reason: tt.want}) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}

func TestAttestNeverReleases(t *testing.T) {
	store := memory.New()
	desc := putManifest(t, store, "a")
	k := newKey(t, P256)
	ctx := context.Background()
	if _, err := Attest(ctx, store, desc, Attestation{PredicateType: "https://example.org/evil/v1", Predicate: []byte(`{"a":1}`)}, k.private, Options{}); err != nil {
		t.Fatal(err)
	}
	_, err := verify(t, policy(map[string]key{"release": k}), store, repository, desc)
	if !errors.Is(err, &Refusal{Reason: AttestationOnly}) {
		t.Errorf("got %v, want %s", err, AttestationOnly)
	}
}

// failing seals a number of statements and then fails.
type failing struct {
	*PrivateKey
	left *int
}

// seal implements [Sealer].
func (f failing) seal(ctx context.Context, payload []byte) ([]byte, error) {
	if *f.left--; *f.left < 0 {
		return nil, errors.New("the log is down")
	}
	return f.PrivateKey.seal(ctx, payload)
}

// A signer that fails midway leaves nothing behind.
func TestSignAttachesAllOrNothing(t *testing.T) {
	ctx := t.Context()
	store := memory.New()
	k := newKey(t, P256)
	index := putIndex(t, store, putManifest(t, store, "a"), putManifest(t, store, "b"))
	for left := range 4 {
		n := left
		list, err := Sign(ctx, store, index, failing{k.private, &n}, Options{})
		if want := left == 3; (err == nil) != want || (len(list) == 3) != want {
			t.Errorf("after %d statements: %d signatures, %v", left, len(list), err)
		}
		if referrers, err := store.Predecessors(ctx, index); err != nil || left < 3 && len(referrers) > 0 {
			t.Errorf("after %d statements: %d referrers, %v", left, len(referrers), err)
		}
	}
}

// TestPAE holds the example of the DSSE protocol.
func TestPAE(t *testing.T) {
	got := string(pae("http://example.com/HelloWorld", []byte("hello world")))
	if want := "DSSEv1 29 http://example.com/HelloWorld 11 hello world"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := string(pae("", nil)), "DSSEv1 0  0 "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func Example() {
	ctx := context.Background()
	store := memory.New()
	manifest := []byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","layers":[]}`)
	desc := content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, manifest)
	_ = store.Push(ctx, desc, bytes.NewReader(manifest))

	private, public, _ := Generate(P256, []byte("password"))
	key, _ := LoadPrivate(private, func() ([]byte, error) { return []byte("password"), nil })
	made, _ := Sign(ctx, store, desc, key, Options{})

	verifier, _ := NewVerifier(Policy{
		Rules: []Rule{{Match: "registry.example/team/**", Keys: []string{"release"}}},
		Keys:  map[string]TrustedKey{"release": {PEM: public}},
	}, VerifyOptions{})
	keys, err := verifier.Verify(ctx, store, "registry.example/team/core-llm", desc)
	fmt.Println(len(made), "signature;", len(keys), "key;", err)
	_, err = verifier.Verify(ctx, store, "registry.example/other", desc)
	fmt.Println(errors.Is(err, &Refusal{Reason: NoRule}))
	// Output:
	// 1 signature; 1 key; <nil>
	// true
}
