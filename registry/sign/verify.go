package sign

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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

// Verify returns the ids of the keys that released desc for repository,
// sorted; nil if [VerifyOptions.Warned] accepted it. It reads only the
// manifest and its bundles from src, which may be the store, a layout or a
// registry; [VerifyTree] covers the rest. If desc is not accepted, the error
// is a [*Refusal].
func (v *Verifier) Verify(ctx context.Context, src content.ReadOnlyGraphStorage, repository string, desc ocispec.Descriptor) ([]string, error) {
	keys, err := v.verify(ctx, src, repository, desc)
	var r *Refusal
	if errors.As(err, &r) {
		told := *r
		told.Repository = repository
		if told.Subject == "" {
			told.Subject = desc.Digest
		}
		return nil, &told
	}
	return keys, err
}

// verify is Verify; its refusals may lack subject and repository.
func (v *Verifier) verify(ctx context.Context, src content.ReadOnlyGraphStorage, repository string, desc ocispec.Descriptor) ([]string, error) {
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
	content := func(ids []string) bool {
		d, err := v.policy.weigh(rule, repository, v.opt.Now, ids)
		return err == nil && len(d.Keys) > 0
	}
	signers, faults, err := v.signers(ctx, src, desc, content)
	if err != nil {
		return nil, err
	}
	if len(signers) == 0 {
		return nil, nearest(faults)
	}
	d, err := v.policy.weigh(rule, repository, v.opt.Now, signers)
	return d.Keys, err
}

// signers returns the ids of the policy's keys that released desc, and why the
// other bundles do not count. It reads on, within the limits, until enough
// accepts the keys and no few bundles are left.
func (v *Verifier) signers(ctx context.Context, src content.ReadOnlyGraphStorage, desc ocispec.Descriptor, enough func([]string) bool) (ids []string, faults []*Refusal, err error) {
	list, err := bundles(ctx, src, desc)
	if err != nil {
		return nil, nil, err
	}
	tries, budget := maxTries, int64(maxBundleBytes)
	for i, b := range list {
		if budget < 0 || i >= maxBundles && enough(ids) {
			break
		}
		o, err := fetchBundle(ctx, src, b, desc.Digest, &budget)
		var id string
		if err == nil && o != nil {
			id, err = v.judge(o, desc, &tries)
		}
		var r *Refusal
		switch {
		case errors.As(err, &r):
			faults = append(faults, r)
		case err != nil:
			return nil, nil, err
		case id != "":
			ids = append(ids, id)
		}
	}
	return ids, faults, nil
}

// Vouches reports whether the manifest bundle holds a statement about desc, a
// release or any other, signed by a key of the policy. It distinguishes the
// referrers worth keeping from arbitrary ones. The error is one of reading
// src.
func (v *Verifier) Vouches(ctx context.Context, src content.Fetcher, desc, bundle ocispec.Descriptor) (bool, error) {
	tries, budget := maxTries, int64(maxBundleBytes)
	o, err := fetchBundle(ctx, src, bundle, desc.Digest, &budget)
	var r *Refusal
	switch {
	case errors.As(err, &r) || err == nil && (o == nil || o.keyless):
		return false, nil
	case err != nil:
		return false, err
	}
	key, _ := v.signer(o, &tries)
	return key != nil && o.statement.names(desc.Digest), nil
}

// judge returns the id of the key that made the release signature o of desc.
// The order of the checks gives each fault its own reason; a statement is
// trusted only once it is verified with a known key.
func (v *Verifier) judge(o *opened, desc ocispec.Descriptor, tries *int) (string, error) {
	if o.statement.PredicateType != ReleaseType {
		return "", refusal(AttestationOnly, desc.Digest, "it has a statement of type %q, but no release signature", clip(o.statement.PredicateType))
	}
	if o.keyless {
		return "", refusal(UnknownKey, desc.Digest, "signed with a certificate, not with a key of the trust policy")
	}
	key, named := v.signer(o, tries)
	if key == nil && named != nil {
		r := refusal(BadSignature, desc.Digest, "the signature names key %s (%s), but does not verify with it", named.name, named.key.id)
		r.KeyID = named.key.id
		return "", r
	}
	if key == nil {
		return "", refusal(UnknownKey, desc.Digest, "signed by an unknown key with hint %q", clip(o.hint))
	}
	if !o.statement.names(desc.Digest) {
		r := refusal(OtherSubject, desc.Digest, "key %s (%s) signed another digest", key.name, key.key.id)
		r.KeyID = key.key.id
		return "", r
	}
	return key.key.id, nil
}

// signer finds the key that made o: the one its hint names or, if that is
// unknown, one that verifies, while tries last. named is the key of the hint.
func (v *Verifier) signer(o *opened, tries *int) (key, named *trusted) {
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
	for _, reason := range []Reason{BadSignature, OtherSubject, UnknownKey, AttestationOnly, Malformed, Missing} {
		if i := slices.IndexFunc(faults, func(r *Refusal) bool { return r.Reason == reason }); i >= 0 {
			return faults[i]
		}
	}
	return refuse(Unsigned, "", "", "no signature is attached to it")
}
