package train

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/fsx"
)

// Tokenizer selects a tokenizer: that of a file, or one trained on the training
// documents.
type Tokenizer struct {
	// File is a tokenizer.json, phi-auto's JSON, or a GGUF file with a
	// vocabulary. If set, no tokenizer is trained.
	File    string   `json:"file,omitempty"`
	Pre     string   `json:"pre,omitempty"`     // pre-tokenizer of byte-level BPE; gpt-2, mm-none does not split
	Control []string `json:"control,omitempty"` // control tokens, the first ids
	BOS     string   `json:"bos,omitempty"`     // one of Control
	EOS     string   `json:"eos,omitempty"`     // one of Control
}

func (t Tokenizer) validate() error {
	if t.File != "" && (t.Pre != "" || len(t.Control) > 0 || t.BOS != "" || t.EOS != "") {
		return errors.New("tokenizer: file excludes all other keys")
	}
	for _, name := range []string{t.BOS, t.EOS} {
		if name != "" && !slices.Contains(t.Control, name) {
			return fmt.Errorf("tokenizer: %q is not a control token", name)
		}
	}
	return nil
}

// build reads the tokenizer's file or trains a tokenizer of size tokens.
func (t Tokenizer) build(dir string, docs iter.Seq[string], size int) (*tokenizer.Tokenizer, error) {
	if t.File != "" {
		return ReadTokenizer(Resolve(dir, t.File))
	}
	v, err := tokenizer.Train(docs, tokenizer.TrainOptions{VocabSize: size, Pre: t.Pre, Control: t.Control, BOS: t.BOS, EOS: t.EOS})
	if err != nil {
		return nil, fmt.Errorf("training a tokenizer: %w", err)
	}
	return tokenizer.New(v)
}

// Size limits of files read into memory.
const (
	maxTokenizerFile = 256 << 20 // a tokenizer in JSON
	maxTemplate      = 1 << 20   // a chat template
)

// readBounded reads a file of at most size bytes.
func readBounded(path string, size int64) ([]byte, error) {
	f, err := fsx.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, size+1))
	if err != nil {
		return nil, err
	}
	return b, checkSize(path, int64(len(b)), size)
}

func checkSize(path string, n, limit int64) error {
	if n > limit {
		return fmt.Errorf("file %s is too large: want at most %d bytes", path, limit)
	}
	return nil
}

// ReadTokenizer reads a tokenizer from a GGUF file, a tokenizer.json or
// phi-auto's JSON, detected by content.
func ReadTokenizer(path string) (*tokenizer.Tokenizer, error) {
	if isGGUF(path) {
		g, err := gguf.Open(path)
		if err != nil {
			return nil, fmt.Errorf("tokenizer %s: %w", path, err)
		}
		defer g.Close()
		return tokenizer.FromGGUF(g)
	}
	b, err := readBounded(path, maxTokenizerFile)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	tok, hf := tokenizer.FromHuggingFace(b, nil)
	if hf == nil {
		return tok, nil
	}
	if tok, err = tokenizer.FromPhiAuto(b); err == nil {
		return tok, nil
	}
	return nil, fmt.Errorf("tokenizer %s: as tokenizer.json: %w; as phi-auto's: %w", path, hf, err)
}

// WriteTokenizer writes a GGUF file with a tokenizer and without weights.
func WriteTokenizer(file string, tok *tokenizer.Tokenizer) error {
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
