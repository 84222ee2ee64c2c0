package sign

import (
	"context"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
)

// SealStatement returns the bundle of a statement about subject, for a place other than
// the referrers of the subject.
func SealStatement(ctx context.Context, key *PrivateKey, subject digest.Digest, a Attestation) ([]byte, error) {
	if a.PredicateType == "" || a.PredicateType == ReleaseType {
		return nil, fmt.Errorf("predicate type: got %q, want a type other than a release", a.PredicateType)
	}
	return seal(ctx, key, subject, a)
}

// OpenStatement verifies a bundle of [SealStatement] with a signer that may sign for the
// repository, and returns the statement. about reports which digest it must be about.
func (v *Verifier) OpenStatement(_ context.Context, repository string, data []byte, about func(Attestation) (digest.Digest, error)) (Attested, error) {
	if len(data) > maxBundle {
		return Attested{}, fmt.Errorf("bundle: got %d bytes, want at most %d", len(data), maxBundle)
	}
	o, err := open(data)
	if err != nil {
		return Attested{}, refuse(Malformed, repository, "", "%v", err)
	}
	tries := maxTries
	by, refused := v.signer(o, "", &tries)
	if refused != nil {
		refused.Repository = repository
		return Attested{}, refused
	}
	a := Attested{Attestation{o.statement.PredicateType, o.statement.Predicate}, by}
	subject, err := about(a.Attestation)
	if err != nil {
		return Attested{}, err
	}
	if !o.statement.names(subject) {
		return Attested{}, refuse(OtherSubject, repository, by.ID, "the statement is about another digest than %s", subject)
	}
	return a, v.Accept(repository, by)
}

// ReadStatement parses a statement by any signer, if a verified document states its digest.
// about is that of [Verifier.OpenStatement].
func ReadStatement(data []byte, about func(Attestation) (digest.Digest, error)) error {
	if len(data) > maxBundle {
		return fmt.Errorf("bundle: got %d bytes, want at most %d", len(data), maxBundle)
	}
	o, err := open(data)
	if err != nil {
		return err
	}
	subject, err := about(Attestation{o.statement.PredicateType, o.statement.Predicate})
	if err == nil && !o.statement.names(subject) {
		err = fmt.Errorf("the statement is about another digest than %s", subject)
	}
	return err
}

// Covers reports whether a rule of the policy matches the repository.
func (v *Verifier) Covers(repository string) bool {
	rule, err := v.policy.find(repository)
	return rule != nil || err != nil
}

// IsRefusal reports whether err is a judgment of the content, not a failed check.
func IsRefusal(err error) bool {
	var r *Refusal
	return errors.As(err, &r)
}
