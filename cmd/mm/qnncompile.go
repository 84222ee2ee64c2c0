package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/assemble/compile"
	"mm-abi.org/mm/core/gguf/window"
	"mm-abi.org/mm/core/htp/fit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules/modelfile"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
	"mm-abi.org/mm/runtimes/qnn"
	"mm-abi.org/mm/workspace"
)

func (p *program) qnnCompileCommand() *cli.Command {
	return &cli.Command{
		Name: "compile", Usage: "compile an ONNX or a language model for an NPU, and compare it in emulation", ArgsUsage: "FILE.onnx|FILE.gguf",
		Description: "Shapes become those of the calibration inputs, of noise without any; w8a8 and w8a16 make integers\n" +
			"by the ranges that our own engine sees on them. No node is left to the processor. The context is\n" +
			"then run in emulation, which says nothing about a device, beside our own engine. A place of\n" +
			"--calibrate is an .npz with an array for each input, or a folder of such or of INPUT.npy files.\n\n" +
			"Of a GGUF file the whole language model is compiled, in 16-bit floats, and compared on what it\n" +
			"writes by itself. FILE.json beside the context is the record by which --backend qnn takes it.",
		Flags: []cli.Flag{
			p.jsonFlag(),
			&cli.StringFlag{Name: "target", Aliases: []string{"t"}, Usage: "`CHIP`, such as SM8750 or soc:69", Required: true},
			&cli.StringFlag{Name: "precision", Value: string(compile.FP16), Usage: strings.Join(compile.Precisions(), ", ") + ": bits of weights and of values"},
			&cli.StringSliceFlag{Name: "calibrate", Usage: "`FOLDER|FILE.npz` of inputs (repeatable)"},
			&cli.StringSliceFlag{Name: "shape", Usage: "`NAME=1x3x48x320` of an input that the model leaves open, where there is no --calibrate (repeatable)"},
			&cli.StringSliceFlag{Name: "keep", Usage: "`NODE` that stays floats (repeatable)"},
			&cli.Float64Flag{Name: "min-cosine", Usage: "least cosine of an output to our own engine's; 0 is any (default: 0.99, of w8a8 0.98, of a language model 0.9)"},
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "`FILE.bin` to write; FILE_ctx.onnx goes beside it", Required: true},
			&cli.IntFlag{Name: "window", Usage: "positions of the longest text, of a GGUF file (default: the model's, at most 512)"},
			&cli.IntFlag{Name: "positions", Usage: "positions that are read at a time, of a GGUF file (default: 1)"},
			&cli.StringFlag{Name: "layers", Usage: "`FIRST:END`, layers FIRST to END-1 of a GGUF file alone: mm computes those before and behind them itself (default: all)"},
			&cli.StringFlag{Name: "quantised", Usage: "`FILE.onnx` for the model as it was given to the compiler"},
			timeoutFlag("end a compilation that takes longer than `TIME`, and so a run of what came of it", "1h, 10m of a run"),
			&cli.StringFlag{Name: "libs", Usage: "`FOLDER` with the libraries, in place of those installed"},
			&cli.StringFlag{Name: "socs", Usage: "table of chips of your own, a CSV `FILE` whose rows come before ours"},
			&cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Usage: "replace files that are there"},
		},
		Action: p.qnnCompile,
	}
}

func (p *program) qnnCompile(c *cli.Context) error {
	chips, err := qnnfile.Chips(c.String("socs"))
	if err != nil {
		return err
	}
	opt := compile.Options{
		Model: c.Args().First(), Precision: compile.Precision(c.String("precision")), Keep: c.StringSlice("keep"),
		Out: c.String("out"), Quantised: c.String("quantised"), Force: c.Bool("force"), Chips: chips,
	}
	if opt.Chip, err = chipOf(chips, c.String("target")); err != nil {
		return usageError{fmt.Errorf("--target: %w", err)}
	}
	if err := checkTimeout(c.Duration("timeout")); err != nil {
		return err
	}
	if filepath.Ext(opt.Out) != ".bin" {
		return usageError{fmt.Errorf("--out %s: a context is called NAME.bin", opt.Out)}
	}
	if err := opt.Precision.Check(); err != nil {
		return usageError{fmt.Errorf("--precision: %w", err)}
	}
	if opt.MinCosine, err = cosineOptions(c, opt); err != nil {
		return err
	}
	engine := &qnn.Engine{Home: workspace.DefaultHome, Library: c.String("libs"), Time: c.Duration("timeout"), Chips: chips}
	if filepath.Ext(opt.Model) == ".gguf" {
		language, err := languageOptions(c, opt)
		if err != nil {
			return err
		}
		began := time.Now()
		made, err := compile.Language(c.Context, engine, language)
		return p.tellCompiled(made, err, began)
	}
	for _, flag := range []string{"window", "positions", "layers"} {
		if c.IsSet(flag) {
			return usageError{fmt.Errorf("--%s is of a language model, a .gguf file", flag)}
		}
	}
	if opt.Inputs, err = calibration(opt, c.StringSlice("calibrate"), c.StringSlice("shape")); err != nil {
		return err
	}
	began := time.Now()
	made, err := compile.Compile(c.Context, engine, opt)
	return p.tellCompiled(made, err, began)
}

// cosineOptions are what --min-cosine says, or what is wanted of the precision.
func cosineOptions(c *cli.Context, opt compile.Options) (float64, error) {
	least := c.Float64("min-cosine")
	switch {
	case c.IsSet("min-cosine") && !(least >= 0 && least <= 1):
		return 0, usageError{fmt.Errorf("--min-cosine %v: it is from 0, which is any, to 1", least)}
	case c.IsSet("min-cosine"):
		return least, nil
	case filepath.Ext(opt.Model) == ".gguf":
		return compile.LanguageMinCosine, nil
	}
	return opt.Precision.MinCosine(), nil
}

// languageOptions takes what is said of a language model.
func languageOptions(c *cli.Context, opt compile.Options) (compile.LanguageOptions, error) {
	out := compile.LanguageOptions{
		Model: opt.Model, Chip: opt.Chip, Window: c.Int("window"), Positions: c.Int("positions"), MinCosine: opt.MinCosine, Out: opt.Out, Force: opt.Force, Chips: opt.Chips,
	}
	for _, flag := range []string{"calibrate", "shape", "keep", "quantised"} {
		if c.IsSet(flag) {
			return out, usageError{fmt.Errorf("--%s is of an ONNX model: a language model is read of its file and computed in floats", flag)}
		}
	}
	if opt.Precision != compile.FP16 {
		return out, usageError{fmt.Errorf("--precision %s: a language model is computed in fp16", opt.Precision)}
	}
	if text := c.String("layers"); text != "" {
		var err error
		if out.Layers, err = window.ParseSpan(text); err != nil {
			return out, usageError{fmt.Errorf("--layers %s: %w", text, err)}
		}
	}
	if out.Window < 0 || out.Positions < 0 {
		return out, usageError{fmt.Errorf("--window %d, --positions %d: neither may be negative", out.Window, out.Positions)}
	}
	return out, nil
}

// tellCompiled prints what came of a compilation.
func (p *program) tellCompiled(made compile.Made, err error, began time.Time) error {
	if errors.Is(err, compile.ErrExists) {
		return hinted{err, "--force replaces it"}
	}
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(made)
	}
	p.printCompiled(made, time.Since(began))
	return nil
}

func chipOf(chips fit.Chips, name string) (fit.Chip, error) {
	chip, ok := chips.Named(name)
	if !ok {
		return chip, fmt.Errorf("%q is no chip that is known: mm qnn soc ls lists them", name)
	}
	return chip, nil
}

// calibration reads the inputs that lie at places. Floats may be compared on noise
// of the shapes that are given, integers want inputs like those to come.
func calibration(opt compile.Options, places, given []string) ([]map[string]engine.Tensor, error) {
	if len(places) > 0 {
		if len(given) > 0 {
			return nil, usageError{errors.New("--shape is for noise: the inputs of --calibrate have shapes")}
		}
		return compile.Samples(opt.Model, places)
	}
	if opt.Precision != compile.FP16 {
		return nil, usageError{fmt.Errorf("--precision %s takes the ranges of numbers from inputs: name some with --calibrate", opt.Precision)}
	}
	shapes := map[string][]int{}
	for _, text := range given {
		name, dims, err := shapeOf(text)
		if err != nil {
			return nil, usageError{fmt.Errorf("--shape %s: %w", text, err)}
		}
		shapes[name] = dims
	}
	return noise(opt.Model, shapes)
}

// noise makes up one set of inputs.
func noise(path string, shapes map[string][]int) (sets []map[string]engine.Tensor, err error) {
	m, err := modelfile.Open(path, modelfile.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	in, err := madeUp(m, shapes)
	return []map[string]engine.Tensor{in}, err
}

func madeUp(m *onnx.Model, shapes map[string][]int) (map[string]engine.Tensor, error) {
	in, err := drift.Noise(m, shapes, 0)
	if err != nil {
		return nil, hinted{err, "--shape NAME=1x3x224x224 gives the shape, --calibrate inputs that have it"}
	}
	return in, nil
}

func (p *program) printCompiled(m compile.Made, took time.Duration) {
	r := m.Record
	fmt.Fprintln(p.stdout, diag.Printable(fmt.Sprintf("%s: %s, for %s (%s), %s, in %.1f s", m.Context, size(r.Bytes), r.SoC, r.Arch, r.Precision, took.Seconds())))
	p.fact("digest", "%s", r.Context)
	p.fact("source", "%s", r.Source)
	p.fact("sdk", "%s, by ONNX Runtime %s", r.SDK, r.ORT)
	p.fact("wrapper", "%s", m.Wrapper)
	p.fact("nodes", "%d, %d of integers, %d constants folded", r.Nodes, r.Integers, r.Folded)
	for _, k := range r.Kept {
		p.fact("floats", "%s %d: %s", k.Op, len(k.Nodes), k.Why)
	}
	if r.Rounded > 0 {
		p.fact("quantised", "cosine %.6f before it was compiled", r.Rounded)
	}
	if l := r.Language; l != nil {
		p.fact("language", "%d tokens, a window of %d positions, %d read at a time; its outputs come as near as %.6f", l.Vocab, l.Window, l.Positions, r.Cosine)
		if l.Count > 0 {
			p.fact("layers", "%d to %d alone; mm computes the others", l.First, l.End()-1)
		}
		r.Outputs = r.Outputs[:0]
	}
	for _, o := range r.Outputs {
		p.fact("output", "%s: cosine %.6f, largest difference %.4g", o.Name, o.Cosine, o.MaxAbs)
	}
	p.fact("simulated", "in emulation, on %d sets of inputs: no evidence about a device", min(r.Sets, compile.MostEmulated))
}
