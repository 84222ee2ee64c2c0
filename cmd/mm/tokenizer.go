package main

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/tokenizer"
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
	return p.printLine(map[string]any{"file": c.String("out"), "vocab_size": len(vocab.Tokens), "tokens": ids, "bytes": len(text)}, "%s: %d tokens, %.3f bytes a token on the training text", c.String("out"), len(vocab.Tokens), float64(len(text))/float64(max(ids, 1)))
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
	if p.json {
		if ids == nil {
			ids = []int32{}
		}
		return p.printJSON(map[string]any{"ids": ids})
	}
	for _, id := range ids {
		if _, err := fmt.Fprintf(p.stdout, "%d\t%q\n", id, tok.Piece(id)); err != nil {
			return err
		}
	}
	return nil
}

// fertile is a line of mm tokenizer fertility.
type fertile struct {
	File     string `json:"file"`
	Language string `json:"language,omitempty"`
	Name     string `json:"name,omitempty"`
	tokenizer.Fertility
	Ratio *tokenizer.FertilityRatio `json:"ratio,omitempty"` // if there is a base
}

func (p *program) tokenizerFertility(c *cli.Context) error {
	tok, err := train.ReadTokenizer(c.String("tokenizer"))
	if err != nil {
		return err
	}
	return p.fertility(c.Args().Slice(), c.String("base"), c.IsSet("base"), func(text string) int { return len(tok.Encode(text, tokenizer.Options{})) })
}

// fertility measures files and compares them with the file in the base language,
// which is required if it was named.
func (p *program) fertility(files []string, base string, named bool, encode tokenizer.Encoder) error {
	var list []fertile
	var all error
	of := -1
	for _, file := range files {
		text, err := tokenizer.ReadText(file)
		if err != nil {
			all = errors.Join(all, err)
			continue
		}
		if text.Language == base && of < 0 {
			of = len(list)
		}
		list = append(list, fertile{File: file, Language: text.Language, Name: text.Name, Fertility: tokenizer.MeasureFertility(text.Text, encode)})
	}
	switch {
	case all != nil:
		return all
	case of < 0 && named:
		return usageError{fmt.Errorf("--base: no file is in the language %s", base)}
	case of < 0:
		p.say("no file is in the language %s (--base): nothing is compared", base)
	}
	for i := range list {
		if of >= 0 {
			r := tokenizer.CompareFertility(list[i].Fertility, list[of].Fertility)
			list[i].Ratio = &r
		}
	}
	if p.json {
		return p.printJSON(list)
	}
	return p.printFertility(list, base)
}

func (p *program) printFertility(list []fertile, base string) error {
	var rows [][]string
	high := 0
	for _, f := range list {
		word := fmt.Sprint(f.Words)
		if f.ByChar {
			word += "*" // characters
		}
		row := []string{f.File, f.Language, word, fmt.Sprint(f.Tokens), fmt.Sprintf("%.2f", f.PerWord), fmt.Sprintf("%.3f", f.PerCharacter), fmt.Sprintf("%.3f", f.PerByte), "", ""}
		if f.Ratio != nil {
			row[7], row[8] = fmt.Sprintf("%.2f", f.Ratio.Word), fmt.Sprintf("%.2f", f.Ratio.Parallel)
			if f.Ratio.High {
				row[8] += " !"
				high++
			}
		}
		rows = append(rows, row)
	}
	if err := p.printTable([]string{"FILE", "LANGUAGE", "WORDS", "TOKENS", "A WORD", "A CHARACTER", "A BYTE", "WORD/" + base, "TOKENS/" + base}, rows); err != nil {
		return err
	}
	if high > 0 {
		p.say("%s with more than %.1f times the tokens of %s (!)", count(high, "text"), tokenizer.FertilityThreshold, base)
	}
	return nil
}
