package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/workspace"
	"mm-abi.org/mm/workspace/modelfile"
)

func (p *program) inspect(c *cli.Context) error {
	if path := c.Args().First(); modelfile.Format(path) != "" {
		return p.inspectFile(c.Context, path, c.Bool("nodes"))
	}
	return p.onArtifact(func(c *cli.Context, w *workspace.Workspace, at *workspace.Located) error {
		v, err := w.Inspect(c.Context, at)
		if err != nil {
			return err
		}
		if p.JSON {
			return p.PrintJSON(v)
		}
		return p.printInspected(v, "")
	})(c)
}

func (p *program) printInspected(in workspace.View, indent string) error {
	fmt.Fprintf(p.Stdout, "%s%s %s  %s\n", indent, diag.Printable(in.Name), diag.Printable(in.Version), in.Digest)
	if in.Format != "" {
		fmt.Fprintf(p.Stdout, "%s  format: %s\n", indent, in.Format)
	}
	for _, key := range slices.Sorted(maps.Keys(in.Annotations)) {
		fmt.Fprintf(p.Stdout, "%s  %s: %s\n", indent, diag.Printable(key), diag.Printable(in.Annotations[key]))
	}
	fmt.Fprintf(p.Stdout, "%s  signatures: %d\n", indent, len(in.Signatures))
	p.printStatements(in.Evidence, indent+"  ")
	if len(in.Functions) > 0 {
		fmt.Fprintf(p.Stdout, "%s  functions: %s\n", indent, diag.Printable(strings.Join(in.Functions, ", ")))
	}
	for _, ask := range in.Permissions {
		fmt.Fprintf(p.Stdout, "%s  %s\n", indent, diag.Printable(ask.String()))
	}
	heading := []string{indent + "  PATH", "ROLE", "FORMAT", "QUANT", "SIZE", "DIGEST"}
	asked := slices.ContainsFunc(in.Layers, func(l workspace.ViewLayer) bool { return l.Annotations[abi.AnnotationBackend] != "" })
	if asked {
		heading = append(heading, "BACKEND")
	}
	var rows [][]string
	for _, l := range in.Layers {
		a := l.Annotations
		row := []string{indent + "  " + diag.Printable(l.Path), cmp.Or(a[abi.AnnotationRole], l.Role), cmp.Or(a[abi.AnnotationFormat], l.Packing), a[abi.AnnotationQuant], size(l.Size), short(l.Digest)}
		if asked {
			row = append(row, a[abi.AnnotationBackend])
		}
		rows = append(rows, row)
	}
	if rows != nil {
		if err := p.PrintTable(heading, rows); err != nil {
			return err
		}
	}
	for _, t := range in.Targets {
		fmt.Fprintf(p.Stdout, "\n%s  target %s\n", indent, diag.Printable(t.Target))
		if err := p.printInspected(t, indent+"  "); err != nil {
			return err
		}
	}
	return nil
}

// inspectFile describes a model file; nodes includes the nodes of an ONNX graph.
func (p *program) inspectFile(ctx context.Context, path string, nodes bool) error {
	v, err := modelfile.Inspect(ctx, path)
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
