package tokenizer

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/internal/testfiles"
)

// The pre-tokenizers as in real files.
const (
	hfGPT2   = `{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}`
	hfSmolLM = `{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},` + hfGPT2 + `]}`
	hfCut    = `{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":%s},"behavior":"Isolated","invert":false},` +
		`{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]}`
	hfMarks = `{"type":"Sequence","normalizers":[%s{"type":"Replace","pattern":{"String":" "},"content":"▁"}]}`
)

// regexOf returns the expression that hfPreTokenizers maps to pre.
func regexOf(pre string) string {
	for regex, name := range hfPreTokenizers {
		if name == pre {
			b, err := json.Marshal(regex)
			if err != nil {
				panic(err)
			}
			return string(b)
		}
	}
	panic("no expression for " + pre)
}

// writeHF writes a vocabulary as tokenizer.json.
func writeHF(t *testing.T, v Vocabulary, normalizer, pre, post string, wholeWords, byteFallback bool) []byte {
	t.Helper()
	vocab := make(map[string]int)
	var added []map[string]any
	for id, tok := range v.Tokens {
		if tok.Type == Control || tok.Type == UserDefined {
			added = append(added, map[string]any{"id": id, "content": tok.Text, "single_word": false, "lstrip": false,
				"rstrip": false, "normalized": false, "special": tok.Type == Control})
		}
		vocab[tok.Text] = id
	}
	merges := make([][2]string, len(v.Merges))
	for i, m := range v.Merges {
		merges[i] = [2]string{m.Left, m.Right}
	}
	file := map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": added,
		"normalizer": json.RawMessage(normalizer), "pre_tokenizer": json.RawMessage(pre),
		"post_processor": json.RawMessage(post), "decoder": nil,
		"model": map[string]any{"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil,
			"end_of_word_suffix": nil, "fuse_unk": false, "byte_fallback": byteFallback, "ignore_merges": wholeWords,
			"vocab": vocab, "merges": merges},
	}
	b, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// hfOracle starts the reference library on a file.
func hfOracle(t *testing.T, file []byte) func(text string, add bool) []int32 {
	t.Helper()
	python := testfiles.Python(t, "tokenizers")
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, filepath.Join("testdata", "huggingface.py"), path)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	out := bufio.NewReader(pipe)
	return func(text string, add bool) []int32 {
		req := binary.LittleEndian.AppendUint32(nil, uint32(len(text)))
		if add {
			req = append(req, 1)
		} else {
			req = append(req, 0)
		}
		if _, err := in.Write(append(req, text...)); err != nil {
			t.Fatal(err)
		}
		var n uint32
		if err := binary.Read(out, binary.LittleEndian, &n); err != nil {
			t.Fatal(err)
		}
		ids := make([]int32, n)
		if err := binary.Read(out, binary.LittleEndian, ids); err != nil {
			t.Fatal(err)
		}
		return ids
	}
}

// TestAgainstHuggingFace writes real vocabularies as tokenizer.json with real
// steps, and compares ids with the reference library.
func TestAgainstHuggingFace(t *testing.T) {
	models := testfiles.Native(t, "llama.cpp", "models")
	smollm := filepath.Join(testfiles.Native(t, "models"), "SmolLM2-135M-Instruct.Q4_1.gguf")
	vocab := func(name string) string { return filepath.Join(models, "ggml-vocab-"+name+".gguf") }
	llama3Post := `{"type":"Sequence","processors":[{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":false,"use_regex":true},{"type":"TemplateProcessing",` +
		`"single":[{"SpecialToken":{"id":"<|begin_of_text|>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],` +
		`"pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":1}}],` +
		`"special_tokens":{"<|begin_of_text|>":{"id":"<|begin_of_text|>","ids":[128000],"tokens":["<|begin_of_text|>"]}}}]}`
	texts := realTexts(t)
	for _, c := range []struct {
		name, path            string
		normalizer, pre, post string
		wholeWords, chars     bool
	}{
		{"gpt-2", vocab("gpt-2"), "null", hfGPT2, "null", false, false},
		{"smollm", smollm, "null", hfSmolLM, "null", false, false},
		{"llama-3", vocab("llama-bpe"), "null", fmt.Sprintf(hfCut, regexOf("dbrx")), llama3Post, true, false},
		{"qwen2", vocab("qwen2"), `{"type":"NFC"}`, fmt.Sprintf(hfCut, regexOf("qwen2")), "null", false, false},
		{"qwen3.5", vocab("qwen35"), `{"type":"NFC"}`, fmt.Sprintf(hfCut, regexOf("qwen35")), "null", false, false},
		{"gpt-4o words", vocab("llama-bpe"), "null", fmt.Sprintf(hfCut, regexOf("gpt-4o")), "null", false, false},
		{"tekken words", vocab("llama-bpe"), "null", fmt.Sprintf(hfCut, regexOf("tekken")), "null", true, false},
		{"deepseek-v3 words", vocab("deepseek-llm"), "null", deepSeek3JSON(), "null", false, false},
		{"gemma", vocab("gemma-4"), fmt.Sprintf(hfMarks, ""), "null", "null", false, true},
		{"gemma, prefix", vocab("gemma-4"), fmt.Sprintf(hfMarks, `{"type":"Prepend","prepend":"▁"},`), "null", "null", false, true},
		{"gemma, metaspace", vocab("gemma-4"), "null", `{"type":"Metaspace","replacement":"▁","prepend_scheme":"never","split":true}`, "null", false, true},
		{"gemma, metaspace first", vocab("gemma-4"), "null", `{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true}`, "null", false, true},
		{"gemma, metaspace always", vocab("gemma-4"), "null", `{"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":false}`, "null", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := open(t, c.path).Vocabulary()
			file := writeHF(t, v, c.normalizer, c.pre, c.post, c.wholeWords, c.chars)
			want := hfOracle(t, file)
			tok, err := FromHuggingFace(file, nil)
			if err != nil {
				t.Fatal(err)
			}
			wrong, bytes := 0, 0
			check := func(text string, add bool) {
				bytes += len(text)
				w, g := want(text, add), tok.Encode(text, Options{Special: true, Add: add})
				if slices.Equal(w, g) {
					return
				}
				if wrong++; wrong <= 5 {
					i := 0
					for i < len(w) && i < len(g) && w[i] == g[i] {
						i++
					}
					t.Errorf("%.200q: from token %d\nwant %v\ngot  %v", text, i, tail(w, i), tail(g, i))
				}
			}
			for _, text := range texts[:20] {
				check(text, false)
			}
			rng := rand.New(rand.NewPCG(3, 4))
			for range 400 {
				check(randomText(rng), true)
				check(withSpecials(rng, tok), true)
			}
			t.Logf("%d bytes compared, %d texts differ", bytes, wrong)
		})
	}
}

func deepSeek3JSON() string {
	steps := strings.Split(keyOf("deepseek-v3"), "\n")
	// The third expression contains line breaks.
	joined := []string{steps[0], steps[1], strings.Join(steps[2:], "\n")}
	var b strings.Builder
	b.WriteString(`{"type":"Sequence","pretokenizers":[`)
	for _, regex := range joined {
		quoted, err := json.Marshal(regex)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&b, `{"type":"Split","pattern":{"Regex":%s},"behavior":"Isolated","invert":false},`, quoted)
	}
	b.WriteString(`{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]}`)
	return b.String()
}

func keyOf(pre string) string {
	for key, name := range hfPreTokenizers {
		if name == pre {
			return key
		}
	}
	panic("no expression for " + pre)
}

// TestStatedTypes: a token that looks like the end of a text is special only if
// tokenizer.json declares it; </s> remains special after conversion to GGUF.
func TestStatedTypes(t *testing.T) {
	for _, text := range []string{"</s>", "<end_of_turn>"} {
		for _, typ := range []Type{Normal, Control} {
			v := Vocabulary{Model: BPE, Special: NoSpecial}
			for b := range 256 {
				v.Tokens = append(v.Tokens, Token{Text: ToAlphabet(string([]byte{byte(b)})), Type: Normal})
			}
			v.Tokens = append(v.Tokens, Token{Text: text, Type: typ})
			tok, err := FromHuggingFace(writeHF(t, v, "null", hfGPT2, "null", false, false), nil)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if _, err := gguf.Write(&b, tok.KVs(), nil); err != nil {
				t.Fatal(err)
			}
			f, err := gguf.Parse(b.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			back, err := FromGGUF(f)
			if err != nil {
				t.Fatal(err)
			}
			both := []*Tokenizer{tok}
			if text == "</s>" { // in GGUF other names make a token special
				both = append(both, back)
			}
			for _, tok := range both {
				id, want := tok.ID(text), typ == Control
				if tok.Ends(id) != want || (tok.Type(id) == Control) != want || (tok.Special().EOT == id) != (want && text != "</s>") {
					t.Errorf("%s of type %v: ends a text %v, has type %v, is the end of turn %v", text, typ, tok.Ends(id), tok.Type(id), tok.Special().EOT == id)
				}
				if got := tok.Encode("a"+text+"b", Options{Special: true}); slices.Contains(got, id) != want {
					t.Errorf("%s of type %v: it became %v in a text", text, typ, got)
				}
			}
		}
	}
}

// TestSplitAtSpaces: splitting at spaces does nothing if the normalizer has
// replaced them by ▁, as in Gemma's files, and is refused otherwise.
func TestSplitAtSpaces(t *testing.T) {
	v := pieces(spaceMark, "a", "b", spaceMark+"a", spaceMark+"ab")
	split := `{"type":"Split","pattern":{"String":" "},"behavior":"MergedWithPrevious","invert":false}`
	replace := `{"type":"Replace","pattern":{"String":" "},"content":"▁"}`
	file := writeHF(t, v, replace, split, "null", false, true)
	with, err := FromHuggingFace(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	without, err := FromHuggingFace(writeHF(t, v, replace, "null", "null", false, true), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"a ab  b", " ", "é a"} {
		if x, y := with.Encode(text, Options{}), without.Encode(text, Options{}); !slices.Equal(x, y) {
			t.Errorf("%q is %v, without the split %v", text, x, y)
		}
	}
	if _, err := FromHuggingFace(writeHF(t, v, "null", split, "null", false, true), nil); err == nil {
		t.Error("a split that would cut is passed over")
	}
}
