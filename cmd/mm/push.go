package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/hub"
	"mm-abi.org/mm/registry/remote"
	"mm-abi.org/mm/workspace"
)

func (p *program) pushCommand() *cli.Command {
	return &cli.Command{
		Name: "push", Usage: "send an artifact with its signatures to a registry or layout", ArgsUsage: "REF|DIR DEST",
		Description: "DEST is HOST/REPOSITORY[:TAG] or oci:DIR[:NAME]. The tag defaults to the artifact's version.\n" +
			"Each target of a build gets the tag TAG-TARGET, for clients that cannot read an index. The\n" +
			"repository must have the artifact's name and the tag its version, since pulls refuse anything\n" +
			"else; for a mirror, use --expect NAME.\n\n" +
			"hf://OWNER/NAME[@REVISION] is a repository of a model hub, which gets the files of one target in\n" +
			"one commit, with a card. Files that the hub holds are not sent. HF_ENDPOINT names another hub,\n" +
			"HF_TOKEN is sent to it.\n\n" +
			"--as-image sends one target as a container image with its files below models/, a layer a module,\n" +
			"for KServe, image volumes of Kubernetes and podman. The image has the name of its repository.",
		Flags: append([]cli.Flag{p.jsonFlag(), layoutFlag(), expectFlag(),
			&cli.BoolFlag{Name: "force", Usage: "overwrite an existing version that has a different digest"},
			&cli.StringFlag{Name: "target", Usage: "to a hub or as an image: `TARGET` of a build with several"},
			&cli.BoolFlag{Name: "as-image", Usage: "send a container image (modelcar)"},
			&cli.StringFlag{Name: "arch", Usage: "of an image: `ARCH`, such as arm64 (default: the target's, or amd64)"},
			&cli.StringFlag{Name: "key", Usage: "of an image: private key `FILE` that signs it, or default"},
			&cli.StringFlag{Name: "message", Aliases: []string{"m"}, Usage: "to a hub: message of the commit"},
			&cli.StringFlag{Name: "card", Usage: "to a hub: `FILE` of the card (default: README.md of the artifact, or a short one)"},
			&cli.BoolFlag{Name: "private", Usage: "to a hub: create the repository private"},
			&cli.BoolFlag{Name: "pr", Usage: "to a hub: open a pull request"},
			&cli.BoolFlag{Name: "dry-run", Usage: "to a hub: list the files, send nothing"}}, remoteFlags()...),
		Action: func(c *cli.Context) error {
			if hub.IsRef(c.Args().Get(1)) {
				opt := workspace.PublishOptions{Target: c.String("target"), Message: c.String("message"), Private: c.Bool("private"), Request: c.Bool("pr"), DryRun: c.Bool("dry-run")}
				return p.publish(c.Context, workspace.Options{Layout: c.String("layout")}, c.Args().Get(0), c.Args().Get(1), c.String("card"), opt)
			}
			if c.Bool("as-image") {
				opt := workspace.ImageOptions{Target: c.String("target"), Architecture: c.String("arch"), Force: c.Bool("force")}
				return p.pushImage(c.Context, remoteOptions(c, c.Args().First()), c.Args().Get(0), c.Args().Get(1), c.String("key"), opt)
			}
			opt := workspace.PushOptions{Expect: c.String("expect"), Force: c.Bool("force")}
			return p.push(c.Context, remoteOptions(c, c.Args().First()), c.Args().Get(0), c.Args().Get(1), opt)
		},
	}
}

func (p *program) push(ctx context.Context, open workspace.Options, ref, dest string, opt workspace.PushOptions) error {
	return p.transfer(open, "pushing", func(w *workspace.Workspace) (moved, error) {
		done, err := w.Push(ctx, ref, dest, opt)
		if err != nil {
			return moved{}, err
		}
		r := done.Report
		return moved{done.Ref, done.Digest, r, fmt.Sprintf("%d of %d blobs sent (%s), %d already present, %d mounted; %s and other referrers",
			r.Moved, r.Blobs, size(r.Bytes), r.Present, r.Mounted, count(r.Referrers, "signature")), nil}, nil
	})
}

func (p *program) pushImage(ctx context.Context, open workspace.Options, ref, dest, key string, opt workspace.ImageOptions) error {
	return p.transfer(open, "pushing", func(w *workspace.Workspace) (moved, error) {
		if key != "" {
			var err error
			if opt.Signer, err = w.Signer(key, p.password); err != nil {
				return moved{}, err
			}
		}
		done, err := w.PushImage(ctx, ref, dest, opt)
		if err != nil {
			return moved{}, err
		}
		r := done.Report
		return moved{done.Ref, done.Digest, r, fmt.Sprintf("image: %d of %d blobs sent (%s), %d already present, %d mounted",
			r.Moved, r.Blobs, size(r.Bytes), r.Present, r.Mounted), nil}, nil
	})
}

func (p *program) publish(ctx context.Context, open workspace.Options, ref, dest, card string, opt workspace.PublishOptions) error {
	if card != "" {
		var err error
		if opt.Card, err = fsx.ReadFile(card, workspace.MaxCard); err != nil {
			return err
		}
	}
	return p.inWorkspace(open, func(w *workspace.Workspace) error {
		got, err := w.Publish(ctx, ref, dest, opt)
		if err != nil {
			return err
		}
		var files []map[string]any
		for _, f := range got.Files {
			files = append(files, map[string]any{"path": f.Path, "size": f.Size, "sha256": f.SHA256})
			if opt.DryRun && !p.json {
				p.say("%s (%s)", diag.Printable(f.Path), size(f.Size))
			}
		}
		out := map[string]any{"ref": got.Ref.String(), "digest": got.Digest, "hub": map[string]any{"commit": got.Report.Commit, "url": got.Report.URL, "files": files},
			"report": remote.Report{Blobs: len(files), Moved: got.Report.Sent, Present: got.Report.Present, Bytes: got.Report.Bytes, Tags: []string{}}}
		if opt.DryRun {
			return p.printLine(out, "%d files for %s, nothing sent", len(files), got.Ref)
		}
		p.say("%s sent (%s), %d already present", count(got.Report.Sent, "large file"), size(got.Report.Bytes), got.Report.Present)
		return p.printLine(out, "%s", diag.Printable(got.Report.URL))
	})
}
