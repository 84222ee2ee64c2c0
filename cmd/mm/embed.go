package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes/embed"
	"mm-abi.org/mm/runtimes/runner"
)

// maxTextFile bounds a file of texts.
const maxTextFile = 64 << 20

// textOptions returns the texts of the arguments from one on, or those of --file.
func (p *program) textOptions(c *cli.Context, from int) ([]string, error) {
	texts, file := c.Args().Slice()[min(from, c.NArg()):], c.String("file")
	if len(texts) == 1 && texts[0] == "-" && file == "" {
		texts, file = nil, "-"
	}
	switch {
	case file != "" && len(texts) > 0:
		return nil, diag.Usagef("texts are arguments or lines of --file, not both")
	case file == "" && len(texts) == 0 && len(c.StringSlice("image")) > 0:
		return nil, nil
	case file == "" && len(texts) == 0:
		return nil, diag.Usagef("missing text: name it after the model, or use --file FILE")
	case file == "":
		return texts, nil
	}
	return p.textLines(file)
}

// textLines reads a text a line.
func (p *program) textLines(file string) (texts []string, err error) {
	data, err := p.input().Read(file, maxTextFile)
	if errors.Is(err, fsx.ErrTooLarge) {
		var list diag.List
		list.Add(diag.TextLong, diag.Pos{File: file}, fmt.Sprintf("more than %s", size(maxTextFile)), "split it into several files")
		return nil, list.Err()
	}
	for line := range strings.Lines(string(data)) {
		texts = append(texts, strings.TrimRight(line, "\r\n"))
	}
	return texts, err
}

// embedded is the output of mm embed.
type embedded struct {
	Vectors [][]float32 `json:"vectors"`
	Size    int         `json:"size"`
	Tokens  int         `json:"tokens"`
	Cut     int         `json:"cut,omitempty"`
	Images  int         `json:"images,omitempty"`      // of the vectors, the last
	Scale   *float64    `json:"logit_scale,omitempty"` // of a model of texts and pictures
	Bias    *float64    `json:"logit_bias,omitempty"`
}

func (p *program) embed(c *cli.Context) error {
	texts, err := p.textOptions(c, 1)
	if err != nil {
		return err
	}
	if c.IsSet("npy") && p.JSON {
		return diag.Usagef("--npy and --json are two forms of one output")
	}
	m, err := p.measuredOptions(c)
	if err != nil {
		return err
	}
	res, images := &embed.Result{}, c.StringSlice("image")
	out := embedded{Images: len(images)}
	err = p.measuring(c.Context, m, func(r *runner.Runner) (err error) {
		if len(texts) > 0 {
			if res, err = r.Embed(c.Context, texts, embed.Options{Prompt: c.String("prompt"), MaxTokens: c.Int("max-tokens")}); err != nil {
				return err
			}
		}
		if scale, bias, ok := r.Logits(); ok {
			if out.Scale = &scale; bias != 0 {
				out.Bias = &bias
			}
		}
		if len(images) > 0 {
			seen, err := r.EmbedImages(c.Context, images)
			res.Vectors = append(res.Vectors, seen...)
			return err
		}
		return nil
	})
	if err != nil {
		return inputError(err)
	}
	p.sayCut(res)
	switch {
	case c.IsSet("npy"):
		return p.writeVectors(c.String("npy"), res.Vectors)
	case p.JSON:
		out.Vectors, out.Size, out.Tokens, out.Cut = res.Vectors, len(res.Vectors[0]), res.Tokens, res.Cut
		return p.PrintJSON(out)
	}
	for _, v := range res.Vectors {
		if err := p.Line("%s", strings.Trim(fmt.Sprint(v), "[]")); err != nil {
			return err
		}
	}
	return nil
}

// writeVectors writes an array of a row for each vector.
func (p *program) writeVectors(file string, vectors [][]float32) error {
	data, err := npy.Encode(npy.Rows(vectors))
	if err != nil {
		return err
	}
	if file == "-" {
		_, err := p.Stdout.Write(data)
		return err
	}
	return fsx.WriteFile(file, data, 0o644)
}

func (p *program) rerank(c *cli.Context) error {
	query := c.Args().Get(1)
	documents, err := p.textOptions(c, 2)
	if err != nil {
		return err
	}
	m, err := p.measuredOptions(c)
	if err != nil {
		return err
	}
	var res *embed.Result
	err = p.measuring(c.Context, m, func(r *runner.Runner) (err error) {
		res, err = r.Rerank(c.Context, query, documents, embed.Options{MaxTokens: c.Int("max-tokens")})
		return err
	})
	if err != nil {
		return inputError(err)
	}
	p.sayCut(res)
	return written(p, res.Ranking(documents, c.Int("top")), nil)
}

// sayCut reports texts that were longer than the limit.
func (p *program) sayCut(res *embed.Result) {
	if res.Cut > 0 {
		p.Note("%d of %d texts were cut to the limit of tokens", res.Cut, len(res.Vectors))
	}
}
