package runner

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/embed"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/runtimes/part"
)

// Embed returns the vectors of texts, by the encoder of text of the build.
func (r *Runner) Embed(ctx context.Context, texts []string, opt embed.Options) (*embed.Result, error) {
	reader, err := r.Reader(ctx, false)
	if err != nil {
		return nil, err
	}
	return reader.Embed(ctx, texts, opt)
}

// EmbedImages returns the vectors of pictures in files, by the encoder whose vectors share
// their space with those of texts.
func (r *Runner) EmbedImages(ctx context.Context, files []string) ([][]float32, error) {
	f := r.seer()
	if f == nil {
		return nil, &runtimes.Unavailable{What: "embedding pictures", Why: "the build has no encoder of pictures that shares a space with its encoder of text", Hint: "name a model such as CLIP or SigLIP"}
	}
	out := make([][]float32, len(files))
	for i, file := range files {
		c, err := f.Compute(ctx, map[string]part.Argument{"": {Modality: abi.Image, Input: modality.Input{File: file}}})
		if err != nil {
			return nil, fmt.Errorf("picture %s: %w", file, err)
		}
		if out[i], err = vectorOf(c.Outputs[modules.TextEmbedding], f.Manifest()); err != nil {
			return nil, fmt.Errorf("picture %s: %w", file, err)
		}
	}
	return out, nil
}

// vectorOf returns the numbers of an encoder's vector.
func vectorOf(t runtimes.Tensor, m *modules.Manifest) ([]float32, error) {
	size := m.Outputs[0].Shape[0].Size
	if t.Type != runtimes.Float32 || int64(len(t.Data)) != 4*size {
		return nil, fmt.Errorf("output %q: got %s %v, want fp32 [%d]", modules.TextEmbedding, t.Type, t.Shape, size)
	}
	v := make([]float32, size)
	for k := range v {
		v[k] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*k:]))
		if math.IsNaN(float64(v[k])) || math.IsInf(float64(v[k]), 0) {
			return nil, fmt.Errorf("output %q: NaN or infinity", modules.TextEmbedding)
		}
	}
	return v, nil
}

// Logits returns how the product of a text's and a picture's vector becomes the score of
// the model, false if the build has no scale.
func (r *Runner) Logits() (scale, bias float64, ok bool) {
	if f := r.seer(); f != nil {
		return f.Manifest().Logits()
	}
	return 0, 0, false
}

// seer returns the encoder of pictures whose vectors share their space with those of the
// encoder of text, or nil.
func (r *Runner) seer() *part.Function {
	text := r.readerPart(false)
	if text == nil {
		return nil
	}
	for _, m := range r.build.Assembly.Modalities {
		man := r.build.Manifests[m.Encoder.Name]
		if man != nil && man.Modality == abi.Image && man.SharedSpace() != "" && man.SharedSpace() == text.Manifest().SharedSpace() && len(man.Outputs) == 1 && len(man.Outputs[0].Shape) == 1 {
			return r.parts.Function(m.Encoder.Name)
		}
	}
	return nil
}

// Rerank returns the score of each document for a query, by the reranker of the build.
func (r *Runner) Rerank(ctx context.Context, query string, documents []string, opt embed.Options) (*embed.Result, error) {
	reader, err := r.Reader(ctx, true)
	if err != nil {
		return nil, err
	}
	return reader.Rank(ctx, query, documents, opt)
}

// Reads reports whether the build has an encoder of text with vectors, or, if scores
// is set, with scores.
func (r *Runner) Reads(scores bool) bool { return r.readerPart(scores) != nil }

// readerPart returns the first encoder of text of a kind, or nil.
func (r *Runner) readerPart(scores bool) *part.Function {
	for _, m := range r.build.Assembly.Modalities {
		if man := r.build.Manifests[m.Encoder.Name]; man != nil && man.Text != nil && man.Ranks() == scores {
			return r.parts.Function(m.Encoder.Name)
		}
	}
	return nil
}

// Reader returns the encoder of text of the build, opened: one with vectors or, if
// scores is set, one with scores.
func (r *Runner) Reader(ctx context.Context, scores bool) (*embed.Reader, error) {
	f := r.readerPart(scores)
	if f == nil {
		what, hint := "embedding", "name an encoder of text: mm module import hf makes a module of a folder"
		if scores {
			what = "reranking"
		}
		if r.Reads(!scores) {
			hint = map[bool]string{true: "the build has an encoder: mm embed uses it", false: "the build has a reranker: mm rerank uses it"}[scores]
		}
		return nil, &runtimes.Unavailable{What: what, Why: "the build has no encoder of text for it", Hint: hint}
	}
	if err := r.loading.enter(ctx); err != nil {
		return nil, err
	}
	defer r.loading.leave()
	if reader := r.readers[f.Part().Name]; reader != nil {
		return reader, nil
	}
	vocab, err := r.vocabularyOf(f)
	if err != nil {
		return nil, err
	}
	if _, err := f.Open(ctx); err != nil {
		return nil, err
	}
	reader, err := embed.New(f, vocab, f.Manifest())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Part().ID(), err)
	}
	if r.readers == nil {
		r.readers = map[string]*embed.Reader{}
	}
	r.readers[f.Part().Name] = reader
	return reader, nil
}

// vocabularyOf reads the tokenizer of an encoder of text.
func (r *Runner) vocabularyOf(f *part.Function) (*tokenizer.Tokenizer, error) {
	name := f.Manifest().Text.Tokenizer
	path, err := f.Path(name)
	if err != nil {
		return nil, fmt.Errorf("reading the tokenizer of %s: %w", f.Part().ID(), err)
	}
	file, err := gguf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the tokenizer of %s: %w", f.Part().ID(), err)
	}
	tok, err := tokenizer.FromGGUF(file)
	if tok != nil {
		err = errors.Join(err, checkVocabulary(f, tok))
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("reading the tokenizer of %s: %w", f.Part().ID(), err)
	}
	return tok, nil
}

// checkVocabulary reports a tokenizer that writes no sequence of the module's length.
func checkVocabulary(f *part.Function, tok *tokenizer.Tokenizer) error {
	_, err := tok.Join("a", "", false, f.Manifest().Text.MaxTokens)
	return err
}
