package runner

import (
	"math"

	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/runtimes"
)

// thoughtLimit ends reasoning after a number of tokens: the token that closes it must
// follow. It is a runtimes.Constraint.
type thoughtLimit struct {
	inner     runtimes.Constraint // of the answer; nil: none
	open, end int32               // the tokens around reasoning; open may be None
	most      int
	thinking  bool // the answer begins within reasoning
}

// limited adds the limit of the request's reasoning to a constraint, if the end of the
// reasoning is a token.
func (t *telling) limited(r *Runner, inner runtimes.Constraint) runtimes.Constraint {
	open, end := r.talk.Reasoning()
	if t.thoughts == 0 || end == tokenizer.None {
		return inner
	}
	return &thoughtLimit{inner: inner, open: open, end: end, most: t.thoughts, thinking: t.thinking}
}

// spent reports whether the written tokens are within reasoning that has no tokens left.
func (l *thoughtLimit) spent(written []int32) bool {
	n, within := 0, l.thinking
	for _, id := range written {
		switch {
		case id == l.end:
			within = false
		case id == l.open:
			within = true
		case within:
			n++
		}
	}
	return within && n >= l.most
}

// Mask implements runtimes.Constraint.
func (l *thoughtLimit) Mask(written []int32, logits []float32) error {
	if l.spent(written) {
		for id := range logits {
			if int32(id) != l.end {
				logits[id] = float32(math.Inf(-1))
			}
		}
		return nil
	}
	if l.inner == nil {
		return nil
	}
	return l.inner.Mask(written, logits)
}

// Forced implements runtimes.Constraint.
func (l *thoughtLimit) Forced(written []int32) []int32 {
	switch {
	case l.spent(written):
		return []int32{l.end}
	case l.inner == nil:
		return nil
	}
	return l.inner.Forced(written)
}
