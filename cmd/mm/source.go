package main

import (
	"context"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/urfave/cli/v2"
	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/resolve"
)

// moduleVerifier decides about modules that resolution finds in the store, in
// layouts and in registries. Their bytes are hashed when they are fetched.
func (p *program) moduleVerifier(c *cli.Context) (resolve.Verifier, error) {
	v, policy, err := p.verifierOf(c)
	if err != nil {
		return nil, err
	}
	return &moduleVerifier{p: p, verifier: v, skip: c.Bool("insecure-skip-verify") && !policy.Strict}, nil
}

type moduleVerifier struct {
	p        *program
	verifier *sign.Verifier
	skip     bool
}

// Verify implements resolve.Verifier.
func (m *moduleVerifier) Verify(ctx context.Context, src content.ReadOnlyGraphStorage, repository string, desc ocispec.Descriptor) ([]string, error) {
	if m.skip {
		m.p.say("mm: warning: %s %s is used UNVERIFIED: nobody vouches for it", repository, desc.Digest)
		m.p.record(ctx, audit.Entry{Action: "skip-verify", Ref: repository, Digest: desc.Digest.String(), Result: "skipped"})
		return nil, nil
	}
	return m.verifier.Verify(ctx, src, repository, desc)
}
