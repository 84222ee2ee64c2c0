package trust

import (
	"context"
	"errors"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/builds/card"
	"mm-abi.org/mm/registry/sign"
)

// Eval demands a signed evaluation of the artifacts of a pattern.
type Eval struct {
	Match string `json:"match"`
	card.Demand
	Keys      []string `json:"keys"`                // that may sign it
	Threshold int      `json:"threshold,omitempty"` // distinct keys. Zero: 1
}

// Demanded is a demand on an evaluation, with the keys that may sign it.
type Demanded struct {
	Eval
	File  string // that states it
	bench *Bench
}

// rule returns the rule of the demand's keys.
func (e Eval) rule() Rule { return Rule{Match: e.Match, Keys: e.Keys, Threshold: e.Threshold} }

// Evals returns the demands of every trust file on a repository.
func (b *Bench) Evals(repository string, say func(string, ...any)) (list []Demanded, err error) {
	for _, j := range b.judges {
		for i, e := range j.trust.Evals {
			one, err := Options{Say: say}.seat(j.trust.ruled(e.rule()))
			if err != nil {
				return nil, fmt.Errorf("%s: evals[%d]: %w", j.file, i, err)
			}
			if one.judges[0].verifier.Covers(repository) {
				list = append(list, Demanded{e, j.file, one})
			}
		}
	}
	return list, nil
}

// Check reports why the evaluations about desc do not meet the demand.
func (d Demanded) Check(ctx context.Context, src content.ReadOnlyGraphStorage, repository string, desc ocispec.Descriptor) error {
	return d.bench.Require(ctx, src, repository, desc, card.Type, func(a sign.Attestation) error { return d.Judge(a.Predicate) })
}

// checkEvals returns the faults of the demands by the same rules as those of rules.
func (t *File) checkEvals() error {
	var faults []error
	for i, e := range t.Evals {
		_, err := t.ruled(e.rule()).Policy()
		if err == nil && e.AtLeast == nil && e.AtMost == nil && e.N == 0 {
			err = errors.New("want at_least, at_most or n")
		}
		if err == nil && e.AtLeast != nil && e.AtMost != nil && *e.AtLeast > *e.AtMost {
			err = fmt.Errorf("at_least: got %g, above at_most %g", *e.AtLeast, *e.AtMost)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("evals[%d] (%s): %w", i, e.Suite, err))
		}
	}
	return errors.Join(faults...)
}

// Statement is an attestation by a key that a trust file permits for the repository: to
// release it, or to sign an evaluation that it demands.
type Statement struct {
	sign.Attestation
	Signer Signer
}

// Statements returns the attestations about desc by permitted keys, and the number of
// other bundles, release signatures included. Every trust file must permit the key.
func (b *Bench) Statements(ctx context.Context, src content.ReadOnlyGraphStorage, repository string, desc ocispec.Descriptor) (list []Statement, others int, err error) {
	first := b.judges[0]
	all, others, err := first.verifier.Attestations(ctx, src, desc)
	if err != nil {
		return nil, 0, err
	}
	for _, a := range all {
		permitted := true
		for _, j := range b.judges {
			ok, err := j.permits(repository, a)
			if err != nil {
				return nil, 0, err
			}
			permitted = permitted && ok
		}
		if !permitted {
			others++
			continue
		}
		list = append(list, Statement{a.Attestation, first.signer(a.Signer)})
	}
	return list, others, nil
}

// permits reports whether the trust file permits the key of an attestation to state it.
func (j judge) permits(repository string, a sign.Attested) (bool, error) {
	err := j.verifier.Accept(repository, a.Signer)
	var r *sign.Refusal
	if err == nil || errors.As(err, &r) && r.Reason == sign.Threshold { // one of several that are needed
		return true, nil
	}
	if a.PredicateType != card.Type {
		return false, nil
	}
	for _, e := range j.trust.Evals {
		v, err := j.trust.channelVerifier(Rule{Match: e.Match, Keys: e.Keys}, j.verifier.Options())
		if err != nil {
			return false, err
		}
		if v.Covers(repository) && v.Accept(repository, a.Signer) == nil {
			return true, nil
		}
	}
	return false, nil
}
