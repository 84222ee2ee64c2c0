package tokenizer

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf"
)

// throughGGUF writes metadata as a GGUF file and reads the tokenizer back.
func throughGGUF(t *testing.T, kvs []gguf.KV) (*Tokenizer, error) {
	t.Helper()
	var b bytes.Buffer
	if _, err := gguf.Write(&b, kvs, nil); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return FromGGUF(f)
}

// TestFlags compares ids with those of Hugging Face tokenizers, before and after
// GGUF: normalizers, flags of special tokens, prefixes, unknown characters.
// testdata/flags.py makes the rows.
func TestFlags(t *testing.T) {
	b, err := os.ReadFile("testdata/flags.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Texts []string
		Rows  []struct {
			Name      string
			Tokenizer json.RawMessage
			IDs       [][]int32
		}
	}
	if err := json.Unmarshal(b, &golden); err != nil {
		t.Fatal(err)
	}
	for _, row := range golden.Rows {
		tok, err := FromHuggingFace(row.Tokenizer, nil)
		if err != nil {
			t.Errorf("%s: %v", row.Name, err)
			continue
		}
		back, err := throughGGUF(t, tok.KVs())
		if err != nil {
			t.Errorf("%s: %v", row.Name, err)
			continue
		}
		for i, text := range golden.Texts {
			for from, tok := range map[string]*Tokenizer{"file": tok, "GGUF": back} {
				if got := tok.Encode(text, Options{Special: true}); !slices.Equal(got, row.IDs[i]) {
					t.Errorf("%s, %s: %q: got %v, want %v", row.Name, from, text, got, row.IDs[i])
				}
			}
		}
	}
}

// TestBadRules: rules that are too large, unknown or out of range are errors.
func TestBadRules(t *testing.T) {
	v := Vocabulary{Model: BPE, Pre: PreNone, Special: NoSpecial, Stated: true}
	for _, r := range alphabet {
		v.Tokens = append(v.Tokens, Token{Text: string(r)})
	}
	tok, err := New(v)
	if err != nil {
		t.Fatal(err)
	}
	kvs := tok.KVs()
	at := slices.IndexFunc(kvs, func(kv gguf.KV) bool { return kv.Key == KeyRules })
	if at < 0 {
		t.Fatalf("missing key %s", KeyRules)
	}
	good := `{"prefix":"none","stated":true}`
	for _, c := range []struct{ rules, want string }{
		{good, ""},
		{good + strings.Repeat(" ", maxRules-len(good)), ""},
		{good + strings.Repeat(" ", maxRules+1-len(good)), "limit 16777216"},
		{`{"prefix":"none","color":1}`, "unknown field"},
		{`{}`, `unknown prefix ""`},
		{`[]`, "cannot unmarshal"},
		{`{"prefix":"none","normalizer":["Other"]}`, "unsupported normalizer Other"},
		{`{"prefix":"none","tokens":{"256":"l"}}`, `bad flags "l" of token "256"`},
		{`{"prefix":"none","tokens":{"-1":"l"}}`, "bad flags"},
		{`{"prefix":"none","tokens":{"x":"l"}}`, "bad flags"},
		{`{"prefix":"none","tokens":{"1":"z"}}`, "bad flags"},
	} {
		kvs[at].Value = c.rules
		_, err := throughGGUF(t, kvs)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%.60s: got %v, want %q", c.rules, err, c.want)
		}
	}
}
