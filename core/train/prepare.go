package train

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mm-abi.org/mm/core/chat"
	"mm-abi.org/mm/core/dataset"
	"mm-abi.org/mm/core/dataset/synth"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/core/tokenizer/bpe"
)

// Data says which documents to train on.
type Data struct {
	Files []string `json:"files,omitempty"` // relative to the configuration
	// Generate adds documents from templates, as mm data generate writes them.
	Generate  *synth.Options `json:"generate,omitempty"`
	Format    string         `json:"format,omitempty"`    // text (default); jsonl, an object a line; chat, a conversation a line; uint16, token ids
	Keys      []string       `json:"keys,omitempty"`      // strings of a line of jsonl that make a document; "text"
	Given     []string       `json:"given,omitempty"`     // those of Keys that are told the model and not learnt
	Template  string         `json:"template,omitempty"`  // file of the chat template that conversations are written in
	Separator string         `json:"separator,omitempty"` // between documents in text; <|endoftext|>
	JoinLines bool           `json:"join_lines,omitempty"`
	MinChars  int            `json:"min_chars,omitempty"` // shorter documents are dropped
	MaxChars  int            `json:"max_chars,omitempty"` // longer ones too; 0: none
	Held      float64        `json:"held_out,omitempty"`  // share of the documents kept apart; 0.05
	HeldFiles []string       `json:"held_out_files,omitempty"`
	SplitSeed uint64         `json:"split_seed,omitempty"`
	// Special takes control tokens that are written in the documents as such,
	// which is right only where the text can be trusted.
	Special bool   `json:"control_tokens,omitempty"`
	Cache   string `json:"cache,omitempty"` // folder of token files; none when empty
}

// Tokenizer says which tokenizer to use: that of a file, or one to train on
// the training documents.
type Tokenizer struct {
	// File is a tokenizer.json, phi-auto's JSON, or a GGUF file with a
	// vocabulary. When it is given nothing is trained.
	File    string   `json:"file,omitempty"`
	Pre     string   `json:"pre,omitempty"`     // pre-tokenizer of byte-level BPE; gpt-2, mm-none does not cut
	Control []string `json:"control,omitempty"` // control tokens, the first ids
	BOS     string   `json:"bos,omitempty"`     // one of Control
	EOS     string   `json:"eos,omitempty"`     // one of Control
}

func (d Data) validate() error {
	var errs []error
	if len(d.Files) == 0 && d.Generate == nil {
		errs = append(errs, errors.New("data: no files, and nothing to generate"))
	}
	if d.Generate != nil {
		errs = append(errs, d.Generate.Validate())
	}
	switch d.Format {
	case "", "text", "jsonl", chatFormat:
	case uint16Format:
		if len(d.Files) != 1 || len(d.HeldFiles) > 1 || d.Generate != nil || d.Held != 0 || d.JoinLines || d.MinChars+d.MaxChars != 0 || d.Special || d.Cache != "" {
			errs = append(errs, errors.New("data: uint16 is one file of token ids, and one in held_out_files: nothing else may stand beside them"))
		}
	default:
		errs = append(errs, fmt.Errorf("data: format %q is none of text, jsonl, chat, uint16", d.Format))
	}
	if (d.Format == chatFormat) != (d.Template != "") {
		errs = append(errs, errors.New("data: a template belongs to the format chat, and that to a template"))
	}
	if len(d.Keys) > 0 && d.Format != "jsonl" {
		errs = append(errs, errors.New("data: keys belong to the format jsonl"))
	}
	for _, k := range d.Given {
		if !slices.Contains(d.Keys, k) {
			errs = append(errs, fmt.Errorf("data: given: %q is none of keys", k))
		}
	}
	if len(d.Keys) > 0 && len(d.Given) >= len(d.Keys) {
		errs = append(errs, errors.New("data: given: all keys are given, so nothing is learnt"))
	}
	if d.MinChars < 0 || d.MaxChars < 0 || !(d.Held >= 0 && d.Held < 1) {
		errs = append(errs, fmt.Errorf("data: min_chars %d, max_chars %d, held_out %v: out of range", d.MinChars, d.MaxChars, d.Held))
	}
	return errors.Join(errs...)
}

func (t Tokenizer) validate() error {
	if t.File != "" && (t.Pre != "" || len(t.Control) > 0 || t.BOS != "" || t.EOS != "") {
		return errors.New("tokenizer: a file says everything: nothing may stand beside it")
	}
	for _, name := range []string{t.BOS, t.EOS} {
		if name != "" && !slices.Contains(t.Control, name) {
			return fmt.Errorf("tokenizer: %q is not among the control tokens", name)
		}
	}
	return nil
}

// Corpus is what a run reads: tokens to train on and tokens kept apart.
type Corpus struct {
	Train, Held *dataset.Tokens
	Tokenizer   *tokenizer.Tokenizer // of both; nil leaves bits per byte out
	// Text and Vocabulary are the digests of the documents and the tokenizer. A
	// run is resumed only on the same ones.
	Text, Vocabulary string

	special bool // control tokens in the documents counted as such
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
// relative to dir, the folder of the configuration. Close the result.
func Prepare(cfg Config, dir string) (*Corpus, error) {
	if err := errors.Join(cfg.Data.validate(), cfg.Tokenizer.validate()); err != nil {
		return nil, err
	}
	if cfg.Data.Format == uint16Format {
		return cfg.tokens(dir)
	}
	train, held, err := cfg.Data.documents(dir)
	if err != nil {
		return nil, err
	}
	tok, err := cfg.Tokenizer.build(dir, cfg.plain(train), cfg.Model.Vocab)
	if err != nil {
		return nil, err
	}
	if tok.Size() > cfg.Model.Vocab {
		return nil, at("/model/vocab_size", fmt.Errorf("the tokenizer has %d tokens, the model %d", tok.Size(), cfg.Model.Vocab))
	}
	digest := dataset.Digest(append(append([]dataset.Document{{Text: fmt.Sprint(len(train))}}, train...), held...))
	c := &Corpus{Tokenizer: tok, Text: hex.EncodeToString(digest[:]), Vocabulary: dataset.TokenizerDigest(tok), special: cfg.Data.Special}
	opt := dataset.EncodeOptions{Special: cfg.Data.Special}
	encode := func(docs []dataset.Document) (*dataset.Tokens, error) {
		if cfg.Data.Cache == "" {
			return dataset.Encode(docs, tok, opt)
		}
		return dataset.Cache(resolve(dir, cfg.Data.Cache), docs, tok, opt)
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

// The formats that want something of their own.
const (
	uint16Format = "uint16" // token ids
	chatFormat   = "chat"   // conversations
)

// tokens maps files of token ids, which the tokenizer's file explains.
func (c Config) tokens(dir string) (*Corpus, error) {
	tok, err := ReadTokenizer(resolve(dir, c.Tokenizer.File))
	if err != nil {
		return nil, err
	}
	if tok.Size() > c.Model.Vocab {
		return nil, at("/model/vocab_size", fmt.Errorf("the tokenizer has %d tokens, the model %d", tok.Size(), c.Model.Vocab))
	}
	corpus := &Corpus{Tokenizer: tok, Vocabulary: dataset.TokenizerDigest(tok)}
	end := tok.Special().EOS
	if corpus.Train, err = dataset.OpenUint16(resolve(dir, c.Data.Files[0]), end); err != nil {
		return nil, err
	}
	corpus.Text = corpus.Train.Digest()
	if len(c.Data.HeldFiles) > 0 {
		if corpus.Held, err = dataset.OpenUint16(resolve(dir, c.Data.HeldFiles[0]), end); err != nil {
			return nil, errors.Join(err, corpus.Train.Close())
		}
		corpus.Text += corpus.Held.Digest()
	}
	return corpus, nil
}

func resolve(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// documents reads and splits what the files hold.
func (d Data) documents(dir string) (train, held []dataset.Document, err error) {
	all, err := d.read(dir, d.Files)
	if err != nil {
		return nil, nil, err
	}
	if d.Generate != nil {
		made, err := d.generate()
		if err != nil {
			return nil, nil, err
		}
		all = append(all, made...)
	}
	if len(d.HeldFiles) > 0 {
		held, err = d.read(dir, d.HeldFiles)
		train, _ = dataset.Split(all, 0, d.SplitSeed)
		return train, held, err
	}
	share := d.Held
	if share == 0 {
		share = 0.05
	}
	train, held = dataset.Split(all, share, d.SplitSeed)
	return train, held, nil
}

func (d Data) read(dir string, files []string) ([]dataset.Document, error) {
	template, err := d.template(dir)
	if err != nil {
		return nil, err
	}
	f := dataset.Filter{JoinLines: d.JoinLines, MinChars: d.MinChars, MaxChars: d.MaxChars, Keys: d.Keys, Given: d.Given}
	var all []dataset.Document
	for _, name := range files {
		docs, err := readFile(resolve(dir, name), func(r io.Reader) iter.Seq2[dataset.Document, error] {
			switch d.Format {
			case "jsonl":
				return dataset.ReadJSONL(r, f)
			case chatFormat:
				return dataset.ReadChat(r, template, chat.Options{}, f)
			}
			return dataset.ReadText(r, d.Separator, f)
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, docs...)
	}
	if len(all) == 0 && len(files) > 0 {
		return nil, fmt.Errorf("data: %d files hold no document that passes the filter", len(files))
	}
	return all, nil
}

// template is that of conversations; nil for other formats.
func (d Data) template(dir string) (*chat.Template, error) {
	if d.Format != chatFormat {
		return nil, nil
	}
	source, err := readBounded(resolve(dir, d.Template), maxTemplate)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	return chat.Parse(string(source))
}

func (d Data) generate() ([]dataset.Document, error) {
	var text bytes.Buffer
	opt := *d.Generate
	opt.Separator = dataset.Separator
	if err := synth.Write(&text, opt); err != nil {
		return nil, err
	}
	return dataset.Collect(dataset.ReadText(&text, dataset.Separator, dataset.Filter{}))
}

// plain are the documents as a tokenizer should learn from them: cut where
// control tokens stand that are no text.
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

func readFile(path string, read func(io.Reader) iter.Seq2[dataset.Document, error]) ([]dataset.Document, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return dataset.Collect(read(f))
}

// build reads the tokenizer's file or trains one of size tokens.
func (t Tokenizer) build(dir string, docs iter.Seq[string], size int) (*tokenizer.Tokenizer, error) {
	if t.File != "" {
		return ReadTokenizer(resolve(dir, t.File))
	}
	v, err := bpe.Train(docs, bpe.Options{VocabSize: size, Pre: t.Pre, Control: t.Control, BOS: t.BOS, EOS: t.EOS})
	if err != nil {
		return nil, fmt.Errorf("training a tokenizer: %w", err)
	}
	return tokenizer.New(v)
}

// Bounds of files that are read whole.
const (
	maxTokenizerFile = 256 << 20 // a tokenizer in JSON
	maxTemplate      = 1 << 20   // a chat template
)

// readBounded is a file of at most size bytes.
func readBounded(path string, size int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, size+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > size {
		return nil, fmt.Errorf("%s: more than %d bytes", path, size)
	}
	return b, nil
}

// ReadTokenizer reads a tokenizer from a GGUF file, a tokenizer.json or
// phi-auto's JSON, told apart by their content.
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
