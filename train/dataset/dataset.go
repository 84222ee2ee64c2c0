// Package dataset turns text into the batches a model trains on.
//
// The way of the data: [ReadText], [ReadJSONL] or [ReadChat] cut files into
// documents; [Split] shuffles them and keeps some apart; [Encode] makes a [Tokens] of them,
// every document closed by the tokenizer's end token, which [Cache] keeps on
// disk under the digest of the text and of the tokenizer; a [Loader] walks the
// tokens in windows, each once an epoch in an order drawn from a seed, and
// [Windows] walks them in order for evaluation. [NGrams] says what counting
// alone achieves on the same tokens.
//
// No window joins documents: every position carries the place where its
// document begins, and the last token of one document is not asked for the
// first of the next.
//
// What is given in a [Document], a question or a tool's answer, is seen and not
// learnt: no position is asked for a given token. Where the model's own words
// end and given ones begin it is asked for the end token, so that it falls
// silent instead of making up what others will say:
//
//	tokens   What is 1 plus 2? <call> … </call> {"result":3} The answer is 3. <eos>
//	learnt                     ^^^^^^^^^^^^^^^^ <eos>        ^^^^^^^^^^^^^^^^ ^^^^^
//
// Everything here is a function of its input and a seed: the same bytes give
// the same batches on every machine.
package dataset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"strings"
	"unicode/utf8"
)

// Separator is what stands between documents in a text file by default.
const Separator = "<|endoftext|>"

// MaxDocument is the size in bytes of the largest document that is read.
const MaxDocument = 16 << 20

// ErrTooLong says that a document exceeds MaxDocument.
var ErrTooLong = errors.New("a document exceeds 16 MiB")

// Filter says which documents to keep and how to clean them. The zero value
// keeps everything that is not blank, as it stands.
type Filter struct {
	JoinLines bool // lines are trimmed and joined by single spaces
	MinChars  int  // shorter documents are dropped; in characters
	MaxChars  int  // longer ones too; 0 means no limit
	// Keys are the strings of a JSON line that make a document; none means "text".
	Keys []string
	// Given are those of Keys that are given.
	Given []string
}

// clean is the document as it is kept, or false; open and closing are the marks
// around what is given.
func (f Filter) clean(text, open, closing string) (Document, bool, error) {
	if f.JoinLines {
		var kept []string
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" {
				kept = append(kept, line)
			}
		}
		text = strings.Join(kept, " ")
	}
	doc, err := cut(text, open, closing)
	doc.trim()
	return doc, f.keeps(doc), err
}

// keeps reports whether a document has the wanted length.
func (f Filter) keeps(doc Document) bool {
	n := utf8.RuneCountInString(doc.Text)
	return n > 0 && n >= f.MinChars && (f.MaxChars == 0 || n <= f.MaxChars)
}

// ReadText cuts r at every separator (Separator when empty) and yields the
// documents that pass the filter, with the space around them taken off. What
// stands between GivenOpen and GivenClose is given. An error ends the sequence.
func ReadText(r io.Reader, separator string, f Filter) iter.Seq2[Document, error] {
	if separator == "" {
		separator = Separator
	}
	sep := []byte(separator)
	return func(yield func(Document, error) bool) {
		s := bufio.NewScanner(r)
		s.Buffer(nil, MaxDocument)
		s.Split(func(data []byte, end bool) (int, []byte, error) {
			if i := bytes.Index(data, sep); i >= 0 {
				return i + len(sep), data[:i], nil
			}
			if end && len(data) > 0 {
				return len(data), data, nil
			}
			return 0, nil, nil
		})
		for n := 1; s.Scan(); n++ {
			doc, ok, err := f.clean(s.Text(), GivenOpen, GivenClose)
			if err != nil {
				yield(Document{}, fmt.Errorf("reading text: document %d: %w", n, err))
				return
			}
			if ok && !yield(doc, nil) {
				return
			}
		}
		if err := scanError(s.Err()); err != nil {
			yield(Document{}, fmt.Errorf("reading text: %w", err))
		}
	}
}

// ReadJSONL yields the text of every line of r, a JSON object with a string
// "text", or with strings of the names in f.Keys, which are joined by new lines;
// those of f.Given are given. Blank lines are passed over; anything else is an
// error, which ends the sequence.
func ReadJSONL(r io.Reader, f Filter) iter.Seq2[Document, error] {
	return lines(r, func(line []byte) (Document, bool, error) {
		text, err := f.document(line)
		if err != nil {
			return Document{}, false, err
		}
		return f.clean(text, fieldOpen, fieldClose)
	})
}

// lines yields the documents that read makes of the lines of r that are not
// blank.
func lines(r io.Reader, read func([]byte) (Document, bool, error)) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		s := bufio.NewScanner(r)
		s.Buffer(nil, MaxDocument)
		for n := 1; s.Scan(); n++ {
			line := bytes.TrimSpace(s.Bytes())
			if len(line) == 0 {
				continue
			}
			doc, ok, err := read(line)
			if err != nil {
				yield(Document{}, fmt.Errorf("reading JSON lines: line %d: %w", n, err))
				return
			}
			if ok && !yield(doc, nil) {
				return
			}
		}
		if err := scanError(s.Err()); err != nil {
			yield(Document{}, fmt.Errorf("reading JSON lines: %w", err))
		}
	}
}

// document is the text of one JSON object.
func (f Filter) document(line []byte) (string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return "", err
	}
	keys := f.Keys
	if len(keys) == 0 {
		keys = []string{"text"}
	}
	var parts []string
	for _, k := range keys {
		var s *string
		if err := json.Unmarshal(fields[k], &s); err != nil || s == nil {
			return "", fmt.Errorf("the object has no string %q", k)
		}
		parts = append(parts, *s)
	}
	return marked(keys, parts, f.Given)
}

func scanError(err error) error {
	if errors.Is(err, bufio.ErrTooLong) {
		return ErrTooLong
	}
	return err
}

// permutation shuffles 0…n-1 by Fisher and Yates, from a PCG seeded with seed
// and round, with Lemire's unbiased bounded numbers: the same on every version
// of the standard library.
func permutation(n int, seed, round uint64) []int32 {
	r := rand.NewPCG(seed, 0x9e3779b97f4a7c15^round)
	p := make([]int32, n)
	for i := range p {
		p[i] = int32(i)
	}
	for i := n - 1; i > 0; i-- {
		j := below(r, uint64(i+1))
		p[i], p[j] = p[j], p[i]
	}
	return p
}

// below is a uniform number in [0, n), n below 2³².
func below(r *rand.PCG, n uint64) uint64 {
	for {
		x := r.Uint64() >> 32
		m := x * n
		if uint32(m) >= uint32(-n)%uint32(n) {
			return m >> 32
		}
	}
}
