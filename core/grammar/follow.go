package grammar

import (
	"fmt"
	"math"
)

// Follower constrains the output of a model to a grammar for one text. It is
// not safe for concurrent use.
type Follower struct {
	m      *Masks
	tokens []int32 // tokens followed so far
	states []State // state after each of them
}

// Follow returns a follower at the start of a text.
func (m *Masks) Follow() *Follower { return &Follower{m: m} }

// state returns the state after the written tokens. They may differ from those
// of the last call, since a draft may have been rejected.
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
			return State{}, fmt.Errorf("token %d is not allowed by the grammar", token)
		}
		at = next
		f.tokens, f.states = append(f.tokens, token), append(f.states, at)
	}
	return at, nil
}

// Allowed returns the tokens that may follow the written ones. The set is
// shared and must not be modified.
func (f *Follower) Allowed(written []int32) (Bitset, error) {
	at, err := f.state(written)
	if err != nil {
		return nil, err
	}
	return f.m.Mask(at), nil
}

// Mask sets the logits of tokens that may not follow the written ones to -Inf.
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

// Forced returns the tokens that must follow the written ones.
func (f *Follower) Forced(written []int32) []int32 {
	at, err := f.state(written)
	if err != nil {
		return nil
	}
	return f.m.Forced(at)
}
