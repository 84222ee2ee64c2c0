// Package dataset turns text into the batches a model trains on.
//
// The way of the data: [ReadText] or [ReadJSONL] cut files into documents;
// [Split] shuffles them and keeps some apart; [Encode] makes a [Tokens] of them,
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
// Everything here is a function of its input and a seed: the same bytes give
// the same batches on every machine.
package dataset

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
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
}

// clean is the document as it is kept, or false.
func (f Filter) clean(doc string) (string, bool) {
	if f.JoinLines {
		var kept []string
		for line := range strings.Lines(doc) {
			if line = strings.TrimSpace(line); line != "" {
				kept = append(kept, line)
			}
		}
		doc = strings.Join(kept, " ")
	}
	doc = strings.TrimSpace(doc)
	n := utf8.RuneCountInString(doc)
	return doc, n > 0 && n >= f.MinChars && (f.MaxChars == 0 || n <= f.MaxChars)
}

// ReadText cuts r at every separator (Separator when empty) and yields the
// documents that pass the filter, with the space around them taken off. An
// error ends the sequence.
func ReadText(r io.Reader, separator string, f Filter) iter.Seq2[string, error] {
	if separator == "" {
		separator = Separator
	}
	sep := []byte(separator)
	return func(yield func(string, error) bool) {
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
		for s.Scan() {
			if doc, ok := f.clean(s.Text()); ok && !yield(doc, nil) {
				return
			}
		}
		if err := scanError(s.Err()); err != nil {
			yield("", fmt.Errorf("reading text: %w", err))
		}
	}
}

// ReadJSONL yields the text of every line of r, a JSON object with a string
// "text", or with strings of the names in f.Keys, which are joined by new lines.
// Blank lines are passed over; anything else is an error, which ends the
// sequence.
func ReadJSONL(r io.Reader, f Filter) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		s := bufio.NewScanner(r)
		s.Buffer(nil, MaxDocument)
		for n := 1; s.Scan(); n++ {
			line := bytes.TrimSpace(s.Bytes())
			if len(line) == 0 {
				continue
			}
			doc, err := f.document(line)
			if err != nil {
				yield("", fmt.Errorf("reading JSON lines: line %d: %w", n, err))
				return
			}
			if text, ok := f.clean(doc); ok && !yield(text, nil) {
				return
			}
		}
		if err := scanError(s.Err()); err != nil {
			yield("", fmt.Errorf("reading JSON lines: %w", err))
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
	return strings.Join(parts, "\n"), nil
}

func scanError(err error) error {
	if errors.Is(err, bufio.ErrTooLong) {
		return ErrTooLong
	}
	return err
}

// Collect gathers a sequence of documents.
func Collect(docs iter.Seq2[string, error]) ([]string, error) {
	var all []string
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
func Split(docs []string, share float64, seed uint64) (train, held []string) {
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

// Digest is the SHA-256 of the documents, their lengths included.
func Digest(docs []string) [sha256.Size]byte {
	h := sha256.New()
	var n [8]byte
	for _, d := range docs {
		binary.LittleEndian.PutUint64(n[:], uint64(len(d)))
		h.Write(n[:])
		io.WriteString(h, d)
	}
	return [sha256.Size]byte(h.Sum(nil))
}
