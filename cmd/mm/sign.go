package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace"
	"mm-abi.org/mm/workspace/trust"
)

func (p *program) signAction(c *cli.Context) error {
	with, err := signerOptions(c)
	if err != nil {
		return err
	}
	if c.Bool("oms") {
		return p.signFolder(c.Context, folderOptions{dir: c.Args().First(), file: c.String("signature"), target: c.String("target"),
			keys: []string{c.String("key")}, chain: c.String("certificate-chain"), workspace: workspace.Options{Layout: c.String("layout")}})
	}
	for _, name := range []string{"target", "certificate-chain"} {
		if c.IsSet(name) {
			return usageError{fmt.Errorf("--%s requires --oms", name)}
		}
	}
	opt := workspace.Options{Layout: c.String("layout")}
	return p.inWorkspace(opt, func(w *workspace.Workspace) error { return p.sign(c.Context, w, c.Args().First(), with) })
}

// signer returns the Signer for --sign, or nil if it is not set.
func (p *program) signer(w *workspace.Workspace, key string) (assemble.Signer, error) {
	if key == "" {
		return nil, nil
	}
	s, err := w.Signer(key, p.password)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (p *program) sign(ctx context.Context, w *workspace.Workspace, arg string, with signerFlags) error {
	at, err := w.Find(ctx, arg)
	if err != nil {
		return err
	}
	s, err := p.signerOf(ctx, w, with)
	if err != nil {
		return err
	}
	signatures, err := w.Sign(ctx, at, s)
	if err != nil {
		return err
	}
	return p.printSignatures(signatures)
}

func (p *program) printSignatures(signatures []sign.Signature) error {
	type line struct {
		Subject   string `json:"subject"`
		Signature string `json:"signature"`
	}
	var lines []line
	for _, m := range signatures {
		lines = append(lines, line{m.Subject.Digest.String(), m.Bundle.Digest.String()})
	}
	if p.json {
		return p.printJSON(lines)
	}
	for _, l := range lines {
		fmt.Fprintf(p.stdout, "signed %s\n", l.Subject)
	}
	return nil
}

func (p *program) verifyAction(c *cli.Context) error {
	blob, err := blobOptions(c)
	if err != nil {
		return err
	}
	if blob.Bundle != "" {
		return p.verifyBlob(c.Context, c.Args().First(), blob)
	}
	if c.Bool("oms") {
		return p.verifyFolder(c.Context, folderOptions{dir: c.Args().First(), file: c.String("signature"), keys: c.StringSlice("key"),
			chain: c.String("ca-roots"), identity: c.String("certificate-identity"), workspace: workspaceOptions(c, c.Args().First())})
	}
	claim := claimOptions(c)
	if claim.Require, err = requiredEvidence(c.String("require")); err != nil {
		return err
	}
	return p.inWorkspace(workspaceOptions(c, c.Args().First()), func(w *workspace.Workspace) error {
		return p.verify(c.Context, w, c.Args().First(), claim, c.Bool("remote"))
	})
}

// verification is the output of mm verify.
type verification struct {
	Ref     string         `json:"ref"`
	Digest  string         `json:"digest"`
	Keys    []string       `json:"keys"`    // IDs
	Signers []trust.Signer `json:"signers"` // with the names in the trust file
	Trust   []string       `json:"trust"`   // trust files that were applied
	Unread  int64          `json:"unread"`  // bytes of files at the registry that were not fetched

	Evidence []workspace.Evidence `json:"evidence"` // attestations about each manifest
}

func (p *program) verify(ctx context.Context, w *workspace.Workspace, arg string, claim workspace.Claim, remote bool) error {
	at, err := find(ctx, w, arg, remote)
	if err != nil {
		return err
	}
	j, files, unread, err := w.Verify(ctx, at, claim)
	if err != nil {
		return err
	}
	evidence, err := w.Evidence(ctx, at)
	if err != nil {
		return err
	}
	if p.json {
		v := verification{Ref: j.Ref, Digest: j.Digest, Keys: []string{}, Signers: j.Keys, Trust: j.Decided, Unread: unread, Evidence: evidence}
		for _, k := range j.Keys {
			v.Keys = append(v.Keys, k.ID)
		}
		return p.printJSON(v)
	}
	for _, k := range j.Keys {
		by := "key "
		if k.Issuer != "" {
			by = ""
		}
		fmt.Fprintf(p.stdout, "verified %s: released by %s%s\n", j.Digest, by, k)
	}
	fmt.Fprintf(p.stdout, "trusted by %s\n", strings.Join(j.Decided, " and "))
	for _, e := range evidence {
		p.printStatements(e.Statements, strings.TrimLeft(e.Target+" ", " "))
	}
	if files > 0 {
		fmt.Fprintf(p.stdout, "at the registry: %s (%s) not fetched\n", count(files, "file"), size(unread))
	}
	return nil
}
