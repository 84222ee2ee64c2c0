package main

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/train"
)

func (p *program) tokenizerTrain(c *cli.Context) error {
	text, err := p.readText(c.Args().Slice())
	if err != nil {
		return err
	}
	opt := tokenizer.TrainOptions{VocabSize: c.Int("vocab"), Pre: c.String("pre")}
	if !c.Bool("plain") {
		opt.Control, opt.BOS, opt.EOS = abi.SpecialTokens(), "<bos>", "<eos>"
	}
	vocab, err := tokenizer.Train(documents(text, c.String("separator")), opt)
	if err != nil {
		return err
	}
	tok, err := tokenizer.New(vocab)
	if err != nil {
		return err
	}
	if err := train.WriteTokenizer(c.String("out"), tok); err != nil {
		return err
	}
	ids := 0
	for doc := range documents(text, c.String("separator")) {
		ids += len(tok.Encode(doc, tokenizer.Options{}))
	}
	return p.PrintLine(map[string]any{"file": c.String("out"), "vocab_size": len(vocab.Tokens), "tokens": ids, "bytes": len(text)}, "%s: %d tokens, %.3f bytes a token on the training text", c.String("out"), len(vocab.Tokens), float64(len(text))/float64(max(ids, 1)))
}

func documents(text, separator string) iter.Seq[string] {
	if separator == "" {
		return slices.Values([]string{text})
	}
	return strings.SplitSeq(text, separator)
}

func (p *program) tokenizerEncode(c *cli.Context) error {
	tok, err := train.ReadTokenizer(c.String("tokenizer"))
	if err != nil {
		return err
	}
	text := strings.Join(c.Args().Slice(), " ")
	if c.NArg() == 0 {
		if text, err = p.readText([]string{"-"}); err != nil {
			return err
		}
	}
	ids := tok.Encode(text, tokenizer.Options{Special: c.Bool("special")})
	if p.JSON {
		if ids == nil {
			ids = []int32{}
		}
		return p.PrintJSON(map[string]any{"ids": ids})
	}
	for _, id := range ids {
		if _, err := fmt.Fprintf(p.Stdout, "%d\t%q\n", id, tok.Piece(id)); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) tokenizerFertility(c *cli.Context) error {
	tok, err := train.ReadTokenizer(c.String("tokenizer"))
	if err != nil {
		return err
	}
	base := c.String("base")
	list, found, err := tokenizer.MeasureFiles(c.Args().Slice(), base, func(text string) int { return len(tok.Encode(text, tokenizer.Options{})) })
	switch {
	case err != nil:
		return err
	case !found && c.IsSet("base"):
		return diag.Usagef("--base: no file is in the language %s", base)
	case !found:
		p.Note("no file is in the language %s (--base): nothing is compared", base)
	}
	if p.JSON {
		return p.PrintJSON(list)
	}
	var rows [][]string
	high := 0
	for _, f := range list {
		rows = append(rows, f.Row())
		if f.Ratio != nil && f.Ratio.High {
			high++
		}
	}
	if err := p.PrintTable(tokenizer.FertilityHeading(base), rows); err != nil {
		return err
	}
	if high > 0 {
		p.Note("%s with more than %.1f times the tokens of %s (!)", diag.Count(high, "text"), tokenizer.FertilityThreshold, base)
	}
	return nil
}
