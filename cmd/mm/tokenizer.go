package main

import (
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/train"
)

func (p *program) tokenizerCommand() *cli.Command {
	use := &cli.StringFlag{Name: "tokenizer", Aliases: []string{"t"}, Usage: "tokenizer `FILE`: GGUF, tokenizer.json or phi-auto's JSON", Required: true}
	return &cli.Command{
		Name: "tokenizer", Usage: "train and try tokenizers",
		Subcommands: []*cli.Command{
			{
				Name: "train", Usage: "learn byte-level BPE from text files", ArgsUsage: "FILE…",
				Flags: []cli.Flag{
					p.jsonFlag(),
					&cli.IntFlag{Name: "vocab", Value: 1024, Usage: "number of tokens, special ones and the 256 bytes included"},
					&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "GGUF `FILE` to write", Required: true},
					&cli.StringFlag{Name: "pre", Value: "gpt-2", Usage: "pre-tokenizer, or mm-none not to cut text into words"},
					&cli.StringFlag{Name: "separator", Value: "<|endoftext|>", Usage: "text between documents"},
					&cli.BoolFlag{Name: "plain", Usage: "without MM-ABI's special tokens"},
				},
				Action: p.tokenizerTrain,
			},
			{
				Name: "encode", Usage: "print the tokens of a text", ArgsUsage: "[TEXT…]",
				Flags:  []cli.Flag{p.jsonFlag(), use, &cli.BoolFlag{Name: "special", Usage: "special tokens in the text count as such"}},
				Action: p.tokenizerEncode,
			},
			{
				Name: "fertility", Usage: "tokens a word, a character and a byte of texts, by language", ArgsUsage: "FILE…",
				Description: "Texts or XML such as the UDHR's. In columns beside the base: tokens a word, and tokens of the whole, which\ncompares texts that say the same whatever their scripts take for a word.",
				Flags:       []cli.Flag{p.jsonFlag(), use, &cli.StringFlag{Name: "base", Value: "eng", Usage: "`LANGUAGE` of the file that the others are held against, where there is one"}},
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
	if err := writeVocabulary(c.String("out"), tok); err != nil {
		return err
	}
	ids := 0
	for doc := range documents(text, c.String("separator")) {
		ids += len(tok.Encode(doc, tokenizer.Options{}))
	}
	if p.json {
		return p.printJSON(map[string]any{"file": c.String("out"), "vocab_size": len(vocab.Tokens), "tokens": ids, "bytes": len(text)})
	}
	_, err = fmt.Fprintf(p.stdout, "%s: %d tokens, %.3f bytes a token on the training text\n", c.String("out"), len(vocab.Tokens), float64(len(text))/float64(max(ids, 1)))
	return err
}

func documents(text, separator string) iter.Seq[string] {
	if separator == "" {
		return slices.Values([]string{text})
	}
	return strings.SplitSeq(text, separator)
}

// writeVocabulary writes a GGUF file that holds a tokenizer and no weights.
func writeVocabulary(file string, tok *tokenizer.Tokenizer) error {
	d, err := fsx.Create(filepath.Dir(file), 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	var b strings.Builder
	kvs := append([]gguf.KV{{Key: gguf.KeyArchitecture, Value: "llama"}, {Key: gguf.KeyName, Value: strings.TrimSuffix(filepath.Base(file), ".gguf")}}, tok.KVs()...)
	if _, err := gguf.Write(&b, kvs, nil); err != nil {
		return err
	}
	return d.WriteFile(filepath.Base(file), []byte(b.String()), 0o644)
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
