package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/workspace"
)

// signerFlags select who signs: a key, or with services the identity of a token.
type signerFlags struct {
	key       string
	certified workspace.CertifiedOptions
}

// signerOptions returns who signs, or refuses flags that exclude each other.
func signerOptions(c *cli.Context) (signerFlags, error) {
	s := signerFlags{c.String("key"), workspace.CertifiedOptions{Services: c.String("signing-config"), Root: c.String("trusted-root"), Token: c.String("identity-token")}}
	if !c.Bool("keyless") {
		for _, name := range []string{"signing-config", "trusted-root", "identity-token"} {
			if c.IsSet(name) {
				return s, usageError{fmt.Errorf("--%s requires --keyless", name)}
			}
		}
		return s, nil
	}
	for _, name := range []string{"key", "oms"} {
		if c.IsSet(name) {
			return s, usageError{fmt.Errorf("--%s and --keyless exclude each other", name)}
		}
	}
	if s.certified.Services == "" || s.certified.Root == "" {
		return s, usageError{errors.New("--keyless: want --signing-config and --trusted-root")}
	}
	return s, nil
}

// signerOf returns the signer.
func (p *program) signerOf(ctx context.Context, w *workspace.Workspace, s signerFlags) (*workspace.Signer, error) {
	if s.certified.Services != "" {
		return w.Certified(ctx, s.certified)
	}
	return w.Signer(s.key, p.password)
}
