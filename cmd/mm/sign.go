package main

import (
	"context"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/sign"
)

// signer signs with one private key; it is what assemble is given.
type signer struct {
	key *sign.PrivateKey
	opt sign.Options
}

// Sign attaches release signatures in the store.
func (s signer) Sign(ctx context.Context, store *registry.Store, subject ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	made, err := sign.Sign(ctx, store, subject, s.key, s.opt)
	var bundles []ocispec.Descriptor
	for _, m := range made {
		bundles = append(bundles, m.Bundle)
	}
	return bundles, err
}

// newSigner loads the key in file, or the user's own.
func (p *program) newSigner(file string) (signer, error) {
	key, err := p.loadKey(file)
	if err != nil {
		return signer{}, err
	}
	created, err := sourceDate()
	if err != nil {
		return signer{}, err
	}
	s := signer{key: key}
	if created != nil {
		s.opt.Created = *created
	}
	return s, nil
}

func (p *program) signCommand() *cli.Command {
	return &cli.Command{
		Name: "sign", Usage: "release an artifact of the store or of a layout", ArgsUsage: "REF|DIR",
		Description: "Attaches a Sigstore bundle to the manifest; to an index and to every manifest below it.\ncosign verify --key reads the same signature.",
		Flags:       []cli.Flag{p.jsonFlag(), layoutFlag(), &cli.StringFlag{Name: "key", Usage: "private key `FILE` (default: the one of mm keys generate)"}},
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 1, 1); err != nil {
				return err
			}
			s, err := p.newSigner(c.String("key"))
			if err != nil {
				return err
			}
			l, err := locate(c, c.Args().First())
			if err != nil {
				return err
			}
			defer l.store.Close()
			made, err := sign.Sign(c.Context, l.store, l.desc, s.key, s.opt)
			p.record(c.Context, audit.Entry{Action: "sign", Ref: l.ref, Digest: l.desc.Digest.String(), Keys: []string{s.key.Public().KeyID()}, Result: outcome(err)})
			if err != nil {
				return err
			}
			return p.printSignatures(made)
		},
	}
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
		Flags: append([]cli.Flag{p.jsonFlag(), layoutFlag()}, trustFlags()[:2]...),
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 1, 1); err != nil {
				return err
			}
			l, err := locate(c, c.Args().First())
			if err != nil {
				return err
			}
			defer l.store.Close()
			v, _, err := p.verifierOf(c)
			if err != nil {
				return err
			}
			keys, err := p.verify(c.Context, v, l)
			p.record(c.Context, audit.Entry{Action: "verify", Ref: l.ref, Digest: l.desc.Digest.String(), Keys: keys, Result: outcome(err)})
			if err != nil {
				return err
			}
			if p.json {
				return p.printJSON(map[string]any{"ref": l.ref, "digest": l.desc.Digest, "keys": keys})
			}
			for _, k := range keys {
				fmt.Fprintf(p.stdout, "verified %s: released by key %s\n", l.desc.Digest, k[:12])
			}
			return nil
		},
	}
}
