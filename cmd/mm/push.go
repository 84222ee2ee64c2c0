package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/hub"
	"mm-abi.org/mm/registry/remote"
	"mm-abi.org/mm/workspace"
)

func (p *program) push(c *cli.Context) error {
	ref, dest := c.Args().Get(0), c.Args().Get(1)
	if hub.IsRef(dest) {
		opt := workspace.PublishOptions{Target: c.String("target"), Message: c.String("message"), Private: c.Bool("private"), Request: c.Bool("pr"), DryRun: c.Bool("dry-run")}
		return p.publish(c.Context, workspace.Options{Layout: c.String("layout")}, ref, dest, c.String("card"), opt)
	}
	if c.Bool("as-image") {
		opt := workspace.ImageOptions{Target: c.String("target"), Architecture: c.String("arch"), Force: c.Bool("force")}
		return p.pushImage(c.Context, remoteOptions(c, ref), ref, dest, c.String("key"), opt)
	}
	opt := workspace.PushOptions{Expect: c.String("expect"), Force: c.Bool("force")}
	return p.transfer(remoteOptions(c, ref), "pushing", func(w *workspace.Workspace) (moved, error) {
		done, err := w.Push(c.Context, ref, dest, opt)
		if err != nil {
			return moved{}, err
		}
		return moved{done.Ref, done.Digest, done.Report, sent(done.Report) + "; " + diag.Count(done.Report.Referrers, "signature") + " and other referrers", nil}, nil
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
		return moved{done.Ref, done.Digest, done.Report, "image: " + sent(done.Report), nil}, nil
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
			if opt.DryRun && !p.JSON {
				p.Note("%s (%s)", diag.Printable(f.Path), size(f.Size))
			}
		}
		out := map[string]any{"ref": got.Ref.String(), "digest": got.Digest, "hub": map[string]any{"commit": got.Report.Commit, "url": got.Report.URL, "files": files},
			"report": remote.Report{Blobs: len(files), Moved: got.Report.Sent, Present: got.Report.Present, Bytes: got.Report.Bytes, Tags: []string{}}}
		if opt.DryRun {
			return p.PrintLine(out, "%d files for %s, nothing sent", len(files), got.Ref)
		}
		p.Note("%s sent (%s), %d already present", diag.Count(got.Report.Sent, "large file"), size(got.Report.Bytes), got.Report.Present)
		return p.PrintLine(out, "%s", diag.Printable(got.Report.URL))
	})
}
