package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/workspace"
)

// publishedCommands manage artifacts at registries.
func (p *program) publishedCommands() []*cli.Command {
	flags := func(more ...cli.Flag) []cli.Flag {
		return append(append([]cli.Flag{p.jsonFlag()}, more...), remoteFlags()...)
	}
	at := func(do func(c *cli.Context, w *workspace.Workspace) error) cli.ActionFunc {
		return func(c *cli.Context) error {
			return invalidReference(p.inWorkspace(remoteOptions(c, "."), func(w *workspace.Workspace) error { return do(c, w) }))
		}
	}
	return []*cli.Command{{
		Name: "ls", Usage: "list the repositories of a registry", ArgsUsage: "HOST[/PREFIX]", Flags: flags(),
		Action: at(func(c *cli.Context, w *workspace.Workspace) error {
			list, err := w.Repositories(c.Context, c.Args().First())
			if err != nil {
				return err
			}
			return printRows(p, list, []string{"REPOSITORY"}, func(name string) []string { return []string{name} })
		}),
	}, {
		Name: "tags", Usage: "list the tags of a repository", ArgsUsage: "HOST/REPOSITORY", Flags: flags(),
		Action: at(func(c *cli.Context, w *workspace.Workspace) error {
			list, err := w.Tags(c.Context, c.Args().First())
			if err != nil {
				return err
			}
			return printRows(p, list, []string{"REF", "DIGEST"}, func(t workspace.PublishedTag) []string { return []string{t.Ref, short(t.Digest)} })
		}),
	}, {
		Name: "rm", Usage: "delete tags or manifests at a registry", ArgsUsage: "HOST/REPOSITORY:TAG|HOST/REPOSITORY@DIGEST…", Flags: flags(),
		Description: "A tag is deleted alone: the manifest keeps its other tags. A digest deletes the manifest with all\n" +
			"its tags. Registries may refuse one or both.",
		Action: at(func(c *cli.Context, w *workspace.Workspace) error {
			deleted, err := w.Unpublish(c.Context, c.Args().Slice()...)
			for _, ref := range deleted {
				p.say("deleted %s", ref)
			}
			if err != nil || !p.json {
				return err
			}
			return p.printJSON(map[string][]string{"deleted": deleted})
		}),
	}, {
		Name: "cp", Usage: "copy an artifact with its signatures from one registry to another", ArgsUsage: "HOST/REPOSITORY:TAG DEST",
		Description: "Digests do not change, and all targets, signatures and other referrers are copied. The source is\n" +
			"verified as by mm pull; DEST, HOST/REPOSITORY[:TAG] or oci:DIR[:NAME], is checked as by mm push.",
		Flags: append(flags(forceFlag(), expectFlag()), claimFlags()...),
		Action: func(c *cli.Context) error {
			return p.transfer(remoteOptions(c, "."), "copying", func(w *workspace.Workspace) (moved, error) {
				claim := claimOptions(c)
				claim.Expect = c.String("expect")
				done, err := w.Copy(c.Context, c.Args().Get(0), c.Args().Get(1), workspace.CopyOptions{Claim: claim, Force: c.Bool("force")})
				if err != nil {
					return moved{}, err
				}
				r := done.Report
				return moved{done.Ref, done.Digest, r, fmt.Sprintf("%d of %d blobs sent (%s), %d already present, %d mounted; %s and other referrers",
					r.Moved, r.Blobs, size(r.Bytes), r.Present, r.Mounted, count(r.Referrers, "signature")), nil}, nil
			})
		},
	}, {
		Name: "attach", Usage: "attach a file to an artifact at a registry", ArgsUsage: "HOST/REPOSITORY:TAG FILE",
		Description: "The file becomes a referrer of the artifact (OCI 1.1), such as an SBOM or a report; the artifact\n" +
			"and its signatures do not change. mm pull does not fetch it, mm registry cp copies it.",
		Flags: flags(&cli.StringFlag{Name: "type", Required: true, Usage: "artifact `TYPE`, such as application/spdx+json"}),
		Action: func(c *cli.Context) error {
			return p.transfer(remoteOptions(c, "."), "attaching", func(w *workspace.Workspace) (moved, error) {
				done, err := w.Attach(c.Context, c.Args().Get(0), c.Args().Get(1), workspace.AttachOptions{Type: c.String("type")})
				if err != nil {
					return moved{}, err
				}
				return moved{done.Ref, done.Digest, done.Report, fmt.Sprintf("%s attached to %s", c.Args().Get(1), c.Args().Get(0)), nil}, nil
			})
		},
	}, {
		Name: "diff", Usage: "compare the files of two artifacts, in the store or at registries", ArgsUsage: "REF REF",
		Description: "Only manifests are fetched, and nothing is verified.",
		Flags:       flags(layoutFlag(), &cli.BoolFlag{Name: "exit-code", Usage: "exit code 1 if the artifacts differ"}),
		Action: at(func(c *cli.Context, w *workspace.Workspace) error {
			list, err := w.Diff(c.Context, c.Args().Get(0), c.Args().Get(1))
			if err == nil {
				err = printRows(p, list, []string{"CHANGE", "FILE", "OLD", "NEW"}, func(d workspace.Change) []string {
					return []string{d.Kind(), d.String(), short(d.Old), short(d.New)}
				})
			}
			if len(list) == 0 && err == nil {
				p.say("the files are identical")
			}
			if err == nil && len(list) > 0 && c.Bool("exit-code") {
				return reported{errors.New("the artifacts differ")}
			}
			return err
		}),
	}}
}
