package tokenizer_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tokenizer"
)

// use encodes and decodes with a tokenizer built from hostile bytes.
func use(t *testing.T, tok *tokenizer.Tokenizer) {
	t.Helper()
	for _, text := range []string{"Once upon a time", "<s> x </s>\n\n", "日本\xff é 123", strings.Repeat("ab ", 100)} {
		for _, opt := range []tokenizer.Options{{}, {Add: true, Special: true}} {
			ids := tok.Encode(text, opt)
			for _, id := range ids {
				if id < 0 || int(id) >= tok.Size() {
					t.Fatalf("%q has the id %d of %d", text, id, tok.Size())
				}
			}
			tok.Decode(ids, tokenizer.DecodeOptions{Special: true})
		}
	}
	tok.KVs()
}

func FuzzGGUF(f *testing.F) {
	for _, tok := range []*tokenizer.Tokenizer{trained(f, "gpt-2"), trained(f, tokenizer.PreNone), build(f, spm())} {
		var b bytes.Buffer
		if _, err := gguf.Write(&b, tok.KVs(), nil); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := gguf.Parse(b)
		if err != nil {
			return
		}
		if tok, err := tokenizer.FromGGUF(file); err == nil {
			use(t, tok)
		}
	})
}

// hfSample is a small tokenizer.json.
func hfSample(t testing.TB) []byte {
	t.Helper()
	v := trained(t, "gpt-2").Vocabulary()
	vocab := make(map[string]int)
	for id, tok := range v.Tokens {
		vocab[tok.Text] = id
	}
	merges := make([]string, len(v.Merges))
	for i, m := range v.Merges {
		merges[i] = m.Left + " " + m.Right
	}
	b, err := json.Marshal(map[string]any{
		"added_tokens":   []any{map[string]any{"id": 0, "content": "<s>", "special": true, "lstrip": true}},
		"normalizer":     map[string]any{"type": "Sequence", "normalizers": []any{map[string]any{"type": "NFC"}}},
		"pre_tokenizer":  map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
		"post_processor": map[string]any{"type": "TemplateProcessing", "single": []any{map[string]any{"SpecialToken": map[string]any{"id": "<s>"}}, map[string]any{"Sequence": map[string]any{"id": "A"}}}},
		"model":          map[string]any{"type": "BPE", "vocab": vocab, "merges": merges, "unk_token": nil},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var hfConfig = []byte(`{"bos_token":{"content":"<s>"},"eos_token":"</s>","unk_token":null,"chat_template":[{"name":"default","template":"x"}]}`)

func FuzzHuggingFace(f *testing.F) {
	f.Add(hfSample(f), hfConfig)
	f.Add([]byte(`{"model":{"type":"BPE","byte_fallback":true,"vocab":{"▁":0,"a":1,"▁a":2,"<0x0A>":3},"merges":[["▁","a"]]},`+
		`"normalizer":{"type":"Replace","pattern":{"String":" "},"content":"▁"},"pre_tokenizer":null}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, file, config []byte) {
		if tok, err := tokenizer.FromHuggingFace(file, config); err == nil {
			use(t, tok)
		}
	})
}

func FuzzLlama2C(f *testing.F) {
	f.Add([]byte("\x06\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00<unk>\x00\x00\x00\x00\x05\x00\x00\x00\n<s>\n\x00\x00\x00\x00\x06\x00\x00\x00\n</s>\n\x00\x00\x80\xbf\x01\x00\x00\x00a"), 4)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		if tok, err := tokenizer.FromLlama2C(b, size); err == nil {
			use(t, tok)
		}
	})
}

func FuzzPhiAuto(f *testing.F) {
	v := trained(f, tokenizer.PreNone).Vocabulary()
	v.Tokens = v.Tokens[5:]
	f.Add(phiAuto(f, v))
	f.Fuzz(func(t *testing.T, b []byte) {
		if tok, err := tokenizer.FromPhiAuto(b); err == nil {
			use(t, tok)
		}
	})
}

// FuzzEncode checks that every pre-tokenizer is lossless for any bytes, and
// that the linear encoder and the heap agree.
func FuzzEncode(f *testing.F) {
	var toks []*tokenizer.Tokenizer
	for _, pre := range []string{"default", "gpt-2", "llama-bpe", "smollm", "qwen35", "tekken", "gpt-4o", "falcon", "deepseek-llm", "deepseek-coder", "deepseek-v3"} {
		toks = append(toks, trained(f, pre))
	}
	linear := trained(f, tokenizer.PreNone)
	heap := linear.WithoutLinear()
	sp := build(f, spm())
	for _, text := range corpus {
		f.Add(text)
	}
	f.Add("'S don't I'LL \r\n\t 12345 ½ DŽǅ ́a\u3000\u0085\xff\xc3(")
	f.Fuzz(func(t *testing.T, text string) {
		for _, tok := range toks {
			if got := tok.Decode(tok.Encode(text, tokenizer.Options{}), tokenizer.DecodeOptions{}); got != text {
				t.Fatalf("%s: %q decodes to %q", tok.Vocabulary().Pre, text, got)
			}
		}
		if a, b := linear.Encode(text, tokenizer.Options{}), heap.Encode(text, tokenizer.Options{}); !slices.Equal(a, b) {
			t.Fatalf("%q: linear %v, heap %v", text, a, b)
		}
		want := strings.ReplaceAll(text, "▁", " ")
		if got := sp.Decode(sp.Encode(text, tokenizer.Options{}), tokenizer.DecodeOptions{}); got != want && utf8.ValidString(text) {
			t.Fatalf("spm: %q decodes to %q", text, got)
		}
	})
}

func TestHuggingFace(t *testing.T) {
	file := hfSample(t)
	tok, err := tokenizer.FromHuggingFace(file, hfConfig)
	if err != nil {
		t.Fatal(err)
	}
	v := tok.Vocabulary()
	if v.Pre != "gpt-2" || !slices.Equal(v.Normalizer, []string{"NFC"}) || !v.AddBOS || v.Special.BOS != 0 || v.Special.EOS != 1 || v.Template != "x" || !v.Tokens[0].LStrip {
		t.Errorf("%q %v %v %+v %q", v.Pre, v.Normalizer, v.AddBOS, v.Special, v.Template)
	}
	if got := tok.Encode("a <s>", tokenizer.Options{Special: true}); len(got) != 2 || got[1] != 0 {
		t.Errorf("the space before <s> was not stripped: %v", got)
	}
	if composed, combining := tok.Encode("é", tokenizer.Options{}), tok.Encode("é", tokenizer.Options{}); !slices.Equal(composed, combining) {
		t.Errorf("NFC: %v and %v", composed, combining)
	}
	replace := func(old, with string) string {
		if !strings.Contains(string(file), old) {
			t.Fatalf("no %s in the sample", old)
		}
		return strings.Replace(string(file), old, with, 1)
	}
	for want, bad := range map[string]string{
		"unexpected end of JSON":                string(file[:100]),
		`unsupported model "WordLevel"`:         replace(`"type":"BPE"`, `"type":"WordLevel"`),
		"BPE with a list of tokens":             replace(`"vocab":{`, `"vocab":[],"x":{`),
		"BPE dropout is not supported":          replace(`"unk_token":null`, `"unk_token":null,"dropout":0.1`),
		"a subword prefix":                      replace(`"unk_token":null`, `"continuing_subword_prefix":"##"`),
		"a symbol or merge without a token":     replace(`"unk_token":null`, `"end_of_word_suffix":"</w>"`),
		"want at most 16 bytes":                 replace(`"unk_token":null`, `"end_of_word_suffix":"seventeen letters"`),
		"unsupported normalizer Other":          replace(`"NFC"`, `"Other"`),
		"unsupported pre-tokenizer Whitespace":  replace(`"ByteLevel"`, `"Whitespace"`),
		"want either a ByteLevel pre-tokenizer": replace(`"add_prefix_space":false,"type":"ByteLevel","use_regex":true`, `"type":"Digits","individual_digits":true`),
		"unsupported post-processor Other":      replace(`"TemplateProcessing"`, `"Other"`),
		"2 tokens before":                       replace(`"single":[`, `"single":[{"SpecialToken":{"id":"<s>"}},`),
		"with id -1":                            replace(`"id":0,`, `"id":-1,`),
		`added token "<s>" has the id 1, trans`: replace(`"id":0,`, `"id":1,`),
		"is not a pair":                         replace(`"merges":["`, `"merges":["x","`),
		"bad merge: got 3 parts":                replace(`"merges":["`, `"merges":[["a","b","c"],"`),
		"cannot unmarshal number":               replace(`"merges":["`, `"merges":[1,"`),
	} {
		if _, err := tokenizer.FromHuggingFace([]byte(bad), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, should hold %q", err, want)
		}
	}
	more, err := tokenizer.FromHuggingFace(file, []byte(`{"eos_token":"<new>"}`))
	if err != nil || more.ID("<new>") != int32(tok.Size()) || more.Special().EOS != more.ID("<new>") {
		t.Errorf("a special token that the file lacks: %v, %v", more, err)
	}
}
