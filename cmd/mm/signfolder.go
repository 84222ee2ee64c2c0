package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace"
)

// folderSigned is the output of mm sign --oms and mm verify --oms.
type folderSigned struct {
	Signature string   `json:"signature"`
	Files     int      `json:"files"`
	Ignored   []string `json:"ignored"`
	Key       string   `json:"key"`
	Signer    string   `json:"signer,omitempty"`
	Issuer    string   `json:"issuer,omitempty"`
}

// folderOptions holds the options of a signature over a folder.
type folderOptions struct {
	dir, file string // of the folder and the signature; "": the usual name in it
	target    string // of the artifact that is signed instead of a folder
	keys      []string
	chain     string // file of certificates: of the signer, or the roots that verify it
	identity  string // that the certificate must state
	workspace workspace.Options
}

// signature returns the file of the signature.
func (o folderOptions) signature() string {
	return cmp.Or(o.file, filepath.Join(o.dir, sign.FolderSignature))
}

func (p *program) signFolder(ctx context.Context, o folderOptions) error {
	return p.inWorkspace(o.workspace, func(w *workspace.Workspace) error {
		s, err := w.Signer(o.keys[0], p.password)
		if err != nil {
			return err
		}
		by := workspace.FolderSigner{Key: s.Key, Now: time.Now()}
		if by.Chain, err = workspace.Certificates(o.chain); err != nil {
			return err
		}
		if info, missing := os.Stat(o.dir); o.target == "" && missing == nil && info.IsDir() {
			f, err := workspace.SignFolder(ctx, o.dir, o.signature(), by)
			return p.printFolder("signed", o.signature(), f, err)
		}
		if o.file == "" {
			return diag.Usagef("--oms: %s is not a folder: want --signature FILE", o.dir)
		}
		at, err := w.Find(ctx, o.dir)
		if err != nil {
			return err
		}
		f, err := w.SignFiles(ctx, at, o.target, o.file, by)
		return p.printFolder("signed", o.signature(), f, err)
	})
}

func (p *program) verifyFolder(ctx context.Context, o folderOptions) error {
	return p.inWorkspace(o.workspace, func(w *workspace.Workspace) error {
		trust, err := w.FolderTrust(o.dir, o.keys, time.Now())
		if o.chain != "" {
			trust, err = workspace.CertifiedBy(o.chain, o.identity, time.Now())
		}
		if err != nil {
			return err
		}
		f, err := workspace.VerifyFolder(ctx, o.dir, o.signature(), trust)
		return p.printFolder("verified", o.signature(), f, diag.Exiting(diag.ExitRefused, err))
	})
}

func (p *program) printFolder(verb, file string, f sign.Folder, err error) error {
	if err != nil {
		return err
	}
	v := folderSigned{Signature: file, Files: len(f.Files), Ignored: listed(f.Ignored), Key: f.KeyID}
	by := fmt.Sprintf("key %.12s", v.Key)
	if len(f.Chain) > 0 {
		v.Signer, v.Issuer = f.Chain[0].Subject.String(), f.Chain[0].Issuer.String()
		by = fmt.Sprintf("%q (issuer %q)", v.Signer, v.Issuer)
	}
	return p.PrintLine(v, "%s %s: %s by %s; ignored: %v", verb, file, diag.Count(v.Files, "file"), by, v.Ignored)
}

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
