package infer

import (
	"context"
	"fmt"
	"math"

	"mm-abi.org/mm/core/tensor"
)

// scoreBatch is the number of positions whose logits are held at a time.
const scoreBatch = 32

// Predict feeds tokens and calls each with the logits, V of them, after each
// token, in order. They are valid until each returns.
func (s *Session) Predict(ctx context.Context, tokens []int32, each func(i int, logits []float32)) error {
	for _, t := range tokens {
		if t < 0 || int(t) >= s.m.cfg.Vocab {
			return fmt.Errorf("token %d out of range: vocabulary has %d", t, s.m.cfg.Vocab)
		}
	}
	if room := s.context - len(s.tokens); len(tokens) > room {
		return fmt.Errorf("%w: %d of %d positions in use, %d more requested", ErrContext, len(s.tokens), s.context, len(tokens))
	}
	before := len(s.tokens)
	for from := 0; from < len(tokens); from += scoreBatch {
		part := tokens[from:min(from+scoreBatch, len(tokens))]
		err := s.feed(ctx, []Input{{Tokens: part}}, len(part), func(row int, logits []float32) { each(from+row, logits) })
		if err != nil {
			s.Truncate(before)
			return err
		}
	}
	return nil
}

// Score feeds tokens and returns the natural logarithm of the probability that
// the model gave to each before reading it. The first token of an empty session
// has the score 0.
func (s *Session) Score(ctx context.Context, tokens []int32) ([]float64, error) {
	scores := make([]float64, len(tokens))
	if before := s.Logits(); before != nil && len(tokens) > 0 && tokens[0] >= 0 && int(tokens[0]) < s.m.cfg.Vocab {
		scores[0] = logProbability(before, tokens[0])
	}
	err := s.Predict(ctx, tokens, func(i int, logits []float32) {
		if i+1 < len(tokens) {
			scores[i+1] = logProbability(logits, tokens[i+1])
		}
	})
	if err != nil {
		return nil, err
	}
	return scores, nil
}

// Loss feeds tokens and returns the sum of -ln p over their successors: all
// tokens but the first, and next.
func (s *Session) Loss(ctx context.Context, tokens []int32, next int32) (float64, error) {
	if next < 0 || int(next) >= s.m.cfg.Vocab {
		return 0, fmt.Errorf("token %d out of range: vocabulary has %d", next, s.m.cfg.Vocab)
	}
	scores, err := s.Score(ctx, tokens)
	if err != nil || len(tokens) == 0 {
		return 0, err
	}
	sum := -logProbability(s.Logits(), next)
	for _, v := range scores[1:] {
		sum -= v
	}
	return sum, nil
}

// logProbability returns the log of softmax(logits) at token; logits are not
// modified.
func logProbability(logits []float32, token int32) float64 {
	most := tensor.Max(logits)
	sum := 0.0
	var buf [512]float32
	for from := 0; from < len(logits); from += len(buf) {
		part := logits[from:min(from+len(buf), len(logits))]
		sum += float64(tensor.ExpSum(buf[:len(part)], part, most))
	}
	return float64(logits[token]-most) - math.Log(sum)
}
