package trust

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/registry/sign"
)

// Require reports why every judge does not accept an attestation of type typ about desc:
// none is attached, check refuses its contents, or its signers may not release the
// repository. Signers of all valid ones count together towards a rule's threshold.
func (b *Bench) Require(ctx context.Context, src content.ReadOnlyGraphStorage, repository string, desc ocispec.Descriptor, typ string, check func(sign.Attestation) error) error {
	for _, j := range b.judges {
		list, others, err := j.verifier.Attestations(ctx, src, desc)
		if err != nil {
			return err
		}
		var signers []sign.Signer
		var found []string
		var faults []error
		for _, a := range list {
			if a.PredicateType != typ {
				found = append(found, a.PredicateType)
				continue
			}
			if err := check(a.Attestation); err != nil {
				faults = append(faults, fmt.Errorf("signed by %s: %w", j.signer(a.Signer), err))
				continue
			}
			signers = append(signers, a.Signer)
		}
		switch {
		case len(signers) > 0:
			if err := j.verifier.Accept(repository, signers...); err != nil {
				return fmt.Errorf("evidence %s: %w", typ, err)
			}
		case faults != nil:
			return fmt.Errorf("evidence %s: %w", typ, errors.Join(faults...))
		default:
			slices.Sort(found)
			if tag := sign.OlderEvidence(ctx, src, desc); tag != "" {
				return fmt.Errorf("no evidence %s by a trusted key; the tag %s holds evidence in the older form of cosign, which mm does not read", typ, tag)
			}
			return fmt.Errorf("no evidence %s by a trusted key; found: [%s], and %d other bundles", typ, strings.Join(slices.Compact(found), " "), others)
		}
	}
	return nil
}
