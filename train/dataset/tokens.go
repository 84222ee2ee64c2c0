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

// Tokens is a stream of token ids in memory or mapped from a file, and where
// each document in it begins.
type Tokens struct {
	ids   []byte // little endian
	width int    // bytes an id: 2 or 4
	docs  []int64
	given []given
	file  *mmap.Map
}

// given is the tokens [from, to) that are not learnt. The position before them
// is asked for the token end instead; -1 asks for none.
type given struct{ from, to, end int64 }

// Len is the number of tokens.
func (t *Tokens) Len() int { return len(t.ids) / t.width }

// Documents is the number of documents.
func (t *Tokens) Documents() int { return len(t.docs) }

// Read copies the ids from position at on into dst; they must be there.
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

// Close unmaps the file, if there is one.
func (t *Tokens) Close() error {
	if t.file == nil {
		return nil
	}
	t.ids, t.docs, t.given = nil, nil, nil
	return t.file.Close()
}

// spanAt is the first given span that ends behind position at.
func (t *Tokens) spanAt(at int) int {
	return sort.Search(len(t.given), func(i int) bool { return t.given[i].to > int64(at) })
}

// Digest is the SHA-256 of the ids, in hex.
func (t *Tokens) Digest() string {
	sum := sha256.Sum256(t.ids)
	return hex.EncodeToString(sum[:])
}

// Check refuses ids outside a vocabulary of size v.
func (t *Tokens) Check(v int) error {
	var buf [4096]int32
	for at := 0; at < t.Len(); at += len(buf) {
		part := buf[:min(len(buf), t.Len()-at)]
		t.Read(part, at)
		for i, id := range part {
			if id < 0 || int(id) >= v {
				return fmt.Errorf("token %d at position %d lies outside the vocabulary of %d", id, at+i, v)
			}
		}
	}
	for _, s := range t.given {
		if s.end >= int64(v) {
			return fmt.Errorf("end token %d lies outside the vocabulary of %d", s.end, v)
		}
	}
	return nil
}

// EncodeOptions is how documents become tokens.
type EncodeOptions struct {
	// Special takes the texts of control tokens in a document as these tokens.
	// The zero value takes them literally, which is right for text of others.
	Special bool
}

// Encode makes tokens of documents: each is the tokenizer's BOS, if it adds
// one, the text, and its EOS, if it has one. Given parts and those between them
// are encoded each for itself, as they are when one is told to the model that
// wrote the other.
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
		for _, s := range e.given {
			t.given = append(t.given, given{at + s.from, at + s.to, s.end})
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
		return nil, errors.New("encoding documents: there are no tokens")
	}
	return t, nil
}

// encoder is one document as tokens.
type encoder struct {
	ids   []int32
	given []given
}

func (e *encoder) encode(doc Document, tok *tokenizer.Tokenizer, opt EncodeOptions) {
	e.ids, e.given = e.ids[:0], e.given[:0]
	eos := tok.Special().EOS
	last := false // the last part is given
	if len(doc.Given) == 0 {
		e.ids = tok.Append(e.ids, doc.Text, tokenizer.Options{Add: true, Special: opt.Special})
	} else {
		last = e.parts(doc, tok, opt)
	}
	if n := len(e.ids); eos != tokenizer.None && (n == 0 || e.ids[n-1] != eos) {
		e.ids = append(e.ids, eos)
	}
	if last {
		e.given[len(e.given)-1].to = int64(len(e.ids)) // nobody is to say the end
	}
}

// parts encodes a document with given parts, and tells whether its last part is
// one.
func (e *encoder) parts(doc Document, tok *tokenizer.Tokenizer, opt EncodeOptions) (last bool) {
	v := tok.Vocabulary()
	if v.AddBOS {
		e.ids = append(e.ids, v.Special.BOS)
	}
	said := false // anything by the model
	for text, isGiven := range doc.parts() {
		from := len(e.ids)
		e.ids = tok.Append(e.ids, text, tokenizer.Options{Special: opt.Special})
		if len(e.ids) == from {
			continue
		}
		if last = isGiven; !isGiven {
			said = true
			continue
		}
		end := int64(-1)
		if said && !tok.Ends(e.ids[from-1]) {
			end = int64(v.Special.EOS)
		}
		e.given = append(e.given, given{int64(from), int64(len(e.ids)), end})
	}
	return last
}

// OpenUint16 maps a file of little-endian uint16 ids: plain, or a NumPy .npy of
// one dimension. A document begins at the first id and after every id equal to
// end; a negative end makes one document.
func OpenUint16(path string, end int32) (*Tokens, error) {
	m, err := mmap.Open(path)
	if err != nil {
		return nil, err
	}
	ids, err := payload(m.Data)
	if err == nil && (len(ids) == 0 || len(ids)%2 != 0) {
		err = fmt.Errorf("%d bytes are no uint16 ids", len(ids))
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
