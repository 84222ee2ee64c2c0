// Package dataset converts text to training batches.
//
// [ReadText], [ReadJSONL] or [ReadChat] split files into documents; [Split]
// shuffles them and holds some out; [Encode] converts them to [Tokens], every
// document followed by the tokenizer's EOS, which [Cache] caches on disk under
// the digest of text and tokenizer; a [Loader] reads the tokens in windows,
// each once per epoch in an order drawn from a seed, and [Windows] reads them
// in order for evaluation. [NGrams] computes n-gram baselines on the same
// tokens.
//
// Documents in a window are separate: every position has the start of its
// document, and the last token of a document does not predict the first of the
// next.
//
// The context of a [Document], such as a question or a tool's result, is input
// without loss: no position has a context token as target. The target before
// context is EOS, so that the model stops instead of inventing the context:
//
//	tokens   What is 1 plus 2? <call> … </call> {"result":3} The answer is 3. <eos>
//	learned                    ^^^^^^^^^^^^^^^^ <eos>        ^^^^^^^^^^^^^^^^ ^^^^^
//
// Everything here is a function of its input and a seed: the same bytes yield
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

// Separator is the default separator of documents in a text file.
const Separator = "<|endoftext|>"

// MaxDocument is the maximum size of a document in bytes.
const MaxDocument = 16 << 20

// ErrTooLong reports a document above MaxDocument.
var ErrTooLong = errors.New("document exceeds 16 MiB")

// Filter selects and cleans documents. The zero value keeps everything that is
// not blank, unchanged.
type Filter struct {
	JoinLines bool // lines are trimmed and joined by single spaces
	MinChars  int  // shorter documents are dropped; in characters
	MaxChars  int  // longer ones too; 0 means no limit
	// Keys are the string fields of a JSON line that form a document; empty
	// means "text".
	Keys []string
	// Context are those of Keys that are context.
	Context []string
}

// clean returns the cleaned document, or false to drop it. open and closing are
// the marks around context.
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

// keeps reports whether a document has an allowed length.
func (f Filter) keeps(doc Document) bool {
	n := utf8.RuneCountInString(doc.Text)
	return n > 0 && n >= f.MinChars && (f.MaxChars == 0 || n <= f.MaxChars)
}

// ReadText splits r at every separator (Separator if empty) and yields the
// documents that pass the filter, without surrounding space. Text between
// ContextOpen and ContextClose is context. An error ends the sequence.
func ReadText(r io.Reader, separator string, f Filter) iter.Seq2[Document, error] {
	if separator == "" {
		separator = Separator
	}
	sep := []byte(separator)
	return func(yield func(Document, error) bool) {
		s := bufio.NewScanner(r)
		s.Buffer(nil, MaxDocument+len(sep))
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
			if len(s.Bytes()) > MaxDocument {
				yield(Document{}, fmt.Errorf("reading text: document %d: %w", n, ErrTooLong))
				return
			}
			doc, ok, err := f.clean(s.Text(), ContextOpen, ContextClose)
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
// "text" or with strings for f.Keys, which are joined by newlines; those in
// f.Context are context. Blank lines are skipped; anything else is an error,
// which ends the sequence.
func ReadJSONL(r io.Reader, f Filter) iter.Seq2[Document, error] {
	return lines(r, func(line []byte) (Document, bool, error) {
		text, err := f.document(line)
		if err != nil {
			return Document{}, false, err
		}
		return f.clean(text, fieldOpen, fieldClose)
	})
}

// lines yields the documents that read returns for the non-blank lines of r.
func lines(r io.Reader, read func([]byte) (Document, bool, error)) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		s := bufio.NewScanner(r)
		s.Buffer(nil, MaxDocument+1) // with its newline
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

// document returns the text of one JSON object.
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
			return "", fmt.Errorf("missing string %q", k)
		}
		parts = append(parts, *s)
	}
	return marked(keys, parts, f.Context)
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

// below returns a uniform number in [0, n), n below 2³².
func below(r *rand.PCG, n uint64) uint64 {
	for {
		x := r.Uint64() >> 32
		m := x * n
		if uint32(m) >= uint32(-n)%uint32(n) {
			return m >> 32
		}
	}
}
