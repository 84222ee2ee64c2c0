package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"mm-abi.org/mm/cmd/console"
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
	return p.PrintLine(v, "%s %s: %s by %s; ignored: %v", verb, file, console.Count(v.Files, "file"), by, v.Ignored)
}
