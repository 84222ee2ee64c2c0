package runner

import (
	"cmp"
	"math"
	"slices"

	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/runtimes"
)

// TokenScore is a token with the logarithm of its probability, before constraints and
// sampling. Its piece may be a part of a character.
type TokenScore struct {
	ID      int32
	Piece   string
	LogProb float64
	Top     []TokenScore // the most likely tokens at this place, the first one first
}

// scores records the log probabilities of generated tokens. It is a runtimes.Constraint that
// allows what another one allows.
type scores struct {
	most  int
	tok   *tokenizer.Tokenizer
	emit  func(TokenScore)
	inner runtimes.Constraint // nil: any token may follow

	rows map[int][]float32 // logits by the index of the token
	next int               // index of the next token
}

// scores returns the record of a request, or nil if it wants none.
func (r *Runner) scores(req Request) *scores {
	if req.Scored == nil {
		return nil
	}
	return &scores{most: req.Alternatives, tok: r.talk.Tokenizer(), emit: req.Scored}
}

// over starts a generation under a constraint.
func (s *scores) over(inner runtimes.Constraint) runtimes.Constraint {
	if s == nil {
		return inner
	}
	s.inner, s.next, s.rows = inner, 0, map[int][]float32{}
	return s
}

// Mask implements runtimes.Constraint. An index is visited again after a rejected draft.
func (s *scores) Mask(written []int32, logits []float32) error {
	s.rows[len(written)] = slices.Clone(logits)
	if s.inner == nil {
		return nil
	}
	return s.inner.Mask(written, logits)
}

// Forced implements runtimes.Constraint.
func (s *scores) Forced(written []int32) []int32 {
	if s.inner == nil {
		return nil
	}
	return s.inner.Forced(written)
}

// chose reports the next token. A forced one has the probability 1.
func (s *scores) chose(id int32) {
	if s == nil {
		return
	}
	row := s.rows[s.next]
	delete(s.rows, s.next)
	s.next++
	if s.tok.Type(id) == tokenizer.Control {
		return
	}
	if row != nil {
		s.emit(scoreOf(s.tok, row, id, s.most))
		return
	}
	one := TokenScore{ID: id, Piece: s.tok.Piece(id)}
	one.Top = []TokenScore{one}[:min(s.most, 1)]
	s.emit(one)
}

// logSum returns the logarithm of the sum of exponentials.
func logSum(logits []float32) float64 {
	most, sum := float64(slices.Max(logits)), 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x) - most)
	}
	return most + math.Log(sum)
}

// top returns the indexes of the n largest values, the largest first, of equal ones the lower.
func top(logits []float32, n int) []int32 {
	var best []int32
	for i, x := range logits {
		if len(best) == n && (n == 0 || x <= logits[best[n-1]]) {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, x, func(b int32, x float32) int {
			if logits[b] == x {
				return -1 // after equal ones
			}
			return cmp.Compare(x, logits[b])
		})
		best = slices.Insert(best, at, int32(i))
		best = best[:min(len(best), n)]
	}
	return best
}
