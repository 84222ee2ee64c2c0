package dataset

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"sort"

	"mm-abi.org/mm/core/mmap"
	"mm-abi.org/mm/core/tokenizer"
)

// Tokens is a sequence of token ids, in memory or mapped from a file, with the
// start of each document.
type Tokens struct {
	ids     []byte // little endian
	width   int    // bytes per id: 2 or 4
	docs    []int64
	context []contextTokens
	file    *mmap.Map
}

// contextTokens is the tokens [from, to) that are not learned. The target of
// the position before them is the token end; -1 means none.
type contextTokens struct{ from, to, end int64 }

// Len returns the number of tokens.
func (t *Tokens) Len() int { return len(t.ids) / t.width }

// Documents returns the number of documents.
func (t *Tokens) Documents() int { return len(t.docs) }

// Read copies the ids from position at, which must exist, into dst.
func (t *Tokens) Read(dst []int32, at int) {
	src := t.ids[at*t.width : (at+len(dst))*t.width]
	if t.width == 2 {
		for i := range dst {
			dst[i] = int32(binary.LittleEndian.Uint16(src[2*i:]))
		}
		return
	}
	for i := range dst {
		dst[i] = int32(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

// Close unmaps the file, if any.
func (t *Tokens) Close() error {
	if t.file == nil {
		return nil
	}
	t.ids, t.docs, t.context = nil, nil, nil
	return t.file.Close()
}

// spanAt returns the first context span that ends after position at.
func (t *Tokens) spanAt(at int) int {
	return sort.Search(len(t.context), func(i int) bool { return t.context[i].to > int64(at) })
}

// Digest returns the SHA-256 of the ids, in hex.
func (t *Tokens) Digest() string {
	sum := sha256.Sum256(t.ids)
	return hex.EncodeToString(sum[:])
}

// Check returns an error for ids outside a vocabulary of size v.
func (t *Tokens) Check(v int) error {
	var buf [4096]int32
	for at := 0; at < t.Len(); at += len(buf) {
		part := buf[:min(len(buf), t.Len()-at)]
		t.Read(part, at)
		for i, id := range part {
			if id < 0 || int(id) >= v {
				return fmt.Errorf("token %d at position %d out of range, vocabulary size is %d", id, at+i, v)
			}
		}
	}
	for _, s := range t.context {
		if s.end >= int64(v) {
			return fmt.Errorf("end token %d out of range, vocabulary size is %d", s.end, v)
		}
	}
	return nil
}

// EncodeOptions configure the encoding of documents.
type EncodeOptions struct {
	// Special parses control tokens in documents as such. The default encodes
	// their text literally, which is right for untrusted text.
	Special bool
}

// Encode encodes documents: the tokenizer's BOS, if it adds one, the text, and
// its EOS, if it has one. Context and the parts between are encoded separately,
// as in inference.
func Encode(docs []Document, tok *tokenizer.Tokenizer, opt EncodeOptions) (*Tokens, error) {
	t := &Tokens{width: 2}
	if tok.Size() > 1<<16 {
		t.width = 4
	}
	var e encoder
	for _, doc := range docs {
		e.encode(doc, tok, opt)
		if len(e.ids) == 0 {
			continue
		}
		at := int64(t.Len())
		t.docs = append(t.docs, at)
		for _, s := range e.context {
			t.context = append(t.context, contextTokens{at + s.from, at + s.to, s.end})
		}
		for _, id := range e.ids {
			if t.width == 2 {
				t.ids = binary.LittleEndian.AppendUint16(t.ids, uint16(id))
			} else {
				t.ids = binary.LittleEndian.AppendUint32(t.ids, uint32(id))
			}
		}
	}
	if len(t.ids) == 0 {
		return nil, errors.New("encoding documents: no tokens")
	}
	return t, nil
}

// encoder encodes one document.
type encoder struct {
	ids     []int32
	context []contextTokens
}

func (e *encoder) encode(doc Document, tok *tokenizer.Tokenizer, opt EncodeOptions) {
	e.ids, e.context = e.ids[:0], e.context[:0]
	eos := tok.Special().EOS
	last := false // the last part is context
	if len(doc.Context) == 0 {
		e.ids = tok.Append(e.ids, doc.Text, tokenizer.Options{Add: true, Special: opt.Special})
	} else {
		last = e.parts(doc, tok, opt)
	}
	if n := len(e.ids); eos != tokenizer.None && (n == 0 || e.ids[n-1] != eos) {
		e.ids = append(e.ids, eos)
	}
	if last {
		e.context[len(e.context)-1].to = int64(len(e.ids)) // no final EOS
	}
}

// parts encodes a document with context and reports whether its last part is
// context.
func (e *encoder) parts(doc Document, tok *tokenizer.Tokenizer, opt EncodeOptions) (last bool) {
	v := tok.Rules()
	if v.AddBOS {
		e.ids = append(e.ids, v.Special.BOS)
	}
	written := false // the model has written
	for text, isGiven := range doc.parts() {
		from := len(e.ids)
		e.ids = tok.Append(e.ids, text, tokenizer.Options{Special: opt.Special})
		if len(e.ids) == from {
			continue
		}
		if last = isGiven; !isGiven {
			written = true
			continue
		}
		end := int64(-1)
		if written && !tok.Ends(e.ids[from-1]) {
			end = int64(v.Special.EOS)
		}
		e.context = append(e.context, contextTokens{int64(from), int64(len(e.ids)), end})
	}
	return last
}

// OpenUint16 maps a file of little-endian uint16 ids: plain, or a
// one-dimensional NumPy .npy. A document begins at the first id and after every
// id equal to end; a negative end makes one document.
func OpenUint16(path string, end int32) (*Tokens, error) {
	m, err := mmap.Open(path)
	if err != nil {
		return nil, err
	}
	ids, err := payload(m.Data)
	if err == nil && (len(ids) == 0 || len(ids)%2 != 0) {
		err = fmt.Errorf("%d bytes are not uint16 ids", len(ids))
	}
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("token file %s: %w", path, err)
	}
	t := &Tokens{ids: ids, width: 2, docs: []int64{0}, file: m}
	for i := 0; end >= 0 && i+2 < len(ids); i += 2 {
		if int32(binary.LittleEndian.Uint16(ids[i:])) == end {
			t.docs = append(t.docs, int64(i/2+1))
		}
	}
	return t, nil
}
