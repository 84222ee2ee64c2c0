package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace"
	"mm-abi.org/mm/workspace/trust"
)

func (p *program) sign(c *cli.Context) error {
	with, err := signerOptions(c)
	if err != nil {
		return err
	}
	if c.Bool("oms") {
		return p.signFolder(c.Context, folderOptions{dir: c.Args().First(), file: c.String("signature"), target: c.String("target"),
			keys: []string{c.String("key")}, chain: c.String("certificate-chain"), workspace: workspace.Options{Layout: c.String("layout")}})
	}
	if err := refuseOptions(c, "--%s requires --oms", "target", "certificate-chain"); err != nil {
		return err
	}
	return p.inWorkspace(workspace.Options{Layout: c.String("layout")}, func(w *workspace.Workspace) error {
		at, err := w.Find(c.Context, c.Args().First())
		if err != nil {
			return err
		}
		s, err := p.signerOf(c.Context, w, with)
		if err != nil {
			return err
		}
		signatures, err := w.Sign(c.Context, at, s)
		if err != nil {
			return err
		}
		return p.printSignatures(signatures)
	})
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

func (p *program) printSignatures(signatures []sign.Signature) error {
	type line struct {
		Subject   string `json:"subject"`
		Signature string `json:"signature"`
	}
	var lines []line
	for _, m := range signatures {
		lines = append(lines, line{m.Subject.Digest.String(), m.Bundle.Digest.String()})
	}
	return p.PrintOr(lines, func() error {
		for _, l := range lines {
			fmt.Fprintf(p.Stdout, "signed %s\n", l.Subject)
		}
		return nil
	})
}

func (p *program) verify(c *cli.Context) error {
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
	return p.onArtifact(func(c *cli.Context, w *workspace.Workspace, at *workspace.Located) error {
		return p.verifyArtifact(c.Context, w, at, claim)
	})(c)
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

func (p *program) verifyArtifact(ctx context.Context, w *workspace.Workspace, at *workspace.Located, claim workspace.Claim) error {
	j, files, unread, err := w.Verify(ctx, at, claim)
	if err != nil {
		return err
	}
	evidence, err := w.Evidence(ctx, at)
	if err != nil {
		return err
	}
	if p.JSON {
		v := verification{Ref: j.Ref, Digest: j.Digest, Keys: []string{}, Signers: j.Keys, Trust: j.Decided, Unread: unread, Evidence: evidence}
		for _, k := range j.Keys {
			v.Keys = append(v.Keys, k.ID)
		}
		return p.PrintJSON(v)
	}
	for _, k := range j.Keys {
		by := "key "
		if k.Issuer != "" {
			by = ""
		}
		fmt.Fprintf(p.Stdout, "verified %s: released by %s%s\n", j.Digest, by, k)
	}
	fmt.Fprintf(p.Stdout, "trusted by %s\n", strings.Join(j.Decided, " and "))
	for _, e := range evidence {
		workspace.WriteStatements(p.Stdout, e.Statements, strings.TrimLeft(e.Target+" ", " "))
	}
	if files > 0 {
		fmt.Fprintf(p.Stdout, "at the registry: %s (%s) not fetched\n", diag.Count(files, "file"), size(unread))
	}
	return nil
}
