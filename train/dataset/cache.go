package dataset

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/mmap"
	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/fsx"
)

// cacheVersion changes if the same text and tokenizer yield other tokens.
const cacheVersion = "1"

// TokenizerDigest returns the SHA-256, in hex, of the complete definition of a
// tokenizer.
func TokenizerDigest(tok *tokenizer.Tokenizer) string {
	h := sha256.New()
	// GGUF metadata has every byte of every token; JSON has the few rules
	// without GGUF keys.
	if _, err := gguf.Write(h, tok.KVs(), nil); err != nil {
		panic("dataset: encoding tokenizer metadata: " + err.Error())
	}
	v, err := json.Marshal(tok.Vocabulary())
	if err != nil {
		panic("dataset: encoding vocabulary: " + err.Error())
	}
	h.Write(v)
	return hex.EncodeToString(h.Sum(nil))
}

// Cache is Encode with a cache in dir: the tokens are stored in a file named by
// the digests of the documents and the tokenizer, and mapped from it the next
// time. The caller closes the result.
func Cache(dir string, docs []Document, tok *tokenizer.Tokenizer, opt EncodeOptions) (*Tokens, error) {
	text := Digest(docs)
	meta := map[string]string{
		"format": "mm tokens " + cacheVersion, "text": hex.EncodeToString(text[:]), "tokenizer": TokenizerDigest(tok),
	}
	if opt.Special {
		meta["text"] += " special"
	}
	key := sha256.Sum256([]byte(meta["format"] + meta["text"] + meta["tokenizer"]))
	path := filepath.Join(dir, hex.EncodeToString(key[:16])+".safetensors")
	t, err := openCache(path, meta)
	if err == nil || !errors.Is(err, errCache) && !errors.Is(err, os.ErrNotExist) {
		return t, err
	}
	if t, err = Encode(docs, tok, opt); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("token cache: %w", err)
	}
	if err := t.save(path, meta); err != nil {
		return nil, fmt.Errorf("token cache: %w", err)
	}
	return t, nil
}

// errCache reports a damaged cache file, which is then rewritten.
var errCache = errors.New("damaged token cache")

func (t *Tokens) save(path string, meta map[string]string) error {
	dtype := safetensors.U16
	if t.width == 4 {
		dtype = safetensors.U32
	}
	var docs []byte
	for _, at := range t.docs {
		docs = binary.LittleEndian.AppendUint64(docs, uint64(at))
	}
	tensors := []safetensors.Source{
		{Name: "ids", DType: dtype, Shape: []int{t.Len()}, Data: safetensors.Bytes(t.ids)},
		{Name: "documents", DType: safetensors.I64, Shape: []int{len(t.docs)}, Data: safetensors.Bytes(docs)},
	}
	if len(t.context) > 0 {
		var spans []byte
		for _, g := range t.context {
			for _, v := range []int64{g.from, g.to, g.end} {
				spans = binary.LittleEndian.AppendUint64(spans, uint64(v))
			}
		}
		tensors = append(tensors, safetensors.Source{Name: "given", DType: safetensors.I64, Shape: []int{len(t.context), 3}, Data: safetensors.Bytes(spans)})
	}
	var buf bytes.Buffer
	if _, err := safetensors.Write(&buf, meta, tensors); err != nil {
		return err
	}
	return fsx.WriteFile(path, buf.Bytes(), 0o644)
}

func openCache(path string, meta map[string]string) (*Tokens, error) {
	m, err := mmap.Open(path)
	if err != nil {
		return nil, err
	}
	t, err := parseCache(m.Data, meta)
	if err != nil {
		m.Close()
		return nil, err
	}
	t.file = m
	return t, nil
}

// parseCache parses a cache file.
func parseCache(b []byte, meta map[string]string) (*Tokens, error) {
	f, err := safetensors.Parse(b)
	if err != nil {
		return nil, errCache
	}
	for k, v := range meta {
		if f.Metadata[k] != v {
			return nil, errCache
		}
	}
	ids, ok1 := f.Tensor("ids")
	docs, ok2 := f.Tensor("documents")
	if !ok1 || !ok2 || docs.DType != safetensors.I64 || ids.DType != safetensors.U16 && ids.DType != safetensors.U32 || ids.Size == 0 {
		return nil, errCache
	}
	t := &Tokens{ids: ids.Data, width: 2}
	if ids.DType == safetensors.U32 {
		t.width = 4
	}
	last := int64(-1)
	for at := 0; at < len(docs.Data); at += 8 {
		d := int64(binary.LittleEndian.Uint64(docs.Data[at:]))
		if d <= last || d >= int64(t.Len()) || len(t.docs) == 0 && d != 0 {
			return nil, errCache
		}
		t.docs, last = append(t.docs, d), d
	}
	if len(t.docs) == 0 {
		return nil, errCache
	}
	if spans, ok := f.Tensor("given"); ok {
		err = t.readContext(spans)
	}
	return t, err
}

// readContext parses the context spans [n, 3] of a cache file.
func (t *Tokens) readContext(spans safetensors.Tensor) error {
	if spans.DType != safetensors.I64 || len(spans.Data)%24 != 0 {
		return errCache
	}
	last := int64(0)
	for b := spans.Data; len(b) > 0; b = b[24:] {
		at := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[8*i:])) }
		g := contextTokens{at(0), at(1), at(2)}
		if g.from < last || g.to <= g.from || g.to > int64(t.Len()) || g.end < -1 || g.end > math.MaxInt32 || g.end >= 0 && g.from == 0 {
			return errCache
		}
		t.context, last = append(t.context, g), g.to
	}
	return nil
}
