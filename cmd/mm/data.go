package main

import (
	"io"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/dataset/fonts"
	"mm-abi.org/mm/train/dataset/scene"
	"mm-abi.org/mm/train/dataset/synth"
)

// toolCallTemplate is a document with a tool call (MM-ABI 1.0 §2.3): the sum of two
// numbers and the answer of the skill. The question and the answer are marked as
// given.
const toolCallTemplate = dataset.ContextOpen + "What is {a} plus {b}?" + dataset.ContextClose + " " +
	abi.ToolCallOpen + `{"tool":"sympy-lite","args":{"expr":"{a}+{b}","op":"simplify"}}` + abi.ToolCallClose +
	dataset.ContextOpen + `{"result":{sum}}` + dataset.ContextClose + " The answer is {sum}."

func (p *program) dataGenerateAction(c *cli.Context) error {
	file := c.Args().First()
	opt := synth.Options{Documents: c.Int("documents"), Seed: c.Uint64("seed"), Calls: []string{toolCallTemplate}}
	if c.Bool("plain") {
		opt.Calls = nil
	}
	if err := fsx.Replace(file, 0o644, func(w io.Writer) error { return synth.Write(w, opt) }); err != nil {
		return err
	}
	return p.printLine(map[string]any{"file": file, "documents": opt.Documents}, "%d documents in %s", c.Int("documents"), file)
}

func (p *program) dataScenesAction(c *cli.Context) error {
	s, err := scene.New(scene.Options{
		Kinds: c.StringSlice("kinds"), Split: c.String("split"), Seed: c.Uint64("seed"), Size: c.Int("size"), Frames: c.Int("frames"), Plain: c.Bool("plain"),
	})
	if err != nil {
		return usageError{err}
	}
	dir, n := c.String("out"), c.Int("n")
	if err := scene.Save(c.Context, dir, s, n); err != nil {
		return err
	}
	return p.printLine(map[string]any{"folder": dir, "scenes": n}, "%d scenes in %s", n, dir)
}

func (p *program) dataFontsAction(c *cli.Context) error {
	_, err := io.WriteString(p.stdout, fonts.Notices())
	return err
}
