package runner

import (
	"context"
	"errors"
	"fmt"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/embed"
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
