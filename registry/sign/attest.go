package sign

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

// Attestation is a statement about an artifact that is not a release.
type Attestation struct {
	PredicateType string          // "https://slsa.dev/provenance/v1", …
	Predicate     json.RawMessage // a JSON object
}

// Attested is an attestation and who signed it.
type Attested struct {
	Attestation
	Signer Signer
}

// Attest attaches a signed statement to the manifest or index subject in dst. It is
// idempotent for the same key. A release is made by [Sign] alone.
func Attest(ctx context.Context, dst Target, subject ocispec.Descriptor, a Attestation, by Sealer, opt Options) (Signature, error) {
	if a.PredicateType == "" || a.PredicateType == ReleaseType {
		return Signature{}, fmt.Errorf("predicate type: got %q, want a type other than a release", a.PredicateType)
	}
	var object map[string]json.RawMessage
	if err := strictJSON(a.Predicate, &object); err != nil {
		return Signature{}, fmt.Errorf("predicate: %w", err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, a.Predicate); err != nil {
		return Signature{}, fmt.Errorf("predicate: %w", err)
	}
	a.Predicate = compact.Bytes()
	var bundle ocispec.Descriptor
	data, err := seal(ctx, by, subject.Digest, a)
	if err == nil {
		bundle, err = attach(ctx, dst, subject, a.PredicateType, data, opt)
	}
	if err != nil {
		return Signature{}, fmt.Errorf("attesting %s: %w", subject.Digest, err)
	}
	return Signature{Subject: subject, Bundle: bundle}, nil
}

// Attestations returns the statements about desc that keys and identities of the policy
// signed, and the number of other bundles: releases, unknown signers, malformed ones. [Verifier.Accept]
// decides whether a key may sign for a repository.
func (v *Verifier) Attestations(ctx context.Context, src content.ReadOnlyGraphStorage, desc ocispec.Descriptor) (list []Attested, others int, err error) {
	found, err := bundles(ctx, src, desc)
	if err != nil {
		return nil, 0, err
	}
	slices.Reverse(found) // attestations are listed last
	tries, budget := maxTries, int64(maxBundleBytes)
	for _, b := range found[:min(len(found), maxBundles)] {
		if budget < 0 {
			break
		}
		o, err := fetchBundle(ctx, src, b, desc.Digest, &budget)
		var r *Refusal
		if err != nil && !errors.As(err, &r) {
			return nil, 0, err
		}
		if err != nil || o == nil || o.statement.PredicateType == ReleaseType || !o.statement.names(desc.Digest) {
			others++
			continue
		}
		if by, refused := v.signer(o, desc.Digest, &tries); refused == nil {
			list = append(list, Attested{Attestation{o.statement.PredicateType, o.statement.Predicate}, by})
		} else {
			others++
		}
	}
	return list, others, nil
}

// Accept reports why the signers, together, may not sign for the repository; nil if they
// may.
func (v *Verifier) Accept(repository string, signers ...Signer) error {
	rule, refused := v.policy.find(repository)
	if refused != nil {
		return refused
	}
	if rule == nil {
		return refuse(NoRule, repository, "", "no rule of the trust policy covers it")
	}
	_, err := v.policy.weigh(rule, repository, v.opt.Now, signers)
	return err
}
