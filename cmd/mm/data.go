package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/corpus"
	"mm-abi.org/mm/lab/corpus/pii"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/dataset/fonts"
	"mm-abi.org/mm/train/dataset/scene"
	"mm-abi.org/mm/train/dataset/sound"
	"mm-abi.org/mm/train/dataset/synth"
)

// toolCallTemplate is a document with a tool call (MM-ABI 1.0 §2.3): the sum of two
// numbers and the answer of the skill. The question and the answer are marked as
// given.
const toolCallTemplate = dataset.ContextOpen + "What is {a} plus {b}?" + dataset.ContextClose + " " +
	abi.ToolCallOpen + `{"tool":"sympy-lite","args":{"expr":"{a}+{b}","op":"simplify"}}` + abi.ToolCallClose +
	dataset.ContextOpen + `{"result":{sum}}` + dataset.ContextClose + " The answer is {sum}."

func (p *program) dataGenerate(c *cli.Context) error {
	file := c.Args().First()
	opt := synth.Options{Documents: c.Int("documents"), Seed: c.Uint64("seed"), Calls: []string{toolCallTemplate}}
	if c.Bool("plain") {
		opt.Calls = nil
	}
	if err := fsx.Replace(file, 0o644, func(w io.Writer) error { return synth.Write(w, opt) }); err != nil {
		return err
	}
	return p.PrintLine(map[string]any{"file": file, "documents": opt.Documents}, "%d documents in %s", c.Int("documents"), file)
}

func (p *program) dataScenes(c *cli.Context) error {
	s, err := scene.New(scene.Options{
		Kinds: c.StringSlice("kinds"), Split: c.String("split"), Seed: c.Uint64("seed"), Size: c.Int("size"), Frames: c.Int("frames"), Plain: c.Bool("plain"),
	})
	if err != nil {
		return diag.Usage(err)
	}
	dir, n := c.String("out"), c.Int("n")
	if err := scene.Save(c.Context, dir, s, n); err != nil {
		return err
	}
	return p.PrintLine(map[string]any{"folder": dir, "scenes": n}, "%d scenes in %s", n, dir)
}

func (p *program) dataFonts(c *cli.Context) error {
	_, err := io.WriteString(p.Stdout, fonts.Notices())
	return err
}

func (p *program) dataSpeech(c *cli.Context) error {
	opt := sound.SpeechOptions{Dir: c.Args().First(), Seed: c.Uint64("seed"), Digits: c.Int("digits"), Words: c.Int("words"), Voices: c.StringSlice("voice"), Program: c.String("program")}
	if opt.Digits < 1 || opt.Digits > 100 || opt.Words < 1 || opt.Words > 100 {
		return diag.Usagef("--digits %d, --words %d: must be from 1 to 100", opt.Digits, opt.Words)
	}
	if opt.Reader = c.String("reader"); opt.Reader != "" && (c.IsSet("voice") || c.IsSet("digits") || c.IsSet("words") || c.IsSet("seed")) {
		return diag.Usagef("--reader excludes --voice, --digits, --words and --seed")
	}
	if c.Bool("flite") {
		opt.Flite = "flite"
	}
	pack, err := sound.Synthesize(c.Context, opt)
	if err != nil {
		return err
	}
	return p.PrintLine(pack, "%d takes, %.0f minutes of speech by %s in %s", pack.Takes, pack.Seconds/60, pack.Engine, pack.File)
}

func (p *program) dataScrub(c *cli.Context) error {
	var kinds []pii.Kind
	for _, k := range c.StringSlice("kinds") {
		if !slices.Contains(pii.Kinds(), pii.Kind(k)) {
			return diag.Usagef("unknown kind %q, want one of %s", k, joined(pii.Kinds()))
		}
		kinds = append(kinds, pii.Kind(k))
	}
	in, done, err := p.input().Open(c.Args().First())
	if err != nil {
		return err
	}
	defer done()
	var report *pii.Report
	err = fsx.Replace(c.String("out"), 0o644, func(w io.Writer) error {
		report, err = pii.New(kinds, c.Float64("score")).Lines(w, fsx.Reader{Context: c.Context, R: in}, c.Bool("spans"))
		return err
	})
	if err != nil {
		return err
	}
	return p.printFound(report)
}

func (p *program) printFound(r *pii.Report) error {
	return p.PrintOr(r, func() error {
		var rows [][]string
		for _, k := range pii.Kinds() {
			if n, ok := r.Found[k]; ok {
				rows = append(rows, []string{string(k), fmt.Sprint(n)})
			}
		}
		return p.PrintTable([]string{"KIND", "FOUND"}, rows)
	})
}

func (p *program) exportCroissant(c *cli.Context) error {
	dir, out := c.Args().First(), c.String("out")
	l, err := corpus.OpenLineage(dir)
	if err != nil {
		return err
	}
	if err := l.Verify(dir); err != nil {
		return err
	}
	data, err := corpus.ExportCroissant(l)
	if err != nil {
		return err
	}
	if out == "" {
		out = dir + "/" + corpus.CroissantFile
	}
	if err := fsx.WriteFile(out, data, 0o644); err != nil {
		return err
	}
	return p.PrintLine(map[string]any{"file": out, "record_sets": len(l.Files)}, "%s: %s", out, diag.Count(len(l.Files), "record set"))
}

func (p *program) importCroissant(c *cli.Context) error {
	file, out := c.Args().First(), c.String("out")
	data, err := fsx.ReadFile(file, corpus.MaxBytes)
	if err != nil {
		var list diag.List
		list.Add(diag.BadCroissant, diag.Pos{File: file}, err.Error(), "")
		return list.Err()
	}
	manifest, list := corpus.ImportCroissant(file, data, corpus.CroissantOptions{Text: c.String("text"), License: c.String("license")})
	if err := list.Err(); err != nil {
		return err
	}
	if out == "" {
		out = strings.TrimSuffix(file, ".json") + ".data.yaml"
	}
	if err := fsx.WriteFile(out, manifest, 0o644); err != nil {
		return err
	}
	return p.PrintLine(map[string]any{"file": out}, "%s", out)
}
