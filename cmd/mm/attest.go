package main

import (
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/builds/bom"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/workspace"
)

func (p *program) attestCommand() *cli.Command {
	return &cli.Command{
		Name: "attest", Usage: "sign evidence about an artifact in the store or in a layout", ArgsUsage: "REF|DIR",
		Description: "Attaches an in-toto statement to the manifest, or to each manifest of an index. mm writes the\n" +
			"evidence of the types sbom, spdx and provenance itself. cosign verify-attestation reads the result.",
		Flags: []cli.Flag{
			p.jsonFlag(), layoutFlag(), &cli.StringFlag{Name: "key", Usage: "private key `FILE` (default: the key of mm keys generate)"},
			&cli.StringFlag{Name: "type", Usage: "sbom (CycloneDX), spdx (SPDX 3), provenance (SLSA v1), or the `URI` of a predicate type", Required: true},
			&cli.StringFlag{Name: "predicate", Usage: "JSON `FILE` of the evidence"},
		},
		Action: p.attest,
	}
}

func (p *program) attest(c *cli.Context) error {
	typ, err := workspace.PredicateType(c.String("type"))
	if err != nil {
		return usageError{err}
	}
	var predicate []byte
	if file := c.String("predicate"); file != "" {
		if predicate, err = fsx.ReadFile(file, bom.MaxBill); err != nil {
			return err
		}
	}
	return p.inWorkspace(workspace.Options{Layout: c.String("layout")}, func(w *workspace.Workspace) error {
		s, err := w.Signer(c.String("key"), p.password)
		if err != nil {
			return err
		}
		at, err := w.Find(c.Context, c.Args().First())
		if err != nil {
			return err
		}
		done, err := w.Attest(c.Context, at, typ, predicate, s)
		if err != nil {
			return err
		}
		return p.printSignatures(done)
	})
}

func (p *program) sbomCommand() *cli.Command {
	return &cli.Command{
		Name: "sbom", Usage: "print the bill of materials of an artifact (CycloneDX 1.6 or SPDX 3)", ArgsUsage: "REF|DIR",
		Description: "Lists the modules of a build with licenses, files, digests and dependencies. The time is that of\nSOURCE_DATE_EPOCH, if it is set.",
		Flags: []cli.Flag{layoutFlag(), remoteFlag(), plainHTTPFlag(), &cli.StringFlag{Name: "target", Usage: "`TARGET` of a build with several"},
			&cli.StringFlag{Name: "format", Value: "cyclonedx", Usage: "`FORMAT`: cyclonedx or spdx3"}, &cli.StringFlag{Name: "supplier", Usage: "`NAME` of the publisher in spdx3"}},
		Action: func(c *cli.Context) error {
			return p.inWorkspace(workspaceOptions(c, c.Args().First()), func(w *workspace.Workspace) error {
				at, err := find(c.Context, w, c.Args().First(), c.Bool("remote"))
				if err != nil {
					return err
				}
				data, err := w.Bill(c.Context, at, workspace.BillOptions{Target: c.String("target"), Format: c.String("format"), Supplier: c.String("supplier")})
				if err == nil {
					_, err = p.stdout.Write(data)
				}
				return err
			})
		},
	}
}

// requireFlag lists evidence that must be attached.
func requireFlag() cli.Flag {
	return &cli.StringFlag{Name: "require", Usage: "demand evidence by trusted keys: `TYPES` of mm attest, separated by commas"}
}

// requiredEvidence returns the predicate types of --require.
func requiredEvidence(list string) (types []string, err error) {
	if list == "" {
		return nil, nil
	}
	for name := range strings.SplitSeq(list, ",") {
		typ, err := workspace.PredicateType(name)
		if err != nil {
			return nil, usageError{err}
		}
		types = append(types, typ)
	}
	return types, nil
}
