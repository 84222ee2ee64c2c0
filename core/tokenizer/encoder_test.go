package tokenizer_test

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tokenizer"
)

//go:embed testdata/encoders.json.gz
var encodersFile []byte

// encoderCase is a tokenizer of an encoder, with the ids of transformers
// (testdata/encoders.py).
type encoderCase struct {
	Tokenizer, Config json.RawMessage
	ModelType         string `json:"model_type"`
	Cases             []struct {
		Text   string
		Add    bool
		Second *string
		Limit  int
		IDs    []int32
		Types  []int32
	}
}

func encoderCases(t testing.TB) map[string]encoderCase {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(encodersFile))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]encoderCase
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func (c encoderCase) open(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.FromTransformers(tokenizer.Transformers{Tokenizer: c.Tokenizer, Config: c.Config, ModelType: c.ModelType})
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// reopened writes a tokenizer to GGUF and reads it.
func reopened(t testing.TB, kvs []gguf.KV) (*tokenizer.Tokenizer, error) {
	t.Helper()
	var b bytes.Buffer
	if _, err := gguf.Write(&b, kvs, nil); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return tokenizer.FromGGUF(f)
}

// TestEncoders compares the ids of WordPiece and Unigram with those of transformers,
// before and after a conversion to GGUF.
func TestEncoders(t *testing.T) {
	for name, c := range encoderCases(t) {
		t.Run(name, func(t *testing.T) {
			tok := c.open(t)
			back, err := reopened(t, tok.KVs())
			if err != nil {
				t.Fatal(err)
			}
			for kind, tok := range map[string]*tokenizer.Tokenizer{"file": tok, "gguf": back} {
				for _, one := range c.Cases {
					if one.Second == nil {
						if d := cmp.Diff(one.IDs, tok.Encode(one.Text, tokenizer.Options{Add: one.Add, Special: true})); d != "" && len(one.IDs) > 0 {
							t.Errorf("%s: %q (-want +got):\n%s", kind, one.Text, d)
						}
						continue
					}
					got, err := tok.Join(one.Text, *one.Second, true, one.Limit)
					if err != nil {
						t.Fatal(err)
					}
					if d := cmp.Diff(tokenizer.Sequence{IDs: one.IDs, Segments: one.Types}, got); d != "" {
						t.Errorf("%s: %q and %q, limit %d (-want +got):\n%s", kind, one.Text, *one.Second, one.Limit, d)
					}
				}
			}
		})
	}
}

// TestForeignBERT reads the keys that llama.cpp's converter writes, without mm's own.
func TestForeignBERT(t *testing.T) {
	for name, c := range encoderCases(t) {
		if name != "wordpiece-bert-None-None" && name != "unigram-xlmr-class" {
			continue
		}
		tok := c.open(t)
		var kvs []gguf.KV
		for _, kv := range tok.KVs() {
			if kv.Key != tokenizer.KeyRules {
				kvs = append(kvs, kv)
			}
		}
		back, err := reopened(t, kvs)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range c.Cases {
			if one.Second != nil || strings.Contains(one.Text, "mask") || strings.Contains(one.Text, "MASK") { // its flags have no key
				continue
			}
			if d := cmp.Diff(one.IDs, back.Encode(one.Text, tokenizer.Options{Add: one.Add, Special: true})); d != "" && len(one.IDs) > 0 {
				t.Errorf("%s: %q (-want +got):\n%s", name, one.Text, d)
			}
		}
	}
}

// TestJoin cuts one text and two, and refuses limits without room.
func TestJoin(t *testing.T) {
	c := encoderCases(t)["wordpiece-bert-None-None"]
	tok := c.open(t)
	one, err := tok.Join("the the the the", "", false, 4)
	if err != nil || len(one.IDs) != 4 || one.IDs[0] != tok.Special().BOS || one.IDs[3] != tok.Special().EOS {
		t.Errorf("got %v, %v", one, err)
	}
	if _, err := tok.Join("a", "b", true, 2); err == nil || !strings.Contains(err.Error(), "no room for the 3") {
		t.Errorf("a limit of 2: %v", err)
	}
	if two, err := tok.Join("a", "b", true, 3); err != nil || len(two.IDs) != 3 {
		t.Errorf("a limit of 3: %v, %v", two, err)
	}
	spm := build(t, spm())
	if _, err := spm.Join("a", "b", true, 0); err == nil || !strings.Contains(err.Error(), "does not join") {
		t.Errorf("a vocabulary without pairs: %v", err)
	}
}

// TestDecodeWordPiece puts spaces between words and none within.
func TestDecodeWordPiece(t *testing.T) {
	c := encoderCases(t)["wordpiece-bert-None-None"]
	tok := c.open(t)
	const text = "once upon a townie the"
	if got := tok.Decode(tok.Encode(text, tokenizer.Options{Add: true}), tokenizer.DecodeOptions{}); got != text {
		t.Errorf("got %q, want %q", got, text)
	}
}

// TestCharsmapHostile damages the table of a normalizer.
func TestCharsmapHostile(t *testing.T) {
	c := encoderCases(t)["unigram-xlmr-class"]
	good := c.open(t).Vocabulary()
	for _, change := range []func(b []byte) []byte{
		func(b []byte) []byte { return b[:3] },
		func(b []byte) []byte { return append([]byte{0xff, 0xff, 0xff, 0xff}, b[4:]...) },
		func(b []byte) []byte { binary.LittleEndian.PutUint32(b, 6); return b },
	} {
		v := good
		v.Charsmap = change(bytes.Clone(good.Charsmap))
		if _, err := tokenizer.New(v); err == nil || !strings.Contains(err.Error(), "charsmap") {
			t.Errorf("got %v", err)
		}
	}
	for at := range good.Charsmap { // no damage of a byte makes it panic
		v := good
		v.Charsmap = bytes.Clone(good.Charsmap)
		if v.Charsmap[at] ^= 0xff; at%37 != 0 {
			continue
		}
		if tok, err := tokenizer.New(v); err == nil {
			tok.Encode("ﬁ e\u0301 \u3000 x ①\u200b", tokenizer.Options{})
		}
	}
}

// FuzzEncoder reads tokenizer.json of WordPiece and Unigram.
func FuzzEncoder(f *testing.F) {
	for _, text := range []string{
		`{"model":{"type":"WordPiece","unk_token":"[UNK]","vocab":{"[UNK]":0,"a":1,"##b":2,"[CLS]":3,"[SEP]":4},"max_input_chars_per_word":9},"normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":{"type":"BertProcessing","cls":["[CLS]",3],"sep":["[SEP]",4]}}`,
		`{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["▁",-1],["a",-2],["▁a",-2.5]]},"normalizer":{"type":"Sequence","normalizers":[{"type":"Precompiled","precompiled_charsmap":"BAAAAAAAAAA="},{"type":"Nmt"},{"type":"Strip","strip_left":false,"strip_right":true},{"type":"Replace","pattern":{"Regex":" {2,}"},"content":"▁"}]},"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},{"type":"Metaspace","replacement":"▁","prepend_scheme":"always"}]}}`,
	} {
		f.Add([]byte(text), []byte(`{"tokenizer_class":"BertTokenizer","cls_token":"[CLS]"}`))
		f.Add([]byte(text), []byte(`{}`))
	}
	f.Fuzz(func(t *testing.T, file, config []byte) {
		if tok, err := tokenizer.FromHuggingFace(file, config); err == nil {
			use(t, tok)
			tok.Join("a b", "c", true, 7) // the result is any, without a panic
		}
	})
}

// FuzzCharsmap reads the table of a normalizer.
func FuzzCharsmap(f *testing.F) {
	f.Add(encoderCases(f)["unigram-xlmr-class"].open(f).Rules().Charsmap, "ﬁ e\u0301")
	f.Fuzz(func(t *testing.T, table []byte, text string) {
		v := tokenizer.Vocabulary{Model: tokenizer.Unigram, Pre: "mm-metaspace", Special: tokenizer.NoSpecial, Tokens: []tokenizer.Token{{Text: "a"}}, Normalizer: []string{"Precompiled"}, Charsmap: table}
		if tok, err := tokenizer.New(v); err == nil {
			tok.Encode(text, tokenizer.Options{})
		}
	})
}
