package dataset

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"mm-abi.org/mm/core/mmap"
	"mm-abi.org/mm/core/tokenizer"
)

// Tokens is a stream of token ids in memory or mapped from a file, and where
// each document in it begins.
type Tokens struct {
	ids   []byte // little endian
	width int    // bytes an id: 2 or 4
	docs  []int64
	file  *mmap.Map
}

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
	t.ids, t.docs = nil, nil
	return t.file.Close()
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
	return nil
}

// EncodeOptions is how documents become tokens.
type EncodeOptions struct {
	// Special takes the texts of control tokens in a document as these tokens.
	// The zero value takes them literally, which is right for text of others.
	Special bool
}

// Encode makes tokens of documents: each is the tokenizer's BOS, if it adds
// one, the text, and its EOS, if it has one.
func Encode(docs []string, tok *tokenizer.Tokenizer, opt EncodeOptions) (*Tokens, error) {
	t := &Tokens{width: 2}
	if tok.Size() > 1<<16 {
		t.width = 4
	}
	eos := tok.Special().EOS
	var ids []int32
	for _, doc := range docs {
		ids = tok.Append(ids[:0], doc, tokenizer.Options{Add: true, Special: opt.Special})
		if n := len(ids); eos != tokenizer.None && (n == 0 || ids[n-1] != eos) {
			ids = append(ids, eos)
		}
		if len(ids) == 0 {
			continue
		}
		t.docs = append(t.docs, int64(t.Len()))
		for _, id := range ids {
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
