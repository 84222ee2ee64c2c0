package dataset

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
)

// Document is one text and which parts of it are given: told to the model, such
// as a question or the answer of a tool, and not learnt. Everything else is
// what the model is to say.
type Document struct {
	Text  string
	Given []Span // in order, apart from each other
}

// Span is the bytes [From, To) of a text.
type Span struct{ From, To int }

// The marks around a given part, in text and in templates. They are no part of
// the document.
const (
	GivenOpen  = "<|given|>"
	GivenClose = "<|/given|>"
)

// The marks around given fields between reading a line and cleaning it: what
// Unicode keeps for use inside a program and no text may hold.
const (
	fieldOpen  = "\ufdd0"
	fieldClose = "\ufdd1"
)

// errMarks says that marks are not in pairs.
var errMarks = errors.New("the marks around given text are not in pairs")

// cut takes the marks out of text. Marks do not nest.
func cut(text, open, closing string) (Document, error) {
	if !strings.Contains(text, open) && !strings.Contains(text, closing) {
		return Document{Text: text}, nil
	}
	var b strings.Builder
	var d Document
	for {
		before, rest, found := strings.Cut(text, open)
		if strings.Contains(before, closing) {
			return Document{}, errMarks
		}
		b.WriteString(before)
		if !found {
			break
		}
		inside, after, closed := strings.Cut(rest, closing)
		if !closed || strings.Contains(inside, open) {
			return Document{}, errMarks
		}
		d.give(b.Len(), b.Len()+len(inside))
		b.WriteString(inside)
		text = after
	}
	d.Text = b.String()
	return d, nil
}

// give adds a part to the given ones, or widens the last.
func (d *Document) give(from, to int) {
	if n := len(d.Given); n > 0 && d.Given[n-1].To == from {
		d.Given[n-1].To = to
	} else if from < to {
		d.Given = append(d.Given, Span{from, to})
	}
}

// trim takes the space around the text off.
func (d *Document) trim() {
	right := strings.TrimRight(d.Text, space)
	left := len(right) - len(strings.TrimLeft(right, space))
	d.Text = right[left:]
	kept := d.Given[:0]
	for _, s := range d.Given {
		if s.From, s.To = max(s.From-left, 0), min(s.To-left, len(d.Text)); s.From < s.To {
			kept = append(kept, s)
		}
	}
	d.Given = kept
}

// space is what strings.TrimSpace takes off.
const space = "\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"

// parts yields the text in pieces, each given as a whole or not at all.
func (d Document) parts() iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		at := 0
		for _, s := range d.Given {
			if at < s.From && !yield(d.Text[at:s.From], false) || !yield(d.Text[s.From:s.To], true) {
				return
			}
			at = s.To
		}
		if at < len(d.Text) {
			yield(d.Text[at:], false)
		}
	}
}

// Texts are the documents' texts.
func Texts(docs []Document) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, d := range docs {
			if !yield(d.Text) {
				return
			}
		}
	}
}

// Digest is the SHA-256 of the documents, their lengths included, and of what
// is given in them.
func Digest(docs []Document) [sha256.Size]byte {
	h := sha256.New()
	var n [8]byte
	number := func(v uint64) {
		binary.LittleEndian.PutUint64(n[:], v)
		h.Write(n[:])
	}
	for _, d := range docs {
		if len(d.Given) > 0 {
			number(1<<64 - 1) // which is no length
			number(uint64(len(d.Given)))
			for _, s := range d.Given {
				number(uint64(s.From))
				number(uint64(s.To))
			}
		}
		number(uint64(len(d.Text)))
		io.WriteString(h, d.Text)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// Collect gathers a sequence of documents.
func Collect(docs iter.Seq2[Document, error]) ([]Document, error) {
	var all []Document
	for doc, err := range docs {
		if err != nil {
			return nil, err
		}
		all = append(all, doc)
	}
	return all, nil
}

// Split shuffles the documents by seed and keeps the given share apart, at
// least one when share is above zero and there are two.
func Split(docs []Document, share float64, seed uint64) (train, held []Document) {
	order := permutation(len(docs), seed, 0)
	n := int(share * float64(len(docs)))
	if share > 0 && n == 0 && len(docs) > 1 {
		n = 1
	}
	n = min(max(n, 0), len(docs))
	for i, at := range order {
		if i < len(docs)-n {
			train = append(train, docs[at])
		} else {
			held = append(held, docs[at])
		}
	}
	return train, held
}

// marked joins fields by new lines, those that are given between marks.
func marked(names, values, given []string) (string, error) {
	var parts []string
	for i, v := range values {
		if strings.Contains(v, fieldOpen) || strings.Contains(v, fieldClose) {
			return "", fmt.Errorf("%q holds U+FDD0 or U+FDD1, which Unicode keeps out of texts", names[i])
		}
		for _, g := range given {
			if g == names[i] {
				v = fieldOpen + v + fieldClose
			}
		}
		parts = append(parts, v)
	}
	return strings.Join(parts, "\n"), nil
}
