package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules/modelfile"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/weights"
	"mm-abi.org/mm/runtimes"
)

func (p *program) onnxCommand() *cli.Command {
	out := &cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "`FILE` to write", Required: true}
	force := &cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Usage: "replace the file of --out if there is one, the one that is read too"}
	return &cli.Command{
		Name: "onnx", Usage: "check, cut, strip and quantise ONNX files",
		Subcommands: []*cli.Command{
			{
				Name: "check", Usage: "tell every fault of an ONNX file", ArgsUsage: "FILE",
				Description: "External data is checked too. Exit code 3 with a fault. mm inspect FILE.onnx shows what the\nfile is made of.",
				Flags: []cli.Flag{
					p.jsonFlag(),
					&cli.StringFlag{Name: "engine", Usage: "and what would not run: core (our own) or onnxruntime"},
					&cli.BoolFlag{Name: "npu", Usage: "for an accelerator, which has no control flow"},
					&cli.StringSliceFlag{Name: "domain", Usage: "operator `DOMAIN` that is allowed besides the known ones (repeatable)"},
					&cli.StringFlag{Name: "max-size", Usage: "most bytes of the file with its external data, such as 512MiB"},
				},
				Action: p.onnxCheck,
			}, {
				Name: "cut", Usage: "take a part of a model out, such as the encoder of a classifier", ArgsUsage: "FILE",
				Description: "The part goes back from each --to to the model's inputs, or to each --from, which becomes an\ninput. A type is given where the model says none: --from x=float32[1,T,120]. --rows makes [N, T, C]\nof features [N, C, …], which is what a projector takes.",
				Flags: []cli.Flag{
					p.jsonFlag(),
					&cli.StringSliceFlag{Name: "to", Usage: "`TENSOR` that becomes an output (repeatable)"},
					&cli.StringSliceFlag{Name: "from", Usage: "`TENSOR` that becomes an input (repeatable)"},
					&cli.StringFlag{Name: "rows", Usage: "make rows of channels of the features, called `NAME`"}, out, force,
				},
				Action: p.onnxCut,
			}, {
				Name: "strip", Usage: "take out what no run needs", ArgsUsage: "FILE",
				Description: "Texts, metadata, unused weights, nodes, opsets and functions, descriptions of intermediate\nresults, training graphs.",
				Flags:       []cli.Flag{p.jsonFlag(), &cli.BoolFlag{Name: "keep-metadata", Usage: "some programs read parameters there"}, &cli.BoolFlag{Name: "keep-docs", Usage: "keep texts for people"}, out, force},
				Action:      p.onnxStrip,
			}, {
				Name: "quant", Usage: "make the weights of MatMul, Gemm and Conv 8-bit integers", ArgsUsage: "FILE",
				Description: "The file gets smaller; engines make floats of the weights as they load them. With --golden our\nown engine measures the drift on --input or on seeded noise, and beyond --max-drift nothing is\nwritten. Drift is 1 less the cosine of the worst output.",
				Flags: []cli.Flag{
					p.jsonFlag(),
					&cli.BoolFlag{Name: "golden", Usage: "measure the drift"},
					&cli.StringSliceFlag{Name: "input", Usage: "`NAME=FILE.npy` to measure on (repeatable)"},
					&cli.StringSliceFlag{Name: "shape", Usage: "`NAME=1x3x48x320` of noise for an input that the model leaves open (repeatable)"},
					&cli.IntFlag{Name: "samples", Value: 4, Usage: "sets of noise"},
					&cli.Uint64Flag{Name: "seed", Usage: "of the noise"},
					&cli.Float64Flag{Name: "max-drift", Value: 0.02, Usage: "most drift; 0 is any"},
					&cli.StringSliceFlag{Name: "keep", Usage: "`WEIGHT` that stays as it is (repeatable)"},
					&cli.Int64Flag{Name: "min-elements", Value: 1024, Usage: "weights below that stay"}, out, force,
				},
				Action: p.onnxQuant,
			},
		},
	}
}

func (p *program) onnxCheck(c *cli.Context) error {
	engine := c.String("engine")
	if !slices.Contains([]string{"", "core", "onnxruntime"}, engine) {
		return usageError{fmt.Errorf("--engine %s: core or onnxruntime", engine)}
	}
	most, err := bytesOf(c.String("max-size"))
	if err != nil {
		return usageError{fmt.Errorf("--max-size: %w", err)}
	}
	path := c.Args().First()
	list, err := modelfile.Check(c.Context, path, modelfile.Options{Core: engine == "core", NPU: c.Bool("npu"), Domains: c.StringSlice("domain"), MaxBytes: most})
	if err == nil && engine == "onnxruntime" && !list.Failed() {
		err = p.opens(c.Context, engine, path, &list)
	}
	if err != nil {
		return err
	}
	list.Sort()
	if p.json {
		list.JSON(p.stdout)
	} else {
		p.tell(p.stdout, list)
		p.say("%s: %d errors, %d warnings", path, list.Count(diag.Error), list.Count(diag.Warning))
	}
	if list.Failed() {
		return reported{list.Err()}
	}
	return nil
}

// opens has an engine open a checked file. An engine that is not here has no
// say, and a note tells so.
func (p *program) opens(ctx context.Context, name, path string, list *diag.List) error {
	b, err := modelfile.Bundle(path)
	if err != nil {
		return err
	}
	e, err := runtimes.Select(ctx, p.engines, name, b.Part)
	if err != nil {
		list.Note(diag.NoBackend, diag.Pos{File: path}, "checked by rules alone: "+err.Error(), "mm runtime install "+name)
		return nil
	}
	m, err := e.Open(ctx, b, runtimes.Limits{Threads: 1})
	if err != nil {
		list.Add(diag.NotClaimed, diag.Pos{File: path}, err.Error(), diag.NotClaimed.Fix())
		return ctx.Err()
	}
	return m.Close()
}

// rewritten is what mm onnx cut and strip print.
type rewritten struct {
	File       string           `json:"file"`
	Bytes      int64            `json:"bytes"`
	Before     int64            `json:"before"` // bytes of the file that was read, with its external data
	Nodes      int              `json:"nodes"`
	Parameters int64            `json:"parameters"`
	Inputs     []string         `json:"inputs"`
	Outputs    []string         `json:"outputs"`
	Quantised  *quantisedReport `json:"quantised,omitempty"`
}

// quantisedReport is what mm onnx quant prints besides.
type quantisedReport struct {
	Weights int           `json:"weights"`
	Before  int64         `json:"before"` // bytes of those weights
	After   int64         `json:"after"`
	Outputs []driftReport `json:"outputs"`
}

type driftReport struct {
	Name   string  `json:"name"`
	Cosine float64 `json:"cosine"`
	MaxAbs float64 `json:"max_abs"`
	Agree  int     `json:"agree"`
	Rows   int     `json:"rows"`
}

// rewrite opens a model, has it changed, and writes and tells what came out.
func (p *program) rewrite(path, out string, force bool, change func(*onnx.Model) (*onnx.Model, *quantisedReport, error)) (err error) {
	if in, err := os.Stat(path); err != nil {
		return err
	} else if there, err := os.Stat(out); err == nil && os.SameFile(in, there) && !force {
		return hinted{fmt.Errorf("%s is the file that is read", out), "write another one, or replace it with --force"}
	}
	m, err := modelfile.Open(path, modelfile.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	changed, q, err := change(m)
	if err != nil {
		return err
	}
	n, err := modelfile.Write(out, changed, force)
	if errors.Is(err, modelfile.ErrExists) {
		return hinted{err, "--force replaces it"}
	}
	if err != nil {
		return err
	}
	_, beside := m.Attached()
	r := rewritten{File: out, Bytes: n, Before: m.Size() + beside, Nodes: len(changed.Graph.Nodes), Parameters: changed.Parameters(), Inputs: named(changed.Inputs()), Outputs: named(changed.Graph.Outputs), Quantised: q}
	return p.printRewritten(r)
}

func named(values []onnx.Value) []string {
	out := []string{}
	for _, v := range values {
		out = append(out, v.Name)
	}
	return out
}

func (p *program) printRewritten(r rewritten) error {
	if p.json {
		return p.printJSON(r)
	}
	if q := r.Quantised; q != nil {
		p.say("%d weights, %s before, %s now", q.Weights, size(q.Before), size(q.After))
		for _, o := range q.Outputs {
			p.say("%s: cosine %.6f, largest error %.4g, %d of %d rows agree", o.Name, o.Cosine, o.MaxAbs, o.Agree, o.Rows)
		}
	}
	_, err := fmt.Fprintf(p.stdout, "%s: %s (%s before), %d nodes, %d parameters, %s -> %s\n", r.File, size(r.Bytes), size(r.Before), r.Nodes, r.Parameters,
		diag.Printable(strings.Join(r.Inputs, ", ")), diag.Printable(strings.Join(r.Outputs, ", ")))
	return err
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
		return usageError{errors.New("--to is missing")}
	case rows != "" && len(to) > 1:
		return usageError{errors.New("--rows is for one --to")}
	}
	return p.rewrite(c.Args().First(), c.String("out"), c.Bool("force"), func(m *onnx.Model) (*onnx.Model, *quantisedReport, error) {
		cut, err := m.Between(from, to)
		if err != nil || rows == "" {
			return cut, nil, err
		}
		out := cut.Graph.Outputs[0]
		if cut, err = cut.Rows(rows); err != nil && !out.Type.Ranked {
			err = hinted{err, fmt.Sprintf("say it: --to '%s=float32[1,CHANNELS,HEIGHT,WIDTH]'", out.Name)}
		}
		return cut, nil, err
	})
}

func (p *program) onnxStrip(c *cli.Context) error {
	opt := onnx.StripOptions{Metadata: c.Bool("keep-metadata"), Docs: c.Bool("keep-docs")}
	return p.rewrite(c.Args().First(), c.String("out"), c.Bool("force"), func(m *onnx.Model) (*onnx.Model, *quantisedReport, error) {
		return m.Strip(opt), nil, nil
	})
}

func (p *program) onnxQuant(c *cli.Context) error {
	opt := modelfile.QuantOptions{Options: weights.Options{MinElements: c.Int64("min-elements"), Keep: c.StringSlice("keep")}}
	g := &opt.Golden
	g.Seed, g.MaxDrift, g.Inputs, g.Shapes = c.Uint64("seed"), c.Float64("max-drift"), map[string]string{}, map[string][]int{}
	if c.Bool("golden") || len(c.StringSlice("input")) > 0 {
		g.Samples = c.Int("samples")
		if g.Samples < 1 || g.MaxDrift < 0 {
			return usageError{errors.New("--samples is at least 1, --max-drift at least 0")}
		}
	}
	for _, s := range c.StringSlice("input") {
		name, file, ok := strings.Cut(s, "=")
		if !ok || g.Inputs[name] != "" {
			return usageError{fmt.Errorf("--input %s: NAME=FILE.npy, each name once", s)}
		}
		g.Inputs[name] = file
	}
	for _, s := range c.StringSlice("shape") {
		name, dims, err := shapeOf(s)
		if err != nil {
			return usageError{fmt.Errorf("--shape %s: %w", s, err)}
		}
		g.Shapes[name] = dims
	}
	path := c.Args().First()
	return p.rewrite(path, c.String("out"), c.Bool("force"), func(m *onnx.Model) (*onnx.Model, *quantisedReport, error) {
		small, q, err := modelfile.Quantise(c.Context, path, m, opt)
		r := &quantisedReport{Weights: len(q.Weights), Before: q.Before, After: q.After, Outputs: []driftReport{}}
		for _, o := range q.Outputs {
			r.Outputs = append(r.Outputs, driftReport{o.Name, o.Cosine, o.MaxAbs, o.Agree, o.Rows})
		}
		return small, r, err
	})
}

// typed is a tensor's name with its type behind it.
var typed = regexp.MustCompile(`^(.+)=([a-z0-9]+)\[([^\[\]]*)\]$`)

// valuesOf reads the tensors of a flag.
func valuesOf(flag string, given []string) (out []onnx.Value, err error) {
	for _, s := range given {
		v, err := valueOf(s)
		if err != nil {
			return nil, usageError{fmt.Errorf("--%s %s: %w", flag, s, err)}
		}
		out = append(out, v)
	}
	return out, nil
}

// valueOf reads TENSOR or TENSOR=float32[1,T,120].
func valueOf(s string) (onnx.Value, error) {
	m := typed.FindStringSubmatch(s)
	if m == nil {
		return onnx.Value{Name: s}, nil
	}
	d, ok := onnx.DTypeOf(m[2])
	if !ok {
		return onnx.Value{}, fmt.Errorf("%s is no element type, such as float32", m[2])
	}
	var dims []any
	for part := range strings.SplitSeq(m[3], ",") {
		part = strings.TrimSpace(part)
		n, err := strconv.ParseUint(part, 10, 31)
		switch {
		case part == "" && m[3] == "":
		case err == nil:
			dims = append(dims, int(n))
		default:
			dims = append(dims, strings.Trim(part, "?"))
		}
	}
	return onnx.TensorValue(m[1], d, dims...), nil
}

// shapeOf reads NAME=1x3x48x320.
func shapeOf(s string) (string, []int, error) {
	name, text, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return "", nil, errors.New("NAME=1x3x48x320")
	}
	dims := []int{}
	for part := range strings.SplitSeq(text, "x") {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return "", nil, fmt.Errorf("%q is no size", part)
		}
		dims = append(dims, int(n))
	}
	return name, dims, nil
}

// bytesOf reads a number of bytes, with KiB, MiB or GiB behind it; "" is 0.
func bytesOf(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	shift := 0
	for unit, by := range map[string]int{"KiB": 10, "MiB": 20, "GiB": 30} {
		if rest, ok := strings.CutSuffix(s, unit); ok {
			s, shift = rest, by
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil || n < 1 || n > 1<<62>>shift {
		return 0, fmt.Errorf("%q is no size, such as 512MiB", s)
	}
	return n << shift, nil
}
