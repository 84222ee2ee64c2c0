package modal

import (
	"strings"
	"testing"

	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/nn"
)

func testLayout(t *testing.T, T int) *layout {
	t.Helper()
	tok, err := train.ReadTokenizer(coreFile)
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLayout(tok, map[Medium]int{Image: 4}, T)
	if err != nil {
		t.Fatal(err)
	}
	l.spelled = []string{"words/*"}
	return l
}

// text returns a document as text, with targets in brackets and a dot for each
// vector.
func (l *layout) text(d document) string {
	var b strings.Builder
	marks := l.marks[Image]
	for i, id := range d.tokens {
		piece := l.tok.Piece(id)
		switch {
		case id == marks[0] && i >= d.first && i < d.first+l.places[Image]:
			piece = "."
		case i > 0 && d.targets[i-1] == id:
			piece = "[" + piece + "]"
		}
		b.WriteString(piece)
	}
	return b.String()
}

// Only answers are targets; the vectors are between their markers; a spelled
// answer has a token for each letter and the same text.
func TestLayout(t *testing.T) {
	l := testLayout(t, 40)
	q := Turn{Ask: "how many?", Answer: "4", Kind: "shapes/count"}
	single, ok := l.single(Image, q)
	if got := l.text(single); !ok || got != "<bos><image>....</image>how many?[ ][4][<eos>]" && got != "<bos><image>....</image>how many?[ 4][<eos>]" {
		t.Errorf("single: %s", got)
	}
	late, ok := l.late(Image, q)
	if got := l.text(late); !ok || !strings.HasPrefix(got, "<bos>how many?<image>....</image>[ ") {
		t.Errorf("late: %s", got)
	}
	blind, ok := l.blind(q)
	if got := l.text(blind); !ok || !strings.HasPrefix(got, "<bos>how many?[ ") {
		t.Errorf("blind: %s", got)
	}
	word := Turn{Ask: "what does it say?", Answer: "mother", Kind: "words/read"}
	ids := l.answer(word)
	if whole := l.tok.Encode(" mother", tokenizer.Options{}); len(ids) != 7 || len(whole) >= 7 {
		t.Errorf("spelled %d tokens, encoded %d", len(ids), len(whole))
	}
	var decoded string
	dec := l.tok.Decoder(tokenizer.DecodeOptions{Continued: true})
	for _, id := range ids {
		decoded += dec.Next(id)
	}
	if decoded += dec.Flush(); decoded != " mother" {
		t.Errorf("spelled text %q", decoded)
	}
	if _, ok := testLayout(t, 14).single(Image, word); ok {
		t.Error("question beyond seq_len")
	}
	if _, err := newLayout(l.tok, map[Medium]int{Image: 38}, 40); err == nil {
		t.Error("accepted vectors without room for text")
	}
	if _, err := newLayout(l.tok, map[Medium]int{"smell": 4}, 40); err == nil || !strings.Contains(err.Error(), "<smell>") {
		t.Errorf("a medium without markers: %v", err)
	}
}

// Documents have as many questions as configured and fit, in random order, some
// without a question and some with the question first.
func TestDraw(t *testing.T) {
	l := testLayout(t, 40)
	e := Example{Modality: Image, Kind: "shapes", Caption: "a cat", Turns: []Turn{{Ask: "how many?", Answer: "4", Kind: "a"}, {Ask: "what?", Answer: "cat", Kind: "b"}, {Ask: "where?", Answer: "top", Kind: "c"}}}
	silent, late, most := 0, 0, 0
	first := map[string]int{}
	for i := range 400 {
		d, err := l.draw(e, Data{Turns: 2, Silent: 0.2, Late: 0.2}, nn.NewRandom(nn.Mix(1, uint64(i))))
		if err != nil {
			t.Fatal(err)
		}
		if len(d.tokens) > l.T || len(d.tokens) != len(d.targets) {
			t.Fatalf("%d tokens, %d targets", len(d.tokens), len(d.targets))
		}
		most = max(most, len(d.turns))
		first[d.turns[0].Kind]++
		switch {
		case d.turns[0].Ask == "":
			silent++
		case d.first > 2:
			late++
		}
	}
	if most != 2 || silent < 50 || silent > 110 || late < 50 || late > 110 || len(first) != 4 {
		t.Errorf("at most %d questions, %d silent, %d late of 400, first %v", most, silent, late, first)
	}
}
