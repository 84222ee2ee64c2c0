package workspace

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds/card"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace/trust"
)

// Evidence lists the statements about one manifest.
type Evidence struct {
	Target     string      `json:"target,omitempty"`
	Digest     string      `json:"digest"`
	Statements []Statement `json:"statements"` // by trusted keys
	Others     int         `json:"others"`     // other bundles: releases, unknown keys, certificates

	all []trust.Statement
}

// Statement is an attestation by a trusted key.
type Statement struct {
	Type        string            `json:"type"`
	Signer      trust.Signer      `json:"signer"`
	Fault       string            `json:"fault,omitempty"` // of its contents: it counts for nothing
	Evaluations []card.Evaluation `json:"evaluations,omitempty"`
	Failed      bool              `json:"failed,omitempty"` // its signer states that a limit was missed
}

// Evidence returns the statements about each manifest of an artifact.
func (w *Workspace) Evidence(ctx context.Context, at *Located) ([]Evidence, error) {
	if _, err := at.identify(ctx); err != nil {
		return nil, err
	}
	var out []Evidence
	for _, p := range at.tree.Parts {
		e, err := w.evidence(ctx, at, p)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// evidence returns the statements about one manifest.
func (w *Workspace) evidence(ctx context.Context, at *Located, p artifact.Part) (Evidence, error) {
	out := Evidence{Target: p.Target, Digest: p.Descriptor.Digest.String(), Statements: []Statement{}}
	b, err := w.judges()
	if err != nil {
		return out, err
	}
	if out.all, out.Others, err = b.Statements(ctx, at.src, repositoryOf(at, p.Artifact.Name), p.Descriptor); err != nil {
		return out, err
	}
	for _, a := range out.all {
		s := Statement{Type: a.PredicateType, Signer: a.Signer}
		if err := checkEvidence(a.Attestation, p.Descriptor); err != nil {
			s.Fault = shorten(err.Error())
		} else if a.PredicateType == card.Type {
			s.Evaluations, s.Failed, _ = card.Parse(a.Predicate)
		}
		out.Statements = append(out.Statements, s)
	}
	return out, nil
}

// repositoryOf returns the repository by whose rules an artifact is judged.
func repositoryOf(at *Located, name string) string {
	switch {
	case at.repository != "":
		return at.repository
	case len(at.origins) > 0:
		return at.origins[0].Repository
	}
	return abi.LocalHost + "/" + name
}

// AttestEval signs the results of mm eval suite as evidence about the manifest that they
// measured; kept names the limits that they keep.
func (w *Workspace) AttestEval(ctx context.Context, at *Located, results []byte, kept []string, s *Signer) ([]sign.Signature, error) {
	r, err := card.Read(results)
	if err != nil {
		return nil, fault(diag.BadEval, err.Error(), "want results.json of mm eval suite --out")
	}
	predicate, err := r.Predicate(kept)
	if err != nil {
		return nil, err
	}
	if _, err := at.identify(ctx); err != nil {
		return nil, err
	}
	found, err := measured(at, r)
	if err != nil {
		return nil, err
	}
	return w.attest(ctx, at, card.Type, s, func(p artifact.Part) ([]byte, error) {
		if p.Descriptor.Digest.String() != found {
			return nil, nil
		}
		return predicate, nil
	})
}

// measured returns the digest of the manifest that results are about.
func measured(at *Located, r *card.Results) (string, error) {
	var names []string
	for _, p := range at.tree.Parts {
		digest := p.Descriptor.Digest.String()
		if r.Digest == digest || r.Digest == at.desc.Digest.String() && r.Target != "" && r.Target == p.Target {
			return digest, nil
		}
		names = append(names, strings.TrimSpace(p.Target+" "+digest))
	}
	return "", fault(diag.EvalOther, fmt.Sprintf("%s: got results of %s, want those of %s", at.ref, strings.TrimSpace(shorten(r.Target)+" "+shorten(r.Digest)), strings.Join(names, " or ")),
		"measure this artifact: mm eval suite")
}

// requireEvals checks the evaluations that the trust files demand of every manifest.
func (w *Workspace) requireEvals(ctx context.Context, at *Located, repository string) error {
	b, err := w.judges()
	if err != nil {
		return err
	}
	demands, err := b.Evals(repository, w.say)
	if err != nil {
		return err
	}
	var list diag.List
	for _, d := range demands {
		for _, p := range at.tree.Parts {
			err := d.Check(ctx, at.src, repository, p.Descriptor)
			if err == nil {
				continue
			}
			code, hint := diag.EvalAbsent, "measure it with mm eval suite --out, then mm attest --eval; or ask the publisher for it"
			if errors.Is(err, card.ErrMissed) {
				code, hint = diag.EvalMissed, ""
			}
			what := at.ref
			if p.Target != "" {
				what += " (" + p.Target + ")"
			}
			list.Add(code, diag.Pos{}, fmt.Sprintf("%s: %s demands %s: %v", what, d.File, d.Demand, err), hint)
		}
	}
	return list.Err()
}
