package modal

import (
	"slices"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/runtimes/talk"
)

// A running build renders a question with the tokens of training: after the
// input, before it, and without one.
func TestRendered(t *testing.T) {
	l := testLayout(t, 80)
	k, err := talk.New(l.tok, talk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	turn := Turn{Ask: "what color is the 3rd bar, \"a\"?", Answer: "red", Kind: "charts/colour"}
	ask, see := talk.Part{Type: abi.Text, Text: turn.Ask}, talk.Part{Type: abi.Image, Path: "p.png"}
	shown, _ := l.single(Image, turn)
	late, _ := l.late(Image, turn)
	blind, _ := l.blind(turn)
	for name, c := range map[string]struct {
		doc   document
		parts []talk.Part
	}{"behind": {shown, []talk.Part{see, ask}}, "before": {late, []talk.Part{ask, see}}, "about nothing": {blind, []talk.Part{ask}}} {
		p, err := k.Render([]talk.Message{{Role: talk.User, Parts: c.parts}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.parts) == 1 {
			p = k.Plain(turn.Ask) // as the runner does without media
		}
		var got []int32
		for _, piece := range p.Pieces {
			if got = append(got, piece.Tokens...); piece.Part != nil {
				got = append(got, slices.Repeat([]int32{l.marks[Image][0]}, l.places[Image])...)
			}
		}
		start := c.doc.turns[0].lo + 1
		if want := c.doc.tokens[:start]; !slices.Equal(got, want) {
			t.Errorf("%s: %v, trained with %v", name, got, want)
		}
		if text := l.tok.Decode(c.doc.tokens[start:len(c.doc.tokens)-1], tokenizer.DecodeOptions{Continued: true}); !turn.Correct(text) {
			t.Errorf("%s: answer parsed as %q", name, text)
		}
	}
}
