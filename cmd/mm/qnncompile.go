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
	"mm-abi.org/mm/onnx/window"
	"mm-abi.org/mm/runtimes/qnn"
	"mm-abi.org/mm/workspace"
	"mm-abi.org/mm/workspace/loose"
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
	if opt.Inputs, err = compile.Calibration(opt, c.StringSlice("calibrate"), c.StringSlice("shape"), openModel); err != nil {
		return err
	}
	began := time.Now()
	result, err := compile.Compile(c.Context, engine, opt)
	return p.printCompiled(result, err, began)
}

// openModel opens an ONNX model.
func openModel(path string) (*onnx.Model, error) { return loose.Open(path, loose.Options{}) }

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
	return out, nil
}

// printCompiled prints the result of a compilation.
func (p *program) printCompiled(result compile.Result, err error, began time.Time) error {
	if errors.Is(err, compile.ErrExists) {
		err = diag.Hinted(err, "--force replaces it")
	}
	return show(p, result, err, func(r compile.Result) error { r.WriteText(p.Stdout, time.Since(began)); return nil })
}
