package sign

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/memory"
)

// pages lists referrers page by page and counts the pages read.
type pages struct {
	*memory.Store
	sizes []int
	read  *int
}

// Referrers implements lister.
func (p pages) Referrers(_ context.Context, _ ocispec.Descriptor, _ string, fn func([]ocispec.Descriptor) error) error {
	for _, size := range p.sizes {
		*p.read++
		if err := fn(make([]ocispec.Descriptor, size)); err != nil {
			return err
		}
	}
	return nil
}

func TestReferrerLimits(t *testing.T) {
	ctx := context.Background()
	for more, want := range []int{1, 0} {
		d := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, ArtifactType: BundleMediaType, Digest: digest.FromString("x"), Size: int64(maxReferrer + more)}
		if found, err := bundles(ctx, shelf{memory.New(), []ocispec.Descriptor{d}}, ocispec.Descriptor{}); err != nil || len(found) != want {
			t.Errorf("maxReferrer+%d: %d found, %v", more, len(found), err)
		}
		budget := int64(maxBundleBytes)
		if _, err := fetchBundle(ctx, memory.New(), d, "", &budget); err == nil || (budget == maxBundleBytes) != (want == 0) {
			t.Errorf("maxReferrer+%d: %d bytes left, %v", more, budget, err)
		}

		// The page that reaches the limit is the last one.
		read := 0
		if _, err := bundles(ctx, pages{memory.New(), []int{maxReferrers - 1 + more, 1}, &read}, ocispec.Descriptor{}); err != nil || read != want+1 {
			t.Errorf("maxReferrers+%d: %d pages, %v", more, read, err)
		}
	}
}

func TestNodeLimit(t *testing.T) {
	s := memory.New()
	d := putManifest(t, s, "m")
	for more, want := range []bool{true, false} {
		nodes := maxNodes - 3 + more // manifest, config and layer
		err := walkNodes(context.Background(), s, d, 0, &nodes, func(ocispec.Descriptor, *node) error { return nil })
		if (err == nil) != want || !want && !errors.Is(err, &Refusal{Reason: Hostile}) {
			t.Errorf("maxNodes+%d: %v", more, err)
		}
	}
}

// A signature without a known hint is found with the last of maxTries tries.
func TestTryLimit(t *testing.T) {
	k, other := newKey(t, Ed25519), newKey(t, Ed25519)
	s := memory.New()
	desc := putManifest(t, s, "m")
	hint := func(k key, hint string, pad int) {
		attachRaw(t, s, desc, edit(t, release(t, k, desc), hint, "verificationMaterial", "publicKey", "hint"), func(m *ocispec.Manifest) {
			m.Annotations = map[string]string{"pad": strings.Repeat("x", pad)}
		})
	}
	v, err := NewVerifier(policy(map[string]key{"release": k}), VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hint(k, "last", 100) // large ones are read last
	for i := range maxTries - 1 {
		hint(other, fmt.Sprintf("%04d", i), 0)
	}
	for more, want := range []int{1, 0} {
		if more == 1 {
			hint(other, "more", 0)
		}
		ids, _, err := v.signers(context.Background(), s, desc, func([]Signer) bool { return false })
		if err != nil || len(ids) != want {
			t.Errorf("maxTries+%d: %d signers, %v", more, len(ids), err)
		}
	}
}

func TestPolicyLimits(t *testing.T) {
	for more, over := range []bool{false, true} {
		key := TrustedKey{PEM: []byte("x")}
		rules := Policy{Keys: map[string]TrustedKey{"k": key}}
		for i := range maxRules + more {
			rules.Rules = append(rules.Rules, Rule{Match: fmt.Sprint("r", i), Keys: []string{"k"}})
		}
		keys := Policy{Keys: map[string]TrustedKey{}}
		for i := range maxKeys + more {
			keys.Keys[fmt.Sprint("k", i)] = key
		}
		one := Policy{Keys: map[string]TrustedKey{}, Rules: []Rule{{Match: "r"}}}
		for i := range maxRuleKey + more {
			one.Keys[fmt.Sprint("k", i)] = key
			one.Rules[0].Keys = append(one.Rules[0].Keys, fmt.Sprint("k", i))
		}
		for text, p := range map[string]Policy{"more than 1024 rules": rules, "or 1024 keys": keys, "a rule names 1 to 64": one} {
			if err := p.Validate(); strings.Contains(fmt.Sprint(err), text) != over {
				t.Errorf("limit+%d: %v, want %q: %v", more, err, text, over)
			}
		}
	}
}
