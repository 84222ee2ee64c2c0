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

// Document is a text and its context: the parts, such as a question or a tool's
// result, that are input without loss. The model learns the rest.
type Document struct {
	Text    string
	Context []Span // in order, separated
}

// Span is the bytes [From, To) of a text.
type Span struct{ From, To int }

// Marks around context in text and in templates. They are not part of the
// document.
const (
	ContextOpen  = "<|given|>"
	ContextClose = "<|/given|>"
)

// Marks around context fields between reading a line and cleaning it: Unicode
// noncharacters, which no text may contain.
const (
	fieldOpen  = "\ufdd0"
	fieldClose = "\ufdd1"
)

// errMarks reports unpaired marks.
var errMarks = errors.New("unpaired context marks")

// cut removes the marks from text. Marks do not nest.
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
		d.addContext(b.Len(), b.Len()+len(inside))
		b.WriteString(inside)
		text = after
	}
	d.Text = b.String()
	return d, nil
}

// addContext adds a span of context or extends the last.
func (d *Document) addContext(from, to int) {
	if n := len(d.Context); n > 0 && d.Context[n-1].To == from {
		d.Context[n-1].To = to
	} else if from < to {
		d.Context = append(d.Context, Span{from, to})
	}
}

// trim removes the space around the text.
func (d *Document) trim() {
	right := strings.TrimRight(d.Text, space)
	left := len(right) - len(strings.TrimLeft(right, space))
	d.Text = right[left:]
	kept := d.Context[:0]
	for _, s := range d.Context {
		if s.From, s.To = max(s.From-left, 0), min(s.To-left, len(d.Text)); s.From < s.To {
			kept = append(kept, s)
		}
	}
	d.Context = kept
}

// space is the space that strings.TrimSpace removes.
const space = "\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"

// parts yields the text in parts, each either context or not.
func (d Document) parts() iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		at := 0
		for _, s := range d.Context {
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

// Texts yields the documents' texts.
func Texts(docs []Document) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, d := range docs {
			if !yield(d.Text) {
				return
			}
		}
	}
}

// Digest returns the SHA-256 of the documents, their lengths and context.
func Digest(docs []Document) [sha256.Size]byte {
	h := sha256.New()
	var n [8]byte
	number := func(v uint64) {
		binary.LittleEndian.PutUint64(n[:], v)
		h.Write(n[:])
	}
	for _, d := range docs {
		if len(d.Context) > 0 {
			number(1<<64 - 1) // not a length
			number(uint64(len(d.Context)))
			for _, s := range d.Context {
				number(uint64(s.From))
				number(uint64(s.To))
			}
		}
		number(uint64(len(d.Text)))
		io.WriteString(h, d.Text)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// Collect collects a sequence of documents.
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

// Split shuffles the documents by seed and holds out a share, at least one
// document if share is positive and there are two.
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

// marked joins fields by newlines, with marks around those in context.
func marked(names, values, context []string) (string, error) {
	var parts []string
	for i, v := range values {
		if strings.Contains(v, fieldOpen) || strings.Contains(v, fieldClose) {
			return "", fmt.Errorf("%q contains a noncharacter U+FDD0 or U+FDD1", names[i])
		}
		for _, g := range context {
			if g == names[i] {
				v = fieldOpen + v + fieldClose
			}
		}
		parts = append(parts, v)
	}
	return strings.Join(parts, "\n"), nil
}
