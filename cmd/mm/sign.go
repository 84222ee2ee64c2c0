package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace"
)

func (p *program) signCommand() *cli.Command {
	return &cli.Command{
		Name: "sign", Usage: "release an artifact of the store or of a layout", ArgsUsage: "REF|DIR",
		Description: "Attaches a Sigstore bundle to the manifest; to an index and to every manifest below it.\ncosign verify --key reads the same signature.",
		Flags:       []cli.Flag{p.jsonFlag(), layoutFlag(), &cli.StringFlag{Name: "key", Usage: "private key `FILE` (default: the one of mm keys generate)"}},
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 1, 1); err != nil {
				return err
			}
			opt := workspace.Options{Layout: c.String("layout")}
			return p.inWorkspace(opt, func(w *workspace.Workspace) error { return p.sign(c.Context, w, c.Args().First(), c.String("key")) })
		},
	}
}

// signer is the Signer that --sign asks for; nil without the flag.
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

func (p *program) sign(ctx context.Context, w *workspace.Workspace, arg, key string) error {
	s, err := w.Signer(key, p.password)
	if err != nil {
		return err
	}
	at, err := w.Find(ctx, arg)
	if err != nil {
		return err
	}
	made, err := w.Sign(ctx, at, s.Key, s.Options)
	if err != nil {
		return err
	}
	return p.printSignatures(made)
}

func (p *program) printSignatures(made []sign.Signature) error {
	type line struct {
		Subject   string `json:"subject"`
		Signature string `json:"signature"`
	}
	var lines []line
	for _, m := range made {
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

func (p *program) verifyCommand() *cli.Command {
	return &cli.Command{
		Name: "verify", Usage: "check who released an artifact, and every byte of it", ArgsUsage: "REF|DIR",
		Description: "REF is in the store; DIR is an OCI layout, DIR@VERSION one of its builds, DIR/TARGET a folder\n" +
			"in it, whose files are compared as well. Of HOST/REPOSITORY:TAG at a registry the manifest and\n" +
			"the signatures are checked and nothing else is fetched.",
		Flags: append([]cli.Flag{p.jsonFlag(), layoutFlag(), remoteFlag(), expectFlag(), plainHTTPFlag()}, trustFlags()...),
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 1, 1); err != nil {
				return err
			}
			return p.inWorkspace(workspaceOptions(c, c.Args().First()), func(w *workspace.Workspace) error {
				return p.verify(c.Context, w, c.Args().First(), claimOptions(c), c.Bool("remote"))
			})
		},
	}
}

// verification is what mm verify --json prints.
type verification struct {
	Ref     string          `json:"ref"`
	Digest  string          `json:"digest"`
	Keys    []string        `json:"keys"`    // ids
	Signers []workspace.Key `json:"signers"` // the same with the names of the trust file
	Trust   []string        `json:"trust"`   // the files that decided
	Unread  int64           `json:"unread"`  // bytes of files at the registry that were not looked at
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
	if p.json {
		v := verification{Ref: j.Ref, Digest: j.Digest, Keys: []string{}, Signers: j.Keys, Trust: j.Decided, Unread: unread}
		for _, k := range j.Keys {
			v.Keys = append(v.Keys, k.ID)
		}
		return p.printJSON(v)
	}
	for _, k := range j.Keys {
		fmt.Fprintf(p.stdout, "verified %s: released by key %s\n", j.Digest, k)
	}
	fmt.Fprintf(p.stdout, "trusted by %s\n", strings.Join(j.Decided, " and "))
	if files > 0 {
		fmt.Fprintf(p.stdout, "at the registry: %s (%s) were not looked at\n", count(files, "file"), size(unread))
	}
	return nil
}
