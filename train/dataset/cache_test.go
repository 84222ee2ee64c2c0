package dataset

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/tokenizer"
)

func files(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func idsOf(t *Tokens) []int32 {
	ids := make([]int32, t.Len())
	t.Read(ids, 0)
	return ids
}

func TestCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	tok := byteTokens(t)
	docs := plain("hello", "world", "again")
	open := func(docs []Document, tok *tokenizer.Tokenizer) *Tokens {
		t.Helper()
		c, err := Cache(dir, docs, tok, EncodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	first := open(docs, tok)
	if first.file != nil || len(files(t, dir)) != 1 {
		t.Fatal("first use did not write one file")
	}
	second := open(docs, tok)
	if second.file == nil {
		t.Error("second use did not map the file")
	}
	if !cmp.Equal(idsOf(first), idsOf(second)) || !cmp.Equal(first.docs, second.docs) {
		t.Error("cached tokens differ")
	}

	// Other text, other splits, another tokenizer of the same size: other
	// files.
	open(plain("hello", "world", "aga", "in"), tok)
	v, err := tokenizer.Train(func(yield func(string) bool) {}, tokenizer.TrainOptions{VocabSize: 257, Control: []string{"<|end|>"}, EOS: "<|end|>"})
	if err != nil {
		t.Fatal(err)
	}
	other, err := tokenizer.New(v)
	if err != nil {
		t.Fatal(err)
	}
	open(docs, other)
	if n := len(files(t, dir)); n != 3 {
		t.Errorf("%d files, want 3", n)
	}
}

// A damaged file is rewritten and never used.
func TestCacheDamaged(t *testing.T) {
	dir := t.TempDir()
	tok := byteTokens(t)
	docs := plain("hello", "world")
	c, err := Cache(dir, docs, tok, EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := idsOf(c)
	path := files(t, dir)[0]
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{
		"empty": {}, "cut": good[:len(good)-1], "long": append(append([]byte(nil), good...), 0),
		"other text": bytes.Replace(good, []byte(`"text":"`), []byte(`"text":"0`), 1),
	} {
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := Cache(dir, docs, tok, EncodeOptions{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !cmp.Equal(want, idsOf(c)) {
			t.Errorf("%s: tokens differ", name)
		}
		if now, _ := os.ReadFile(path); !bytes.Equal(now, good) {
			t.Errorf("%s: file not rewritten", name)
		}
	}
}

func FuzzCache(f *testing.F) {
	tok := byteTokens(f)
	tokens, err := Encode(plain("ab", "c"), tok, EncodeOptions{})
	if err != nil {
		f.Fatal(err)
	}
	path := filepath.Join(f.TempDir(), "x")
	if err := tokens.save(path, nil); err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		tokens, err := parseCache(b, nil)
		if err != nil {
			return
		}
		batch := NewBatch(2, 3)
		for range Windows(tokens, batch, 50) {
		}
		if l, err := NewLoader(tokens, 3, Position{Seed: 1}); err == nil {
			l.Next(batch)
		}
	})
}
