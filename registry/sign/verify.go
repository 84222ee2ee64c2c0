package sign

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

// maxTries bounds the signatures that are checked against keys they do not
// name, for one artifact.
const maxTries = 1024

// VerifyOptions for [NewVerifier].
type VerifyOptions struct {
	// Now is the time at which keys must be valid. Zero: keys with an expiry
	// do not count.
	Now time.Time
	// Warned receives the refusals of repositories that only the policy's
	// [Warn] accepts. Nil: they are refused.
	Warned func(*Refusal)
}

// Verifier decides which artifacts were released by keys that a policy trusts.
// It is safe for concurrent use.
type Verifier struct {
	policy *compiled
	opt    VerifyOptions
}

// NewVerifier checks and copies the policy. The error joins every fault, each
// a [*PolicyError].
func NewVerifier(p Policy, opt VerifyOptions) (*Verifier, error) {
	c, faults := p.compile()
	if faults != nil {
		return nil, fmt.Errorf("trust policy: %w", errors.Join(faults...))
	}
	if opt.Now.IsZero() {
		opt.Now = time.Unix(1<<40, 0) // past every end
	}
	return &Verifier{policy: c, opt: opt}, nil
}

// Options returns the options of the verifier.
func (v *Verifier) Options() VerifyOptions { return v.opt }

// Verify returns the ids of the signers that released desc for repository,
// sorted; nil if [VerifyOptions.Warned] accepted it. It reads only the
// manifest and its bundles from src, which may be the store, a layout or a
// registry; [VerifyTree] covers the rest. If desc is not accepted, the error
// is a [*Refusal].
func (v *Verifier) Verify(ctx context.Context, src content.ReadOnlyGraphStorage, repository string, desc ocispec.Descriptor) ([]string, error) {
	signers, err := v.Signers(ctx, src, repository, desc)
	var ids []string
	for _, s := range signers {
		ids = append(ids, s.ID)
	}
	return ids, err
}

// Signers is Verify; it returns the signers themselves.
func (v *Verifier) Signers(ctx context.Context, src content.ReadOnlyGraphStorage, repository string, desc ocispec.Descriptor) ([]Signer, error) {
	signers, err := v.verify(ctx, src, repository, desc)
	var r *Refusal
	if errors.As(err, &r) {
		told := *r
		told.Repository = repository
		if told.Subject == "" {
			told.Subject = desc.Digest
		}
		return nil, &told
	}
	return signers, err
}

// verify is Signers; its refusals may lack subject and repository.
func (v *Verifier) verify(ctx context.Context, src content.ReadOnlyGraphStorage, repository string, desc ocispec.Descriptor) ([]Signer, error) {
	rule, refused := v.policy.find(repository)
	if refused != nil {
		return nil, refused
	}
	if rule == nil {
		d, err := v.policy.uncovered(repository)
		if err != nil {
			return nil, err
		}
		if v.opt.Warned == nil {
			return nil, d.Warned
		}
		told := *d.Warned
		told.Subject = desc.Digest
		v.opt.Warned(&told)
		return nil, nil
	}
	if _, err := fetchManifest(ctx, src, desc); err != nil {
		return nil, err
	}
	content := func(signers []Signer) bool {
		good, err := v.policy.weigh(rule, repository, v.opt.Now, signers)
		return err == nil && len(good) > 0
	}
	signers, faults, err := v.signers(ctx, src, desc, content)
	if err != nil {
		return nil, err
	}
	if len(signers) == 0 {
		r := nearest(faults)
		if tag := olderTag(ctx, src, desc, "sig"); tag != "" && (r.Reason == Unsigned || r.Reason == AttestationOnly) {
			r = refuse(OlderForm, "", "", "no bundle releases it; the tag %s holds a signature in the older form of cosign, which mm does not read", tag)
		}
		return nil, r
	}
	return v.policy.weigh(rule, repository, v.opt.Now, signers)
}

// signers returns the policy's signers that released desc, and why the
// other bundles do not count. It reads on, within the limits, until enough
// accepts the signers and no few bundles are left.
func (v *Verifier) signers(ctx context.Context, src content.ReadOnlyGraphStorage, desc ocispec.Descriptor, enough func([]Signer) bool) (found []Signer, faults []*Refusal, err error) {
	list, err := bundles(ctx, src, desc)
	if err != nil {
		return nil, nil, err
	}
	tries, budget := maxTries, int64(maxBundleBytes)
	for i, b := range list {
		if budget < 0 || i >= maxBundles && enough(found) {
			break
		}
		o, err := fetchBundle(ctx, src, b, desc.Digest, &budget)
		var by Signer
		if err == nil && o != nil {
			by, err = v.judge(o, desc, &tries)
		}
		var r *Refusal
		switch {
		case errors.As(err, &r):
			faults = append(faults, r)
		case err != nil:
			return nil, nil, err
		case by.ID != "":
			found = append(found, by)
		}
	}
	return found, faults, nil
}

// Vouches reports whether the manifest bundle holds a statement about desc, a
// release or any other, signed by a key or identity of the policy. It distinguishes the
// referrers worth keeping from arbitrary ones. The error is one of reading
// src.
func (v *Verifier) Vouches(ctx context.Context, src content.Fetcher, desc, bundle ocispec.Descriptor) (bool, error) {
	tries, budget := maxTries, int64(maxBundleBytes)
	o, err := fetchBundle(ctx, src, bundle, desc.Digest, &budget)
	var r *Refusal
	switch {
	case errors.As(err, &r) || err == nil && o == nil:
		return false, nil
	case err != nil:
		return false, err
	}
	_, refused := v.signer(o, desc.Digest, &tries)
	return refused == nil && o.statement.names(desc.Digest), nil
}

// judge returns who made the release signature o of desc.
// The order of the checks gives each fault its own reason; a statement is
// trusted only once it is verified.
func (v *Verifier) judge(o *opened, desc ocispec.Descriptor, tries *int) (Signer, error) {
	if o.statement.PredicateType != ReleaseType {
		return Signer{}, refusal(AttestationOnly, desc.Digest, "it has a statement of type %q, but no release signature", clip(o.statement.PredicateType))
	}
	by, refused := v.signer(o, desc.Digest, tries)
	if refused != nil {
		return Signer{}, refused
	}
	if !o.statement.names(desc.Digest) {
		r := refusal(OtherSubject, desc.Digest, "%s signed another digest", v.policy.called(by))
		r.KeyID = by.ID
		return Signer{}, r
	}
	return by, nil
}

// signer returns who made o, a key or an identity of the policy; subject is for refusals.
func (v *Verifier) signer(o *opened, subject digest.Digest, tries *int) (Signer, *Refusal) {
	if o.certified != nil {
		return v.certified(o.certified, subject, tries)
	}
	key, named := v.key(o, tries)
	switch {
	case key != nil:
		return Signer{ID: key.key.id}, nil
	case named != nil:
		r := refusal(BadSignature, subject, "the signature names key %s (%s), but does not verify with it", named.name, named.key.id)
		r.KeyID = named.key.id
		return Signer{}, r
	}
	return Signer{}, refusal(UnknownKey, subject, "signed by an unknown key with hint %q", clip(o.hint))
}

// key finds the key that made o: the one its hint names or, if that is
// unknown, one that verifies, while tries last. named is the key of the hint.
func (v *Verifier) key(o *opened, tries *int) (key, named *trusted) {
	for _, k := range v.policy.keys {
		if k.key.hint() != o.hint {
			continue
		}
		if k.key.verify(o.message, o.signature) == nil {
			return &k, &k
		}
		return nil, &k
	}
	for _, k := range v.policy.keys {
		if *tries--; *tries < 0 {
			return nil, nil
		}
		if k.key.verify(o.message, o.signature) == nil {
			return &k, nil
		}
	}
	return nil, nil
}

// nearest picks the fault that comes nearest to an accepted signature.
func nearest(faults []*Refusal) *Refusal {
	for _, reason := range []Reason{Early, BadCertificate, BadSignature, OtherSubject, UnknownKey, AttestationOnly, Malformed, Missing} {
		if i := slices.IndexFunc(faults, func(r *Refusal) bool { return r.Reason == reason }); i >= 0 {
			return faults[i]
		}
	}
	return refuse(Unsigned, "", "", "no signature is attached to it")
}
