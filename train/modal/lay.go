package modal

import (
	"errors"
	"fmt"

	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/qa"
	"mm-abi.org/mm/train/nn"
)

// layout converts examples to the core's tokens.
type layout struct {
	tok      *tokenizer.Tokenizer
	bos, eos int32
	marks    map[Medium][2]int32 // the markers around vectors
	places   map[Medium]int      // vectors of an input
	T        int                 // positions of a document
	spelled  []string            // kinds of answers, as patterns, that are spelled
}

func newLayout(tok *tokenizer.Tokenizer, places map[Medium]int, T int) (*layout, error) {
	l := &layout{tok: tok, bos: tokenizer.None, eos: tok.Special().EOS, marks: map[Medium][2]int32{}, places: places, T: T}
	if l.eos == tokenizer.None {
		return nil, train.At("/core/base", errors.New("tokenizer of the core has no EOS"))
	}
	if ids := tok.Encode("", tokenizer.Options{Add: true}); len(ids) > 0 && ids[0] == tok.Special().BOS {
		l.bos = ids[0]
	}
	for m, n := range places {
		open, closing := "<"+string(m)+">", "</"+string(m)+">"
		pair := [2]int32{tok.ID(open), tok.ID(closing)}
		if pair[0] == tokenizer.None || pair[1] == tokenizer.None {
			return nil, train.At("/core/base", fmt.Errorf("tokenizer of the core has no %s and %s", open, closing))
		}
		l.marks[m] = pair
		if n+8 > T {
			return nil, train.Atf("/seq_len", "%d vectors of %s leave no room for text: seq_len is %d", n, m, T)
		}
	}
	return l, nil
}

// document is an example as tokens.
type document struct {
	tokens, targets []int32 // of equal length, at most T
	starts          []int32 // nil: a single document
	first           int     // position of the first vector
	turns           []span  // answers in the document
}

// span is an answer: the positions [lo, hi) whose targets are its tokens, EOS
// last.
type span struct {
	Turn
	lo, hi int
}

// writer builds a document.
type writer struct {
	*layout
	document
}

// add appends tokens. If learned, they are targets of the preceding positions.
func (w *writer) add(learned bool, ids ...int32) {
	for _, id := range ids {
		if n := len(w.targets); learned && n > 0 {
			w.targets[n-1] = id
		}
		w.tokens, w.targets = append(w.tokens, id), append(w.targets, -1)
	}
}

// media reserves positions for the vectors of m between its markers.
func (w *writer) media(m Medium) {
	w.add(false, w.marks[m][0])
	w.first = len(w.tokens)
	for range w.places[m] {
		w.add(false, w.marks[m][0]) // placeholder: the id is not used
	}
	w.add(false, w.marks[m][1])
}

// turn appends a question, unless asked is set, and its answer. It returns
// false and appends nothing if they do not fit.
func (w *writer) turn(t Turn, rendered bool) bool {
	var ask []int32
	if !rendered {
		ask = w.tok.Encode(t.Ask, tokenizer.Options{})
	}
	answer := w.answer(t)
	if len(w.tokens)+len(ask)+len(answer)+1 > w.T {
		return false
	}
	w.add(false, ask...)
	lo := len(w.tokens) - 1
	w.add(true, append(answer, w.eos)...)
	w.turns = append(w.turns, span{t, lo, len(w.tokens) - 1})
	return true
}

// answer returns the tokens of an answer, with a leading space after a
// question. A spelled answer has a token for each letter: the same text,
// independent of the tokenizer's merges.
func (l *layout) answer(t Turn) []int32 {
	text := t.Answer
	if t.Ask != "" {
		text = " " + text
	}
	if !l.spells(t.Kind) {
		return l.tok.Encode(text, tokenizer.Options{})
	}
	var ids []int32
	for _, r := range text {
		ids = append(ids, l.tok.Encode(string(r), tokenizer.Options{})...)
	}
	return ids
}

// spells reports whether answers of a kind are spelled.
func (l *layout) spells(kind string) bool {
	return qa.Matches(l.spelled, kind)
}

func (l *layout) writer() *writer {
	w := &writer{layout: l}
	if l.bos != tokenizer.None {
		w.add(false, l.bos)
	}
	return w
}

// single returns a document of an input followed by one question.
func (l *layout) single(m Medium, t Turn) (document, bool) {
	w := l.writer()
	w.media(m)
	ok := w.turn(t, false)
	return w.document, ok
}

// late returns a document of one question followed by the input.
func (l *layout) late(m Medium, t Turn) (document, bool) {
	w := l.writer()
	ask := l.tok.Encode(t.Ask, tokenizer.Options{})
	if len(w.tokens)+len(ask)+l.places[m]+2 > l.T {
		return document{}, false
	}
	w.add(false, ask...)
	w.media(m)
	ok := w.turn(t, true)
	return w.document, ok
}

// blind returns a document of one question without input.
func (l *layout) blind(t Turn) (document, bool) {
	w := l.writer()
	ok := w.turn(t, false)
	return w.document, ok
}

// draw returns a training document: some of an example's questions in random
// order, or none, so that the caption is the answer.
func (l *layout) draw(e Example, d Data, r *nn.Random) (document, error) {
	order := shuffled(len(e.Turns), r)
	kind := r.Uniform()
	if e.Caption != "" && (kind < d.Silent || len(e.Turns) == 0 && len(d.Ask) == 0) {
		if doc, ok := l.single(e.Modality, Turn{Answer: e.Caption, Kind: e.Kind + "/caption"}); ok {
			return doc, nil
		}
	}
	if len(order) > 0 && kind > 1-d.Late {
		if doc, ok := l.late(e.Modality, e.Turns[order[0]]); ok {
			return doc, nil
		}
	}
	w := l.writer()
	w.media(e.Modality)
	for _, i := range order {
		if len(w.turns) == d.Turns {
			break
		}
		w.turn(e.Turns[i], false)
	}
	if len(w.turns) == 0 && len(e.Turns) > 0 {
		return w.document, train.Atf("/seq_len", "no question about %s fits into %d positions", e.Modality, l.T)
	}
	return w.document, nil
}

// shuffled returns 0…n-1 in random order.
func shuffled(n int, r *nn.Random) []int {
	p := make([]int, n)
	for i := range p {
		p[i] = i
	}
	for i := n - 1; i > 0; i-- {
		j := int(r.Uniform() * float64(i+1))
		p[i], p[j] = p[j], p[i]
	}
	return p
}
