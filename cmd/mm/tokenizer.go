package main

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train"
)

func (p *program) tokenizerCommand() *cli.Command {
	use := &cli.StringFlag{Name: "tokenizer", Aliases: []string{"t"}, Usage: "tokenizer `FILE`: GGUF, tokenizer.json or phi-auto's JSON", Required: true}
	return &cli.Command{
		Name: "tokenizer", Usage: "train and test tokenizers",
		Subcommands: []*cli.Command{
			{
				Name: "train", Usage: "train a byte-level BPE tokenizer on text files", ArgsUsage: "FILE…",
				Flags: []cli.Flag{
					p.jsonFlag(),
					&cli.IntFlag{Name: "vocab", Value: 1024, Usage: "number of tokens, including special tokens and the 256 bytes"},
					&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "GGUF `FILE` to write", Required: true},
					&cli.StringFlag{Name: "pre", Value: "gpt-2", Usage: "pre-tokenizer; mm-none does not split text into words"},
					&cli.StringFlag{Name: "separator", Value: "<|endoftext|>", Usage: "separator of documents"},
					&cli.BoolFlag{Name: "plain", Usage: "omit MM-ABI's special tokens"},
				},
				Action: p.tokenizerTrain,
			},
			{
				Name: "encode", Usage: "print the tokens of a text", ArgsUsage: "[TEXT…]",
				Flags:  []cli.Flag{p.jsonFlag(), use, &cli.BoolFlag{Name: "special", Usage: "parse special tokens in the text"}},
				Action: p.tokenizerEncode,
			},
			{
				Name: "fertility", Usage: "measure tokens per word, character and byte of texts, by language", ArgsUsage: "FILE…",
				Description: "FILE is plain text, or XML such as the UDHR's. Further columns compare with the base language: tokens per\nword, and total tokens, which compares translations regardless of how their scripts delimit words.",
				Flags:       []cli.Flag{p.jsonFlag(), use, &cli.StringFlag{Name: "base", Value: "eng", Usage: "`LANGUAGE` of the file to compare the others with"}},
				Action:      p.tokenizerFertility,
			},
		},
	}
}

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
