package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/assemble/compile"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
	"mm-abi.org/mm/onnx/window"
	"mm-abi.org/mm/runtimes/qnn"
	"mm-abi.org/mm/workspace"
	"mm-abi.org/mm/workspace/modelfile"
)

func (p *program) qnnCompile(c *cli.Context) error {
	chips, err := qnnfile.Chips(c.String("socs"))
	if err != nil {
		return err
	}
	opt := compile.Options{
		Model: c.Args().First(), Precision: compile.Precision(c.String("precision")), Keep: c.StringSlice("keep"),
		Out: c.String("out"), Quantized: c.String("quantised"), Force: c.Bool("force"), Chips: chips,
	}
	chip, ok := chips.Named(c.String("target"))
	if !ok {
		return diag.Usage(diag.Hinted(fmt.Errorf("--target: %w", chips.Unknown(c.String("target"))), "--socs FILE adds chips"))
	}
	opt.Chip = chip
	if err := checkTimeout(c.Duration("timeout")); err != nil {
		return err
	}
	if filepath.Ext(opt.Out) != ".bin" {
		return diag.Usagef("--out %s: want NAME.bin", opt.Out)
	}
	if err := opt.Precision.Check(); err != nil {
		return diag.Usagef("--precision: %w", err)
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
		result, err := compile.Language(c.Context, engine, language)
		return p.printCompiled(result, err, began)
	}
	if err := refuseOptions(c, "--%s is for language models (.gguf)", "window", "positions", "layers"); err != nil {
		return err
	}
	if opt.Inputs, err = calibration(opt, c.StringSlice("calibrate"), c.StringSlice("shape")); err != nil {
		return err
	}
	began := time.Now()
	result, err := compile.Compile(c.Context, engine, opt)
	return p.printCompiled(result, err, began)
}

// cosineOptions returns --min-cosine, or the default for the precision.
func cosineOptions(c *cli.Context, opt compile.Options) (float64, error) {
	least := c.Float64("min-cosine")
	switch {
	case c.IsSet("min-cosine") && !(least >= 0 && least <= 1):
		return 0, diag.Usagef("--min-cosine %v: must be from 0 to 1", least)
	case c.IsSet("min-cosine"):
		return least, nil
	case filepath.Ext(opt.Model) == ".gguf":
		return compile.LanguageMinCosine, nil
	}
	return opt.Precision.MinCosine(), nil
}

// languageOptions reads the options of a language model.
func languageOptions(c *cli.Context, opt compile.Options) (compile.LanguageOptions, error) {
	out := compile.LanguageOptions{
		Model: opt.Model, Chip: opt.Chip, Window: c.Int("window"), Positions: c.Int("positions"), MinCosine: opt.MinCosine, Out: opt.Out, Force: opt.Force, Chips: opt.Chips,
	}
	if err := refuseOptions(c, "--%s is for ONNX models: a language model is computed in floats", "calibrate", "shape", "keep", "quantised"); err != nil {
		return out, err
	}
	if opt.Precision != compile.FP16 {
		return out, diag.Usagef("--precision %s: language models require fp16", opt.Precision)
	}
	if text := c.String("layers"); text != "" {
		var err error
		if out.Layers, err = window.ParseSpan(text); err != nil {
			return out, diag.Usagef("--layers %s: %w", text, err)
		}
	}
	if out.Window < 0 || out.Positions < 0 {
		return out, diag.Usagef("--window %d, --positions %d: must not be negative", out.Window, out.Positions)
	}
	return out, nil
}

// printCompiled prints the result of a compilation.
func (p *program) printCompiled(result compile.Result, err error, began time.Time) error {
	if errors.Is(err, compile.ErrExists) {
		return diag.Hinted(err, "--force replaces it")
	}
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(result)
	}
	result.WriteText(p.stdout, time.Since(began))
	return nil
}

// calibration reads the inputs at paths. Floats can be compared on noise of the
// given shapes; integers require representative inputs.
func calibration(opt compile.Options, paths, dims []string) ([]map[string]engine.Tensor, error) {
	if len(paths) > 0 {
		if len(dims) > 0 {
			return nil, diag.Usagef("--shape and --calibrate exclude each other: calibration inputs have shapes")
		}
		return compile.Samples(opt.Model, paths)
	}
	if opt.Precision != compile.FP16 {
		return nil, diag.Usagef("--precision %s requires --calibrate: the ranges are measured on its inputs", opt.Precision)
	}
	shapes := map[string][]int{}
	for _, text := range dims {
		name, shape, err := onnx.ParseShape(text)
		if err != nil {
			return nil, diag.Usagef("--shape %s: %w", text, err)
		}
		shapes[name] = shape
	}
	return noise(opt.Model, shapes)
}

// noise generates one set of inputs.
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
		return nil, diag.Hinted(err, "set the shape with --shape NAME=1x3x224x224, or inputs with --calibrate")
	}
	return in, nil
}
