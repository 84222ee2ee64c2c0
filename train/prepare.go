package train

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mm-abi.org/mm/core/chat"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train/dataset"
)

// Corpus is the data of a run: training tokens and held-out tokens.
type Corpus struct {
	Train, Held *dataset.Tokens
	Tokenizer   *tokenizer.Tokenizer // of both; nil: no bits per byte
	// Text and Vocabulary are the digests of the documents and the tokenizer. A
	// run resumes only with the same ones.
	Text, Vocabulary string
	// Lineage lists the data sets of mm data build that the documents are from.
	Lineage []Lineage

	special bool // control tokens are parsed in the documents
}

// Close unmaps the tokens.
func (c *Corpus) Close() error {
	err := c.Train.Close()
	if c.Held != nil {
		if e := c.Held.Close(); err == nil {
			err = e
		}
	}
	return err
}

// Prepare reads the documents and the tokenizer of a configuration. Paths are
// relative to dir, the folder of the configuration. The caller closes the
// result.
func Prepare(cfg Config, dir string) (*Corpus, error) {
	return PrepareFrom(context.Background(), cfg, dir, nil)
}

// PrepareFrom is [Prepare] of data that may be in buckets. The digests of the
// objects are in the lineage of the result. Without objects, addresses are faults.
func PrepareFrom(ctx context.Context, cfg Config, dir string, objects Objects) (*Corpus, error) {
	from := &files{ctx: ctx, dir: dir, objects: objects, want: map[string]string{}}
	if err := errors.Join(cfg.Data.validate(), cfg.Tokenizer.validate()); err != nil {
		return nil, err
	}
	if cfg.Data.Format == uint16Format {
		return cfg.tokens(from)
	}
	var lineage []Lineage
	var err error
	if cfg.Data, err = from.expanded(cfg.Data); err != nil {
		return nil, err
	}
	if cfg.Data, lineage, err = cfg.Data.from(from); err != nil {
		return nil, err
	}
	if err := cfg.Data.withFiles(); err != nil {
		return nil, err
	}
	form, err := cfg.form(dir)
	if err != nil {
		return nil, err
	}
	train, held, err := cfg.Data.documents(from, form)
	if err != nil {
		return nil, err
	}
	lineage = append(lineage, from.read...)
	tok, err := cfg.Tokenizer.build(dir, cfg.plain(train), cfg.Model.Vocab)
	if err != nil {
		return nil, err
	}
	if tok.Size() > cfg.Model.Vocab {
		return nil, At("/model/vocab_size", fmt.Errorf("vocabulary mismatch: tokenizer has %d tokens, model %d", tok.Size(), cfg.Model.Vocab))
	}
	digest := dataset.Digest(append(append([]dataset.Document{{Text: fmt.Sprint(len(train))}}, train...), held...))
	c := &Corpus{Tokenizer: tok, Text: hex.EncodeToString(digest[:]), Vocabulary: dataset.TokenizerDigest(tok), special: cfg.Data.Special, Lineage: lineage}
	opt := dataset.EncodeOptions{Special: cfg.Data.Special}
	encode := func(docs []dataset.Document) (*dataset.Tokens, error) {
		if cfg.Data.Cache == "" {
			return dataset.Encode(docs, tok, opt)
		}
		return dataset.Cache(Resolve(dir, cfg.Data.Cache), docs, tok, opt)
	}
	if c.Train, err = encode(train); err != nil {
		return nil, fmt.Errorf("training data: %w", err)
	}
	if len(held) == 0 {
		return c, nil
	}
	if c.Held, err = encode(held); err != nil {
		return nil, errors.Join(fmt.Errorf("held-out data: %w", err), c.Train.Close())
	}
	return c, nil
}

// Documents reads the documents of a configuration, before they are split into
// training and held-out documents. Paths are relative to dir.
func (c Config) Documents(dir string) ([]dataset.Document, error) {
	if err := errors.Join(c.Data.validate(), c.Tokenizer.validate()); err != nil {
		return nil, err
	}
	if c.Data.Format == uint16Format || len(c.Data.HeldFiles) > 0 {
		return nil, At("/data", errors.New("data: token ids and held_out_files have no documents to split"))
	}
	from := &files{ctx: context.Background(), dir: dir}
	if _, err := from.expanded(c.Data); err != nil {
		return nil, err
	}
	form, err := c.form(dir)
	if err != nil {
		return nil, err
	}
	c.Data.Held = 0.5 // every document is in one of the parts, in an order that the caller does not use
	train, held, err := c.Data.documents(from, form)
	return append(train, held...), err
}

// TokenizerOf returns the tokenizer of a configuration: that of its file, or
// one trained on the documents.
func (c Config) TokenizerOf(dir string, docs []dataset.Document) (*tokenizer.Tokenizer, error) {
	return c.Tokenizer.build(dir, c.plain(docs), c.Model.Vocab)
}

// form returns the chat template's options: the texts of the tokenizer's BOS
// and EOS.
func (c Config) form(dir string) (chat.Options, error) {
	form := chat.Options{BOS: c.Tokenizer.BOS, EOS: c.Tokenizer.EOS}
	if c.Data.Format != chatFormat || c.Tokenizer.File == "" {
		return form, nil
	}
	tok, err := ReadTokenizer(Resolve(dir, c.Tokenizer.File))
	if err != nil {
		return form, err
	}
	v := tok.Vocabulary()
	text := func(id int32) string {
		if id == tokenizer.None {
			return ""
		}
		return v.Tokens[id].Text
	}
	form.BOS, form.EOS = text(v.Special.BOS), text(v.Special.EOS)
	return form, nil
}

// tokens maps files of token ids of the tokenizer's file.
func (c Config) tokens(from *files) (*Corpus, error) {
	tok, err := ReadTokenizer(Resolve(from.dir, c.Tokenizer.File))
	if err != nil {
		return nil, err
	}
	if tok.Size() > c.Model.Vocab {
		return nil, At("/model/vocab_size", fmt.Errorf("vocabulary mismatch: tokenizer has %d tokens, model %d", tok.Size(), c.Model.Vocab))
	}
	var maps []*dataset.Tokens
	for _, name := range slices.Concat(c.Data.Files, c.Data.HeldFiles) {
		file, err := from.local(name, c.Data.Cache)
		var m *dataset.Tokens
		if err == nil {
			m, err = dataset.OpenUint16(file, tok.Special().EOS)
		}
		if err != nil {
			for _, m := range maps {
				err = errors.Join(err, m.Close())
			}
			return nil, err
		}
		maps = append(maps, m)
	}
	corpus := &Corpus{Tokenizer: tok, Vocabulary: dataset.TokenizerDigest(tok), Train: maps[0], Text: maps[0].Digest(), Lineage: from.read}
	if len(maps) > 1 {
		corpus.Held = maps[1]
		corpus.Text += corpus.Held.Digest()
	}
	return corpus, nil
}

// Resolve resolves a path of a configuration in the folder dir.
func Resolve(dir, path string) string {
	if filepath.IsAbs(path) || IsAddress(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// plain returns the documents to train a tokenizer on, split at control tokens.
func (c Config) plain(docs []dataset.Document) iter.Seq[string] {
	if !c.Data.Special || len(c.Tokenizer.Control) == 0 {
		return dataset.Texts(docs)
	}
	var names []string
	for _, name := range c.Tokenizer.Control {
		names = append(names, regexp.QuoteMeta(name))
	}
	control := regexp.MustCompile(strings.Join(names, "|"))
	return func(yield func(string) bool) {
		for _, doc := range docs {
			for _, part := range control.Split(doc.Text, -1) {
				if !yield(part) {
					return
				}
			}
		}
	}
}
