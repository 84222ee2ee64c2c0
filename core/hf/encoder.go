package hf

import (
	"errors"
	"fmt"
	"path/filepath"

	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/core/tokenizer"
)

// Encoder is a folder of an encoder of text, such as BERT.
type Encoder struct {
	Config    []byte // config.json
	Tokenizer *tokenizer.Tokenizer
	// Limit is model_max_length of tokenizer_config.json, 0 if it has none.
	Limit int
	Card  Card

	dir    string
	shards []shards
}

// OpenEncoder reads the folder at dir: its configuration and tokenizer. Close unmaps
// the weights that [Encoder.Tensors] reads.
func OpenEncoder(dir string) (*Encoder, error) {
	e := &Encoder{dir: dir}
	if err := e.open(); err != nil {
		return nil, fmt.Errorf("reading the encoder in %s: %w", dir, err)
	}
	return e, nil
}

// OpenWeights reads the configuration of the folder at dir, whose vocabulary another
// reader has read.
func OpenWeights(dir string, vocab *tokenizer.Tokenizer) (*Encoder, error) {
	e := &Encoder{dir: dir, Tokenizer: vocab}
	var err error
	if e.Config, err = readBounded(dir, "config.json", maxConfig); err != nil {
		return nil, err
	}
	return e, e.readCard()
}

func (e *Encoder) open() (err error) {
	if e.Config, err = readBounded(e.dir, "config.json", maxConfig); err != nil {
		return err
	}
	c, err := parseConfig(e.Config)
	if err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	f := tokenizer.Transformers{ModelType: c.text("model_type", ""), Class: c.text("tokenizer_class", "")}
	for _, part := range []struct {
		name  string
		limit int64
		into  *[]byte
	}{
		{"tokenizer.json", maxTokenizer, &f.Tokenizer}, {"vocab.txt", maxTokenizer, &f.Words}, {"spiece.model", maxTokenizer, &f.Pieces},
		{"tokenizer_config.json", maxTokenizer, &f.Config}, {"special_tokens_map.json", maxConfig, &f.SpecialTokens},
		{"added_tokens.json", maxTokenizer, &f.AddedTokens},
	} {
		if *part.into, err = readOptional(e.dir, part.name, part.limit); err != nil {
			return err
		}
	}
	if f.Tokenizer == nil && f.Words == nil && f.Pieces == nil {
		return errors.New("missing tokenizer.json and vocab.txt")
	}
	if e.Tokenizer, err = tokenizer.FromTransformers(f); err != nil {
		return err
	}
	e.Limit = f.Limit()
	return e.readCard()
}

// readCard reads the model card; the name is that of the folder if it has none.
func (e *Encoder) readCard() (err error) {
	if e.Card, err = readCard(e.dir); err != nil {
		return err
	}
	if e.Card.Name == "" {
		if abs, err := filepath.Abs(e.dir); err == nil {
			e.Card.Name = filepath.Base(abs)
		}
	}
	return nil
}

// Tensors returns the tensors of the weight files in a folder of the model, "" for
// its own. They are valid until Close.
func (e *Encoder) Tensors(folder string) (map[string]safetensors.Tensor, error) {
	s, err := openShards(filepath.Join(e.dir, filepath.FromSlash(folder)))
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	e.shards = append(e.shards, s)
	out := map[string]safetensors.Tensor{}
	for _, f := range s.files {
		for _, t := range f.Tensors {
			out[t.Name] = t
		}
	}
	return out, nil
}

// Read returns an optional file of the folder, nil if it is missing.
func (e *Encoder) Read(name string) ([]byte, error) {
	return readOptional(e.dir, filepath.FromSlash(name), maxConfig)
}

// Close unmaps the weights. It is idempotent.
func (e *Encoder) Close() error {
	var all error
	for i := range e.shards {
		all = errors.Join(all, e.shards[i].close())
	}
	return all
}
