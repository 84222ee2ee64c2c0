package runtimes

import "context"

// Predictor is a [Sequence] with access to its logits after each token that it reads.
type Predictor interface {
	// Predict appends tokens, all or none, and calls each with the logits after each
	// of them, in order. They are valid until each returns.
	Predict(ctx context.Context, tokens []int32, each func(i int, logits []float32)) error
}

// Predict appends tokens to a sequence and calls each with the logits after each of
// them: a [Predictor] reads them together, a [Scorer] one by one.
func Predict(ctx context.Context, s Sequence, tokens []int32, each func(i int, logits []float32)) error {
	if p, ok := s.(Predictor); ok {
		return p.Predict(ctx, tokens, each)
	}
	scorer, ok := s.(Scorer)
	if !ok {
		return &Unavailable{What: "the probability of a text", Why: "the engine does not provide logits", Hint: "--backend core provides them"}
	}
	for i, id := range tokens {
		if err := s.Feed(ctx, Positions{Tokens: []int32{id}}); err != nil {
			return err
		}
		logits, err := scorer.Logits(ctx)
		if err != nil {
			return err
		}
		each(i, logits)
	}
	return nil
}
