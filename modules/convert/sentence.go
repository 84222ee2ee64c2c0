package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/hf"
	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/sentence"
	"mm-abi.org/mm/onnx/tower"
)

// tokenizerFile is the vocabulary of an encoder of text, as GGUF without weights.
const tokenizerFile = "tokenizer.gguf"

// reader is an encoder of text: of transformers and sentence-transformers, or a GGUF
// file.
type reader struct {
	config  sentence.Config
	pooling sentence.Pooling
	weights sentence.Weights
	vocab   *tokenizer.Tokenizer
	text    modules.Text
	card    model
	graph   *onnx.Model // exported, instead of weights
	params  modules.Figures
	close   func() error
}

// IsSentence reports whether a folder holds an encoder of text.
func IsSentence(folder string) (bool, error) {
	family, err := modelType(folder)
	return slices.Contains(sentence.Families(), family), err
}

// modelType returns the model_type of a folder; "" without one or if config.json is
// malformed, which the reader of the folder reports.
func modelType(folder string) (string, error) {
	data, err := fsx.ReadFile(filepath.Join(folder, "config.json"), maxSettings)
	if err != nil {
		return "", err
	}
	var head struct {
		Type string `json:"model_type"`
	}
	if json.Unmarshal(data, &head) != nil {
		return "", nil
	}
	return head.Type, nil
}

// IsSentenceGGUF reports whether a GGUF file is an encoder of text.
func IsSentenceGGUF(path string) bool {
	f, err := gguf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return sentence.IsGGUF(f)
}

// Sentence converts a folder of an encoder of text to a module and returns its folder.
// Pooling, normalization, prompts and the limit of tokens are those of the files of
// sentence-transformers, where the folder has them.
func Sentence(ctx context.Context, folder string, opt Options) (string, error) {
	return writeReader(ctx, opt, func() (*reader, error) { return openSentence(folder) })
}

// SentenceGGUF converts a GGUF file of an encoder of text to a module.
func SentenceGGUF(ctx context.Context, path string, opt Options) (string, error) {
	return writeReader(ctx, opt, func() (*reader, error) { return openSentenceGGUF(path) })
}

func writeReader(ctx context.Context, opt Options, open func() (*reader, error)) (dir string, err error) {
	r, err := open()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	return r.write(ctx, opt)
}

func openSentence(folder string) (r *reader, err error) {
	h, err := hf.OpenEncoder(folder)
	if err != nil {
		return nil, err
	}
	r = &reader{vocab: h.Tokenizer, close: h.Close, card: model{stem: h.Card.Name, name: h.Card.Name, author: h.Card.Author, license: h.Card.License, source: h.Card.Source}}
	if err := r.read(folder, h); err != nil {
		return nil, errors.Join(fmt.Errorf("reading the encoder in %s: %w", folder, err), r.close())
	}
	return r, nil
}

// exported returns the ONNX file of a folder without weights, or "".
func exported(folder string) string {
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(folder, name))
		return err == nil
	}
	if has("model.safetensors") || has("model.safetensors.index.json") {
		return ""
	}
	for _, name := range []string{"model.onnx", "onnx/model.onnx"} {
		if has(name) {
			return filepath.Join(folder, filepath.FromSlash(name))
		}
	}
	return ""
}

// read reads the files of the folder.
func (r *reader) read(folder string, h *hf.Encoder) (err error) {
	if r.config, err = sentence.ReadConfig(h.Config); err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	load := func(folder string) (sentence.Weights, error) {
		all, err := h.Tensors(folder)
		return tower.Safetensors(renamed(all)), err
	}
	if file := exported(folder); file != "" {
		if r.graph, err = onnx.Admit(file, onnx.AdmitOptions{Open: onnx.SiblingOpener(file)}); err != nil {
			return err
		}
		r.close = func() error { return errors.Join(r.graph.Close(), h.Close()) }
	} else if r.weights, err = load(""); err != nil {
		return err
	}
	if r.config.Labels == 0 {
		if r.pooling, err = sentence.ReadPooling(h.Read, load); err != nil {
			return err
		}
	}
	r.text = modules.Text{Tokenizer: tokenizerFile, MaxTokens: r.config.Positions}
	if h.Limit > 0 {
		r.text.MaxTokens = min(r.text.MaxTokens, h.Limit)
	}
	if r.config.Labels > 1 {
		r.text.Labels = r.config.Names
	}
	if err := r.limit(h); err != nil {
		return err
	}
	return r.prompts(h)
}

// renamed returns tensors under the names of today: older files call the parameters of
// a norm gamma and beta.
func renamed(all map[string]safetensors.Tensor) map[string]safetensors.Tensor {
	out := make(map[string]safetensors.Tensor, len(all))
	for name, t := range all {
		if rest, ok := strings.CutSuffix(name, "LayerNorm.gamma"); ok {
			name = rest + "LayerNorm.weight"
		} else if rest, ok := strings.CutSuffix(name, "LayerNorm.beta"); ok {
			name = rest + "LayerNorm.bias"
		}
		out[name] = t
	}
	return out
}

// limit reads sentence_bert_config.json.
func (r *reader) limit(h *hf.Encoder) error {
	data, err := h.Read("sentence_bert_config.json")
	if err != nil || data == nil {
		return err
	}
	var c struct {
		Max   *int `json:"max_seq_length"`
		Lower bool `json:"do_lower_case"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("sentence_bert_config.json: %w", err)
	}
	if c.Lower && !slices.Contains(r.vocab.Rules().Normalizer, "Lowercase") {
		return errors.New("sentence_bert_config.json: unsupported do_lower_case with a tokenizer that distinguishes cases")
	}
	if c.Max != nil {
		r.text.MaxTokens = min(*c.Max, r.config.Positions)
	}
	return nil
}

// prompts reads config_sentence_transformers.json.
func (r *reader) prompts(h *hf.Encoder) error {
	const name = "config_sentence_transformers.json"
	data, err := h.Read(name)
	if err != nil || data == nil {
		return err
	}
	var c struct {
		Prompts map[string]string `json:"prompts"`
		Default *string           `json:"default_prompt_name"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r.text.Prompts = c.Prompts
	if c.Default != nil {
		r.text.Prompt = *c.Default
	}
	if _, ok := c.Prompts[r.text.Prompt]; !ok && r.text.Prompt != "" {
		return fmt.Errorf("%s: default_prompt_name %.64q is not in prompts", name, r.text.Prompt)
	}
	return nil
}

func openSentenceGGUF(file string) (r *reader, err error) {
	f, err := gguf.Open(file)
	if err != nil {
		return nil, err
	}
	r = &reader{close: f.Close}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", file, err), f.Close())
		}
	}()
	if err := f.Check(); err != nil {
		return nil, err
	}
	if r.config, r.weights, r.pooling, err = sentence.ReadGGUF(f); err != nil {
		return nil, err
	}
	if r.vocab, err = tokenizer.FromGGUF(f); err != nil {
		return nil, err
	}
	text := func(key string) string {
		v, _ := gguf.GetOr(f, key, "")
		return v
	}
	r.card = model{stem: gguf.Stem(file), name: text(gguf.KeyName), author: text("general.author"), license: text(gguf.KeyLicense), source: text("general.source.url")}
	r.text = modules.Text{Tokenizer: tokenizerFile, MaxTokens: r.config.Positions}
	return r, nil
}

// model returns the graph of the module.
func (r *reader) model() (*onnx.Model, error) {
	if r.graph == nil {
		return r.config.Model(r.weights, r.pooling)
	}
	return r.graph, r.config.Finish(r.graph, r.pooling)
}

// write creates the module.
func (r *reader) write(ctx context.Context, opt Options) (string, error) {
	name := or(or(opt.Name, Slug(r.card.name)), Slug(r.card.stem))
	if !abi.ValidName(name) {
		return "", fmt.Errorf("invalid module name %q: set a name", name)
	}
	if _, err := abi.ParseVersion(opt.Version); err != nil {
		return "", err
	}
	license, err := r.card.spdx(opt.License)
	if err != nil {
		return "", err
	}
	if n := r.vocab.Size(); n > r.config.Vocab {
		return "", fmt.Errorf("the tokenizer has %d tokens, the model vectors for %d", n, r.config.Vocab)
	}
	graph, err := r.model()
	if err != nil {
		return "", err
	}
	m, err := Describe(graph, Function{Type: abi.Encoder, Modality: abi.Text, Params: r.params})
	if err != nil {
		return "", err
	}
	m.Name, m.Version, m.ABI, m.License, m.Source, m.Text = name, opt.Version, abi.V1_2, license, oneLine(r.card.source), &r.text
	kind := "an encoder of text"
	if r.config.Labels > 0 {
		kind = "a classifier of text"
	}
	m.Description = oneLine(fmt.Sprintf("%s, %s of family %s.", or(r.card.name, name), kind, r.config.Family))
	return writeFunction(ctx, or(opt.Dir, name), m, graph, func(d *fsx.Dir) ([]modules.File, error) {
		vocabulary, err := WriteFile(d, tokenizerFile, func(w io.Writer) error {
			kvs := append([]gguf.KV{{Key: gguf.KeyArchitecture, Value: sentence.GGUFArch}, {Key: gguf.KeyName, Value: name}}, r.vocab.KVs()...)
			_, err := gguf.Write(w, kvs, nil)
			return err
		})
		return []modules.File{vocabulary}, err
	})
}

// writeFunction writes a module of one ONNX file and the files of more.
func writeFunction(ctx context.Context, dir string, m modules.Manifest, graph *onnx.Model, more func(d *fsx.Dir) ([]modules.File, error)) (string, error) {
	_, _, err := modules.Create(dir, func(d *fsx.Dir) error {
		entry := m.Name + ".onnx"
		file, err := WriteFile(d, entry, func(w io.Writer) error {
			_, err := onnx.Write(fsx.Writer{Context: ctx, W: w}, graph)
			return err
		})
		if err != nil {
			return err
		}
		others, err := more(d)
		if err != nil {
			return err
		}
		m.Files, m.Export = append([]modules.File{file}, others...), map[abi.Format]modules.Export{abi.ONNX: {Path: entry}}
		return WriteManifest(d, m)
	})
	if err != nil {
		return "", fmt.Errorf("creating module %s: %w", m.Name, err)
	}
	return dir, nil
}
