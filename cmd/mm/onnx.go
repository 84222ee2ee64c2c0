package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/qdq"
	"mm-abi.org/mm/workspace/loose"
)

func (p *program) onnxCheck(c *cli.Context) error {
	engine := c.String("engine")
	if !slices.Contains([]string{"", "core", "onnxruntime"}, engine) {
		return diag.Usagef("--engine %s: want core or onnxruntime", engine)
	}
	most, err := fsx.ParseSize(c.String("max-size"))
	if err != nil {
		return diag.Usagef("--max-size: %w", err)
	}
	path := c.Args().First()
	list, err := loose.Check(c.Context, path, loose.Options{Core: engine == "core", NPU: c.Bool("npu"), Domains: c.StringSlice("domain"), MaxBytes: most})
	if err == nil && engine == "onnxruntime" && !list.Failed() {
		err = loose.Opens(c.Context, p.engines, engine, path, &list)
	}
	if err != nil {
		return err
	}
	list.Sort()
	if p.JSON {
		list.JSON(p.Stdout)
	} else {
		p.Diagnose(p.Stdout, list)
		p.Note("%s: %d errors, %d warnings", path, list.Count(diag.Error), list.Count(diag.Warning))
	}
	if list.Failed() {
		return reported{list.Err()}
	}
	return nil
}

// rewrite changes a model and prints the result.
func (p *program) rewrite(path, out string, force bool, change func(*onnx.Model) (*onnx.Model, *loose.QuantReport, error)) error {
	r, err := loose.Rewrite(path, out, force, change)
	switch {
	case errors.Is(err, loose.ErrSameFile):
		return diag.Hinted(err, "write another file, or replace it with --force")
	case errors.Is(err, loose.ErrExists):
		return diag.Hinted(err, "--force replaces it")
	case err != nil:
		return err
	}
	for _, line := range r.Quantised.Lines() {
		if !p.JSON {
			p.Note("%s", line)
		}
	}
	return written(p, r, nil)
}

func (p *program) onnxCut(c *cli.Context) error {
	from, err := valuesOf("from", c.StringSlice("from"))
	if err != nil {
		return err
	}
	to, err := valuesOf("to", c.StringSlice("to"))
	if err != nil {
		return err
	}
	rows := c.String("rows")
	switch {
	case len(to) == 0:
		return diag.Usagef("missing flag --to")
	case rows != "" && len(to) > 1:
		return diag.Usagef("--rows requires a single --to")
	}
	return p.rewrite(c.Args().First(), c.String("out"), c.Bool("force"), func(m *onnx.Model) (*onnx.Model, *loose.QuantReport, error) {
		cut, err := m.Between(from, to)
		if err != nil || rows == "" {
			return cut, nil, err
		}
		out := cut.Graph.Outputs[0]
		if cut, err = cut.Rows(rows); err != nil && !out.Type.Ranked {
			err = diag.Hinted(err, fmt.Sprintf("declare it: --to '%s=float32[1,CHANNELS,HEIGHT,WIDTH]'", out.Name))
		}
		return cut, nil, err
	})
}

func (p *program) onnxStrip(c *cli.Context) error {
	opt := onnx.StripOptions{Metadata: c.Bool("keep-metadata"), Docs: c.Bool("keep-docs")}
	return p.rewrite(c.Args().First(), c.String("out"), c.Bool("force"), func(m *onnx.Model) (*onnx.Model, *loose.QuantReport, error) {
		return m.Strip(opt), nil, nil
	})
}

func (p *program) onnxQuant(c *cli.Context) error {
	opt := loose.QuantOptions{WeightOptions: qdq.WeightOptions{MinElements: c.Int64("min-elements"), Keep: c.StringSlice("keep")}}
	g := &opt.Golden
	g.Seed, g.MaxDrift, g.Inputs, g.Shapes = c.Uint64("seed"), c.Float64("max-drift"), map[string]string{}, map[string][]int{}
	if c.Bool("golden") || len(c.StringSlice("input")) > 0 {
		g.Samples = c.Int("samples")
	}
	for _, s := range c.StringSlice("input") {
		name, file, ok := strings.Cut(s, "=")
		if !ok || g.Inputs[name] != "" {
			return diag.Usagef("--input %s: want NAME=FILE.npy, each name once", s)
		}
		g.Inputs[name] = file
	}
	for _, s := range c.StringSlice("shape") {
		name, dims, err := onnx.ParseShape(s)
		if err != nil {
			return diag.Usagef("--shape %s: %w", s, err)
		}
		g.Shapes[name] = dims
	}
	path := c.Args().First()
	return p.rewrite(path, c.String("out"), c.Bool("force"), func(m *onnx.Model) (*onnx.Model, *loose.QuantReport, error) {
		small, q, err := loose.Quantize(c.Context, path, m, opt)
		return small, q.Report(), err
	})
}

// valuesOf parses the tensors of a flag.
func valuesOf(flag string, args []string) (out []onnx.Value, err error) {
	for _, s := range args {
		v, err := onnx.ParseValue(s)
		if err != nil {
			return nil, diag.Usagef("--%s %s: %w", flag, s, err)
		}
		out = append(out, v)
	}
	return out, nil
}
