package api

import (
	"context"
	"errors"
	"math"

	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/embed"
)

// maxTexts bounds the texts of a request, as OpenAI's API does.
const maxTexts = 2048

// Embedder is an [Answerer] with an encoder of text; runner.Runner implements it.
type Embedder interface {
	Embed(ctx context.Context, texts []string, opt embed.Options) (*embed.Result, error)
	Rerank(ctx context.Context, query string, documents []string, opt embed.Options) (*embed.Result, error)
}

// Embed returns the vectors of texts, shortened to dimensions unless nil.
func (c *Call) Embed(m *Model, texts []string, dimensions *int) (*embed.Result, error) {
	if dimensions != nil && *dimensions < 1 {
		return nil, Invalid("dimensions", "dimensions: got %d, want at least 1", *dimensions)
	}
	res, err := c.encode(m, "input", texts, func(ctx context.Context, e Embedder) (*embed.Result, error) {
		return e.Embed(ctx, texts, embed.Options{})
	})
	if err != nil || dimensions == nil {
		return res, err
	}
	for i, v := range res.Vectors {
		if *dimensions > len(v) {
			return nil, Invalid("dimensions", "dimensions: got %d, the model has %d", *dimensions, len(v))
		}
		if *dimensions < len(v) {
			res.Vectors[i] = shorten(v, *dimensions)
		}
	}
	return res, nil
}

// Rerank returns the score of each document for a query.
func (c *Call) Rerank(m *Model, query string, documents []string) (*embed.Result, error) {
	return c.encode(m, "documents", documents, func(ctx context.Context, e Embedder) (*embed.Result, error) {
		return e.Rerank(ctx, query, documents, embed.Options{})
	})
}

// encode checks the number of texts and calls run with the encoder of a model, in a place
// among the concurrent answers.
func (c *Call) encode(m *Model, field string, texts []string, run func(context.Context, Embedder) (*embed.Result, error)) (res *embed.Result, err error) {
	if err := checkTexts(field, len(texts)); err != nil {
		return nil, err
	}
	err = c.Borrow(&Ask{Model: m}, func(ctx context.Context, s Scorer) error {
		e, ok := s.(Embedder)
		if !ok {
			return &runtimes.Unavailable{What: "encoding of texts", Why: "the model does not provide it"}
		}
		var fault *embed.InputError
		if res, err = run(ctx, e); errors.As(err, &fault) {
			return Invalid(field, "%s: %v", field, fault)
		}
		return err
	})
	return res, err
}

func checkTexts(field string, n int) error {
	if n < 1 || n > maxTexts {
		return Invalid(field, "%s: got %d texts, want 1 to %d", field, n, maxTexts)
	}
	return nil
}

// shorten returns the first n numbers of a vector, scaled to length 1.
func shorten(v []float32, n int) []float32 {
	sum := 0.0
	for _, x := range v[:n] {
		sum += float64(x) * float64(x)
	}
	out := make([]float32, n)
	if norm := math.Sqrt(sum); norm > 0 {
		for i := range out {
			out[i] = float32(float64(v[i]) / norm)
		}
	}
	return out
}
