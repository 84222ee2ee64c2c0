package modal

import (
	"errors"
	"fmt"

	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/qa"
	"mm-abi.org/mm/train/nn"
)

// layout writes examples as the core reads them.
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
		return nil, train.At("/core/base", errors.New("the core's tokenizer has no end token, so that no answer could end"))
	}
	if ids := tok.Encode("", tokenizer.Options{Add: true}); len(ids) > 0 && ids[0] == tok.Special().BOS {
		l.bos = ids[0]
	}
	for m, n := range places {
		open, closing := "<"+string(m)+">", "</"+string(m)+">"
		pair := [2]int32{tok.ID(open), tok.ID(closing)}
		if pair[0] == tokenizer.None || pair[1] == tokenizer.None {
			return nil, train.At("/core/base", fmt.Errorf("the core's tokenizer has no %s and %s", open, closing))
		}
		l.marks[m] = pair
		if n+8 > T {
			return nil, train.Atf("/seq_len", "%d vectors of %s and no room for words: seq_len is %d", n, m, T)
		}
	}
	return l, nil
}

// document is an example as tokens.
type document struct {
	tokens, targets []int32 // of equal length, at most T
	starts          []int32 // nil: it is one document
	first           int     // position of the first vector
	turns           []span  // the answers that are in it
}

// span is an answer: the positions [lo, hi) that are asked for its tokens, the
// end token last.
type span struct {
	Turn
	lo, hi int
}

// writer puts a document together.
type writer struct {
	*layout
	document
}

// add appends tokens; learnt ones are targets of the positions before them.
func (w *writer) add(learnt bool, ids ...int32) {
	for _, id := range ids {
		if n := len(w.targets); learnt && n > 0 {
			w.targets[n-1] = id
		}
		w.tokens, w.targets = append(w.tokens, id), append(w.targets, -1)
	}
}

// media leaves room for the vectors of m between its markers.
func (w *writer) media(m Medium) {
	w.add(false, w.marks[m][0])
	w.first = len(w.tokens)
	for range w.places[m] {
		w.add(false, w.marks[m][0]) // what stands there is no token; the id is not looked at
	}
	w.add(false, w.marks[m][1])
}

// turn appends a question and its answer; false, and nothing, where there is no
// room. With asked the question is there already.
func (w *writer) turn(t Turn, asked bool) bool {
	var ask []int32
	if !asked {
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

// answer is the tokens of an answer, behind a space where a question stands
// before it. One that is spelled has a token for each letter: the same text, but
// nothing to learn about which letters a tokenizer joins.
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

// single is a document of one question behind what it is about.
func (l *layout) single(m Medium, t Turn) (document, bool) {
	w := l.writer()
	w.media(m)
	ok := w.turn(t, false)
	return w.document, ok
}

// late is a document of one question before what it is about.
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

// blind is a document of one question about nothing.
func (l *layout) blind(t Turn) (document, bool) {
	w := l.writer()
	ok := w.turn(t, false)
	return w.document, ok
}

// draw is a document to learn from: some of an example's questions in an order
// by chance, or none at all, which its caption answers.
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
		return w.document, train.Atf("/seq_len", "no question about an example of %s fits into %d positions", e.Modality, l.T)
	}
	return w.document, nil
}

// shuffled is 0…n-1 in an order by chance.
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
