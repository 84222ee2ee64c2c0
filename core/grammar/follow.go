package grammar

import (
	"fmt"
	"math"
)

// Follower holds what a model writes to a grammar, in the course of one text.
// It is not safe for concurrent use.
type Follower struct {
	m      *Masks
	tokens []int32 // that were followed
	states []State // behind each of them
}

// Follow begins a text.
func (m *Masks) Follow() *Follower { return &Follower{m: m} }

// state is that behind the tokens that were written: those that were asked
// about before, or others, for a draft may have been given up.
func (f *Follower) state(written []int32) (State, error) {
	same := 0
	for same < len(written) && same < len(f.tokens) && written[same] == f.tokens[same] {
		same++
	}
	f.tokens, f.states = f.tokens[:same], f.states[:same]
	at := f.m.Start()
	if same > 0 {
		at = f.states[same-1]
	}
	for _, token := range written[same:] {
		next, ok := f.m.Next(at, token)
		if !ok {
			return State{}, fmt.Errorf("token %d is not what the grammar allows", token)
		}
		at = next
		f.tokens, f.states = append(f.tokens, token), append(f.states, at)
	}
	return at, nil
}

// Allowed are the tokens that may follow those that were written. It is shared,
// and must not be changed.
func (f *Follower) Allowed(written []int32) (Bitset, error) {
	at, err := f.state(written)
	if err != nil {
		return nil, err
	}
	return f.m.Mask(at), nil
}

// Mask sets the logits of tokens that may not follow those that were written to
// -Inf.
func (f *Follower) Mask(written []int32, logits []float32) error {
	allowed, err := f.Allowed(written)
	if err != nil {
		return err
	}
	for id := range logits {
		if !allowed.Has(int32(id)) {
			logits[id] = float32(math.Inf(-1))
		}
	}
	return nil
}

// Forced are the tokens that must follow those that were written.
func (f *Follower) Forced(written []int32) []int32 {
	at, err := f.state(written)
	if err != nil {
		return nil
	}
	return f.m.Forced(at)
}
