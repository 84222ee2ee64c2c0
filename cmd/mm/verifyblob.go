package main

import (
	"context"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace"
)

// blobVerified is the output of mm verify --bundle.
type blobVerified struct {
	Bundle    string      `json:"bundle"`
	Issuer    string      `json:"issuer,omitempty"`
	Subject   string      `json:"subject,omitempty"`
	Key       string      `json:"key,omitempty"`
	Predicate string      `json:"predicate,omitempty"`
	Times     []time.Time `json:"times"`
}

// blobOptions returns the options of a signature over a file, or refuses flags that would
// constrain nothing without --bundle, or with it.
func blobOptions(c *cli.Context) (workspace.BlobOptions, error) {
	opt := workspace.BlobOptions{Bundle: c.String("bundle"), Root: c.String("trusted-root"), Identity: sign.TrustedIdentity{
		Issuer: c.String("certificate-oidc-issuer"), Subject: c.String("certificate-identity"), Pattern: c.String("certificate-identity-regexp"),
	}}
	roots := c.IsSet("ca-roots")
	switch {
	case roots && !c.Bool("oms"):
		return opt, diag.Usagef("--ca-roots requires --oms")
	case roots && (c.String("ca-roots") == "" || c.IsSet("certificate-identity") && c.String("certificate-identity") == ""):
		return opt, diag.Usagef("--ca-roots: want a file, and a subject for --certificate-identity")
	case roots && c.IsSet("key"):
		return opt, diag.Usagef("--ca-roots and --key exclude each other")
	}
	if opt.Bundle == "" {
		for _, name := range []string{"trusted-root", "certificate-identity", "certificate-identity-regexp", "certificate-oidc-issuer"} {
			if c.IsSet(name) && (name != "certificate-identity" || !roots) {
				return opt, diag.Usagef("--%s requires --bundle", name)
			}
		}
		return opt, nil
	}
	if err := refuseOptions(c, "--%s and --bundle exclude each other", "oms", "remote", "require", "layout", "expect"); err != nil {
		return opt, err
	}
	named := opt.Identity.Issuer != "" && (opt.Identity.Subject == "") != (opt.Identity.Pattern == "")
	switch keys := c.StringSlice("key"); {
	case len(keys) == 1 && opt.Identity.Issuer+opt.Identity.Subject+opt.Identity.Pattern == "":
		opt.Key = keys[0]
	case len(keys) > 0 || !named:
		return opt, diag.Usagef("--bundle: want --key, or --certificate-oidc-issuer with --certificate-identity or --certificate-identity-regexp")
	case opt.Root == "":
		return opt, diag.Usagef("--bundle: a certificate needs --trusted-root")
	}
	return opt, nil
}

func (p *program) verifyBlob(ctx context.Context, file string, opt workspace.BlobOptions) error {
	v, err := workspace.VerifyBlob(ctx, file, opt)
	if err != nil {
		return diag.Exiting(diag.ExitRefused, err)
	}
	out := blobVerified{opt.Bundle, v.Issuer, v.Subject, v.Key, v.Predicate, listed(v.Times)}
	if v.Key != "" {
		return p.PrintLine(out, "verified %s: signed by key %.12s", file, v.Key)
	}
	return p.PrintLine(out, "verified %s: signed by %s (issuer %s) at %s", file, v.Subject, v.Issuer, v.Times[0].UTC().Format(time.RFC3339))
}
