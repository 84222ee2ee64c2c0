package openai

import (
	"testing"

	"mm-abi.org/mm/runtimes/runner"
)

// The number of alternatives is bounded, and they need logprobs.
func TestAlternatives(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		on   *bool
		n    int
		good bool
	}{{&yes, maxAlternatives, true}, {&yes, maxAlternatives + 1, false}, {&yes, -1, false}, {&no, 1, false}, {nil, 1, false}, {nil, 0, true}} {
		q := chatRequest{Logprobs: c.on, TopLogprobs: &c.n}
		if err := q.unsupported(); (err == nil) != c.good {
			t.Errorf("%d: got %v", c.n, err)
		}
	}
}

// A part of a character has its bytes, and a token is written once.
func TestTake(t *testing.T) {
	l := &logprobs{waiting: []scored{scoredOf(runner.TokenScore{Piece: "\xc3", LogProb: -1})}}
	list := l.take().(map[string]any)["content"].([]first)
	if len(list) != 1 || list[0].Token != "\uFFFD" || len(list[0].Bytes) != 1 || list[0].Bytes[0] != 0xc3 {
		t.Errorf("got %+v", list)
	}
	if l.take() != nil || (*logprobs)(nil).take() != nil {
		t.Error("taken twice")
	}
}

// The number of choices is bounded.
func TestChoices(t *testing.T) {
	for n, good := range map[int]bool{0: false, 1: true, maxChoices: true, maxChoices + 1: false} {
		q := sampling{N: &n}
		if err := q.refused(); (err == nil) != good {
			t.Errorf("%d: got %v", n, err)
		}
	}
}
