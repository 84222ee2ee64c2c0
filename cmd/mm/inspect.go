package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/workspace"
	"mm-abi.org/mm/workspace/loose"
)

func (p *program) inspect(c *cli.Context) error {
	if path := c.Args().First(); loose.Format(path) != "" {
		return p.inspectFile(c.Context, path, c.Bool("nodes"))
	}
	return p.onArtifact(func(c *cli.Context, w *workspace.Workspace, at *workspace.Located) error {
		v, err := w.Inspect(c.Context, at)
		return written(p, v, err)
	})(c)
}

// inspectFile describes a model file; nodes includes the nodes of an ONNX graph.
func (p *program) inspectFile(ctx context.Context, path string, nodes bool) error {
	v, err := loose.Inspect(ctx, path)
	if err != nil {
		return err
	}
	if v.ONNX != nil && !nodes {
		v.ONNX.Nodes = nil
	}
	if p.JSON {
		return p.PrintJSON(v)
	}
	v.WriteText(p.Stdout)
	p.Diagnose(p.Stdout, v.Faults)
	return nil
}
