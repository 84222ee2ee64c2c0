package tokenizer_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/testfiles"
)

// corpus is enough text for a small vocabulary.
var corpus = []string{
	"Once upon a time there was a little girl named Lily. She loved to play outside.",
	"Ένα δύο τρία. Η γλώσσα μού έδωσαν ελληνική.", "日本語のテキスト。日本の本。",
	"func main() {\n\tfmt.Println(\"hello, world\")\n}\n\n\nfunc main() {}", "1234567890 12 1234 3.14159",
}

// trained returns a byte-level tokenizer with MM-ABI's special tokens.
func trained(t testing.TB, pre string) *tokenizer.Tokenizer {
	t.Helper()
	v, err := tokenizer.Train(slices.Values(corpus), tokenizer.TrainOptions{VocabSize: 420, Pre: pre,
		Control: []string{"<s>", "</s>", "<image>", "<tool_call>", "</tool_call>"}, BOS: "<s>", EOS: "</s>"})
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// spm returns a small SentencePiece vocabulary with byte fallback.
func spm() tokenizer.Vocabulary {
	v := tokenizer.Vocabulary{Model: tokenizer.SPM, Special: tokenizer.NoSpecial, AddBOS: true, SpacePrefix: tokenizer.EveryPrefix}
	add := func(text string, score float32, typ tokenizer.Type) {
		v.Tokens = append(v.Tokens, tokenizer.Token{Text: text, Score: score, Type: typ})
	}
	add("<unk>", 0, tokenizer.Unknown)
	add("<s>", 0, tokenizer.Control)
	add("</s>", 0, tokenizer.Control)
	for b := range 256 {
		add(tokenizer.ByteToken(byte(b)), 0, tokenizer.Byte)
	}
	for i, text := range []string{"▁t", "he", "▁the", "▁", "h", "e", "t", "s", "<", ">", "<s", "▁▁", "é"} {
		add(text, -float32(i), tokenizer.Normal)
	}
	add("[INST]", 0, tokenizer.UserDefined)
	v.Special.Unknown, v.Special.BOS, v.Special.EOS = 0, 1, 2
	return v
}

func build(t testing.TB, v tokenizer.Vocabulary) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.New(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestSPM(t *testing.T) {
	tok := build(t, spm())
	id := tok.ID
	b := func(c byte) int32 { return id(tokenizer.ByteToken(c)) }
	for _, c := range []struct {
		text string
		opt  tokenizer.Options
		want []int32
	}{
		{"the", tokenizer.Options{}, []int32{id("▁the")}},
		{"the", tokenizer.Options{Add: true}, []int32{1, id("▁the")}},
		{" the", tokenizer.Options{}, []int32{id("▁"), id("▁the")}},
		{"thé", tokenizer.Options{}, []int32{id("▁t"), id("h"), id("é")}},
		{"x", tokenizer.Options{}, []int32{id("▁"), b('x')}},
		{"€", tokenizer.Options{}, []int32{id("▁"), b(0xe2), b(0x82), b(0xac)}},
		{"\xff\xe2\x82", tokenizer.Options{}, []int32{id("▁"), b(0xff), b(0xe2), b(0x82)}},
		// Merging does not create a control token.
		{"<s>", tokenizer.Options{}, []int32{id("▁"), id("<s"), id(">")}},
		{"<s>", tokenizer.Options{Special: true}, []int32{1}},
		{"the<s>the", tokenizer.Options{Special: true}, []int32{id("▁the"), 1, id("▁the")}},
		{"the[INST]the", tokenizer.Options{}, []int32{id("▁the"), id("[INST]"), id("▁the")}},
		{"", tokenizer.Options{Add: true}, []int32{1}},
		{"", tokenizer.Options{}, nil},
	} {
		if diff := cmp.Diff(c.want, tok.Encode(c.text, c.opt)); diff != "" {
			t.Errorf("%q %+v (- want, + got):\n%s", c.text, c.opt, diff)
		}
	}
}

// TestRoundTrip encodes and decodes text of every kind and random bytes.
func TestRoundTrip(t *testing.T) {
	toks := map[string]*tokenizer.Tokenizer{"spm": build(t, spm())}
	for _, pre := range []string{tokenizer.PreNone, "default", "gpt-2", "llama-bpe", "smollm", "qwen2", "qwen35", "tekken",
		"gpt-4o", "falcon", "deepseek-llm", "deepseek-coder", "deepseek-v3"} {
		v := trained(t, tokenizer.PreNone).Vocabulary()
		v.Pre = pre
		toks[pre] = build(t, v)
	}
	rng := rand.New(rand.NewPCG(11, 11))
	texts := slices.Clone(corpus)
	texts = append(texts, "", " ", "  ", "\n", " \n ", "\x00", "\xff\xfe\xc3", "a\xe2\x82", "\u2029\u0085", "'S'Ll", "É'S DŽabc")
	for range 300 {
		b := make([]byte, rng.IntN(40))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		texts = append(texts, string(b))
		runes := make([]rune, rng.IntN(30))
		for i := range runes {
			runes[i] = rune(rng.IntN(0x3100))
		}
		texts = append(texts, string(runes))
	}
	for name, tok := range toks {
		for _, text := range texts {
			if name == "spm" && strings.Contains(text, "▁") {
				continue // a space there
			}
			ids := tok.Encode(text, tokenizer.Options{})
			if got := tok.Decode(ids, tokenizer.DecodeOptions{}); got != text {
				t.Errorf("%s: %q decodes to %q", name, text, got)
			}
			d := tok.Decoder(tokenizer.DecodeOptions{})
			var out strings.Builder
			for _, id := range ids {
				part := d.Next(id)
				if utf8.ValidString(text) && !utf8.ValidString(part) {
					t.Errorf("%s: %q is decoded in parts of invalid UTF-8: %q", name, text, part)
				}
				out.WriteString(part)
			}
			out.WriteString(d.Flush())
			if out.String() != text {
				t.Errorf("%s: %q streams as %q", name, text, out.String())
			}
		}
	}
}

func TestDecode(t *testing.T) {
	tok := build(t, spm())
	ids := []int32{1, tok.ID("▁the"), tok.ID("[INST]"), 2, -5, 99999}
	if got := tok.Decode(ids, tokenizer.DecodeOptions{}); got != "the[INST]" {
		t.Errorf("%q", got)
	}
	if got := tok.Decode(ids, tokenizer.DecodeOptions{Special: true}); got != "<s>the[INST]</s>" {
		t.Errorf("%q", got)
	}
	if got := tok.Decode([]int32{tok.ID("▁the")}, tokenizer.DecodeOptions{Continued: true}); got != " the" {
		t.Errorf("%q", got)
	}
}

// TestHarmonyRoles: <|end|> of gpt-oss closes a message, not a turn, even if the file
// declares it.
func TestHarmonyRoles(t *testing.T) {
	for _, declared := range []bool{false, true} {
		v := trained(t, "gpt-2").Vocabulary()
		for _, text := range []string{"<|end|>", "<|return|>", "<|call|>"} {
			v.Tokens = append(v.Tokens, tokenizer.Token{Text: text, Type: tokenizer.Control})
		}
		if v.Special.EOT = tokenizer.None; declared {
			v.Special.EOT = int32(len(v.Tokens) - 3)
		}
		tok := build(t, v)
		for text, want := range map[string]bool{"<|end|>": false, "<|return|>": true, "<|call|>": true} {
			if got := tok.Ends(tok.ID(text)); got != want {
				t.Errorf("declared %v: %s ends a text: %v, want %v", declared, text, got, want)
			}
		}
	}
}

func TestRoles(t *testing.T) {
	v := trained(t, "gpt-2").Vocabulary()
	v.Tokens = append(v.Tokens, tokenizer.Token{Text: "<|im_end|>", Type: tokenizer.UserDefined})
	tok := build(t, v)
	end := tok.ID("<|im_end|>")
	if tok.Special().EOT != end || !tok.Ends(end) || tok.Type(end) != tokenizer.Control {
		t.Errorf("<|im_end|> is not an end of turn: %+v, type %d", tok.Special(), tok.Type(end))
	}
	if !tok.Ends(tok.ID("</s>")) || tok.Ends(tok.ID("<s>")) || tok.Ends(-1) {
		t.Error("</s> ends, <s> does not")
	}
	if got := tok.Encode("<|im_end|>", tokenizer.Options{}); slices.Contains(got, end) {
		t.Errorf("a user's text ended the turn: %v", got)
	}
	if tok.Piece(-1) != "" || tok.Piece(1<<30) != "" || tok.Type(-1) != 0 || tok.ID("absent") != tokenizer.None {
		t.Error("something was found outside the vocabulary")
	}
}

// TestHostile builds tokenizers from vocabularies that would crash a trusting
// implementation.
func TestHostile(t *testing.T) {
	change := func(f func(*tokenizer.Vocabulary)) tokenizer.Vocabulary {
		v := spm()
		f(&v)
		return v
	}
	changeBPE := func(f func(*tokenizer.Vocabulary)) tokenizer.Vocabulary {
		v := trained(t, "gpt-2").Vocabulary()
		v.Tokens, v.Merges = slices.Clone(v.Tokens), slices.Clone(v.Merges)
		f(&v)
		return v
	}
	for _, c := range []struct {
		want string
		v    tokenizer.Vocabulary
	}{
		{"empty vocabulary", tokenizer.Vocabulary{}},
		{`byte token 10: got "<0x-1>"`, change(func(v *tokenizer.Vocabulary) { v.Tokens[10].Text = "<0x-1>" })},
		{`got "<0xGG>"`, change(func(v *tokenizer.Vocabulary) { v.Tokens[10].Text = "<0xGG>" })},
		{`got "<0x123>"`, change(func(v *tokenizer.Vocabulary) { v.Tokens[10].Text = "<0x123>" })},
		{"duplicate text of tokens 260 and 262", change(func(v *tokenizer.Vocabulary) { v.Tokens[262].Text = v.Tokens[260].Text })},
		{"token 260 too long: got 70000 bytes", change(func(v *tokenizer.Vocabulary) { v.Tokens[260].Text = strings.Repeat("x", 70000) })},
		{"unknown type 7", change(func(v *tokenizer.Vocabulary) { v.Tokens[260].Type = 7 })},
		{"unknown type -1", change(func(v *tokenizer.Vocabulary) { v.Tokens[260].Type = -1 })},
		{"NaN score", change(func(v *tokenizer.Vocabulary) { v.Tokens[260].Score = float32(math.NaN()) })},
		{"bos token 5000 out of range", change(func(v *tokenizer.Vocabulary) { v.Special.BOS = 5000 })},
		{"eos token -2 out of range", change(func(v *tokenizer.Vocabulary) { v.Special.EOS = -2 })},
		{"BOS is missing", change(func(v *tokenizer.Vocabulary) { v.Special.BOS = tokenizer.None })},
		{"not of BPE has 1 merges", change(func(v *tokenizer.Vocabulary) { v.Merges = make([]tokenizer.Merge, 1) })},
		{`unknown pre-tokenizer "no"`, changeBPE(func(v *tokenizer.Vocabulary) { v.Pre = "no" })},
		{"merge 3: \"\" and \"a\": empty side", changeBPE(func(v *tokenizer.Vocabulary) { v.Merges[3] = tokenizer.Merge{Right: "a"} })},
		{"outside the byte alphabet", changeBPE(func(v *tokenizer.Vocabulary) { v.Merges[3] = tokenizer.Merge{Left: "a", Right: "日"} })},
		{"empty side or more than 65536 bytes", changeBPE(func(v *tokenizer.Vocabulary) {
			v.Merges[3] = tokenizer.Merge{Left: strings.Repeat("a", 40000), Right: strings.Repeat("a", 40000)}
		})},
	} {
		if _, err := tokenizer.New(c.v); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error is %v, should hold %q", err, c.want)
		}
	}
	// Unusual but acceptable vocabularies.
	for name, v := range map[string]tokenizer.Vocabulary{
		"infinite scores": change(func(v *tokenizer.Vocabulary) {
			v.Tokens[260].Score, v.Tokens[261].Score = float32(math.Inf(1)), float32(math.Inf(-1))
		}),
		"empty tokens":   change(func(v *tokenizer.Vocabulary) { v.Tokens[260].Text, v.Tokens[261].Text = "", "" }),
		"no byte tokens": change(func(v *tokenizer.Vocabulary) { v.Tokens = append(v.Tokens[:3:3], v.Tokens[259:]...) }),
		"no unknown": change(func(v *tokenizer.Vocabulary) {
			v.Tokens = append(v.Tokens[:3:3], v.Tokens[259:]...)
			v.Special.Unknown = tokenizer.None
		}),
		"merges of texts without tokens": changeBPE(func(v *tokenizer.Vocabulary) {
			v.Merges = append([]tokenizer.Merge{{Left: "Z", Right: "Z"}, {Left: "ZZ", Right: "ZZ"}}, v.Merges...)
		}),
		"merges twice":          changeBPE(func(v *tokenizer.Vocabulary) { v.Merges = append(v.Merges, v.Merges...) }),
		"merges in wrong order": changeBPE(func(v *tokenizer.Vocabulary) { slices.Reverse(v.Merges) }),
		"no merges":             changeBPE(func(v *tokenizer.Vocabulary) { v.Merges = nil }),
		"bytes missing": changeBPE(func(v *tokenizer.Vocabulary) {
			v.Tokens = v.Tokens[100:]
			v.Special = tokenizer.NoSpecial
			v.AddBOS = false
		}),
		"wrong order, not cut":  changeBPE(func(v *tokenizer.Vocabulary) { slices.Reverse(v.Merges); v.Pre = tokenizer.PreNone }),
		"no merges and not cut": changeBPE(func(v *tokenizer.Vocabulary) { v.Merges = nil; v.Pre = tokenizer.PreNone }),
		"twice and not cut":     changeBPE(func(v *tokenizer.Vocabulary) { v.Merges = append(v.Merges, v.Merges...); v.Pre = tokenizer.PreNone }),
		"bytes missing, not cut": changeBPE(func(v *tokenizer.Vocabulary) {
			v.Tokens = v.Tokens[100:]
			v.Special = tokenizer.NoSpecial
			v.AddBOS = false
			v.Pre = tokenizer.PreNone
		}),
	} {
		tok, err := tokenizer.New(v)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, text := range append(corpus, "ZZZZ", "\xff", "") {
			tok.Decode(tok.Encode(text, tokenizer.Options{Add: true, Special: true}), tokenizer.DecodeOptions{})
		}
	}
}

// TestLinearTime encodes texts that make careless scanners and mergers
// quadratic: four times the text must not take much more than four times as
// long. It measures the processor time of the thread, to exclude other load.
func TestLinearTime(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: slow")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	toks := map[string]*tokenizer.Tokenizer{"spm": build(t, spm())}
	for _, pre := range []string{tokenizer.PreNone, "default", "gpt-2", "llama-bpe", "tekken", "gpt-4o", "deepseek-llm", "deepseek-v3"} {
		toks[pre] = trained(t, pre)
	}
	for name, tok := range toks {
		for _, unit := range []string{" ", "a", "\n", " \n", "th", "é", "A", "AaA", "'", "<", "<s", "0", "  x", "\u3000", "日A"} {
			measure := func(n int) time.Duration {
				text := strings.Repeat(unit, n/len(unit)) + "x" + strings.Repeat(" ", n/4)
				best := time.Duration(math.MaxInt64)
				for range 3 {
					start := threadTime()
					tok.Encode(text, tokenizer.Options{Special: true})
					best = min(best, threadTime()-start)
				}
				return best
			}
			// A busy machine's caches may slow any one measurement, not all of
			// five.
			for try := 1; ; try++ {
				small, large := measure(40_000), measure(160_000)
				if large <= 10*small || large <= 100*time.Millisecond {
					break
				}
				if try == 5 {
					t.Errorf("%s, %q: %v for 50 kB, %v for 200 kB", name, unit, small, large)
					break
				}
			}
		}
	}
}

func TestConcurrent(t *testing.T) {
	tok := trained(t, "gpt-2")
	want := tok.Encode(strings.Join(corpus, " "), tokenizer.Options{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if got := tok.Encode(strings.Join(corpus, " "), tokenizer.Options{}); !slices.Equal(got, want) {
					t.Error("ids differ between goroutines")
					return
				}
			}
		})
	}
	wg.Wait()
}

// stored returns the tokenizer of a GGUF file with these keys.
func stored(t *testing.T, kvs []gguf.KV) *tokenizer.Tokenizer {
	t.Helper()
	var file bytes.Buffer
	if _, err := gguf.Write(&file, kvs, nil); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestKVs writes tokenizers as GGUF metadata and reads them back.
func TestKVs(t *testing.T) {
	withTemplate := trained(t, "llama-bpe").Vocabulary()
	withTemplate.Template = "{{ messages }}"
	withTemplate.AddEOS = true
	for _, tok := range []*tokenizer.Tokenizer{build(t, spm()), build(t, withTemplate), trained(t, tokenizer.PreNone)} {
		back := stored(t, tok.KVs())
		if diff := cmp.Diff(tok.Vocabulary(), back.Vocabulary()); diff != "" {
			t.Errorf("(- written, + read):\n%.2000s", diff)
		}
		if typ := back.Type(back.ID("<image>")); back.ID("<image>") != tokenizer.None && typ != tokenizer.Control {
			t.Errorf("<image> is of type %d", typ)
		}
	}
}

func TestFromGGUFRefuses(t *testing.T) {
	base := build(t, spm()).KVs()
	for _, c := range []struct {
		want  string
		key   string
		value any
	}{
		{"no vocabulary", gguf.KeyTokenizerModel, "none"},
		{`unsupported tokenizer model "rwkv"`, gguf.KeyTokenizerModel, "rwkv"},
		{"tokenizer.ggml.model: got type u32, want str", gguf.KeyTokenizerModel, uint32(1)},
		{"tokenizer.ggml.tokens: got type arr[u8], want arr[str]", gguf.KeyTokens, []uint8{1}},
		{"score count mismatch: got 1", gguf.KeyScores, []float32{1}},
		{"tokenizer.ggml.scores: got type arr[u8], want arr[f32]", gguf.KeyScores, []uint8{1}},
		{"token type count mismatch: got 2", gguf.KeyTokenTypes, []int32{1, 2}},
		{"tokenizer.ggml.token_type: got type arr[u32], want arr[i32]", gguf.KeyTokenTypes, []uint32{1}},
		{"tokenizer.ggml.bos_token_id: id 4294967295 out of range", gguf.KeyBOS, uint32(math.MaxUint32)},
		{"tokenizer.ggml.bos_token_id: got type i32, want u32", gguf.KeyBOS, int32(1)},
		{"tokenizer.ggml.add_bos_token: got type u8, want bool", gguf.KeyAddBOS, uint8(1)},
		{"no such key: tokenizer.ggml.merges", gguf.KeyTokenizerModel, "gpt2"},
	} {
		var kvs []gguf.KV
		for _, kv := range base {
			if kv.Key == c.key {
				kv.Value = c.value
			}
			kvs = append(kvs, kv)
		}
		var file bytes.Buffer
		if _, err := gguf.Write(&file, kvs, nil); err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Parse(file.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tokenizer.FromGGUF(f); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error is %v, should hold %q", err, c.want)
		}
	}
}

// A padding token beyond the vocabulary is absent: fine-tuned models name one.
func TestPaddingOutOfRange(t *testing.T) {
	kvs := slices.DeleteFunc(build(t, spm()).KVs(), func(kv gguf.KV) bool { return kv.Key == gguf.KeyPadding })
	var file bytes.Buffer
	if _, err := gguf.Write(&file, append(kvs, gguf.KV{Key: gguf.KeyPadding, Value: uint32(32000)}), nil); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	if got := tok.Vocabulary().Special.Padding; got != tokenizer.None {
		t.Errorf("padding is token %d", got)
	}
}

func TestLlama2C(t *testing.T) {
	b, err := os.ReadFile(testfiles.Shared(t, "models", "tok512.bin"))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.FromLlama2C(b, 512)
	if err != nil {
		t.Fatal(err)
	}
	// The ids of llama2.c's run.c.
	ids := tok.Encode("Once upon a time", tokenizer.Options{Add: true})
	if diff := cmp.Diff([]int32{1, 403, 407, 261, 378}, ids); diff != "" {
		t.Error(diff)
	}
	text := "One day, Lily met a Shoggoth — naïve…\n"
	if got := tok.Decode(tok.Encode(text, tokenizer.Options{Add: true}), tokenizer.DecodeOptions{}); got != text {
		t.Errorf("%q", got)
	}
	for n := range len(b) {
		if _, err := tokenizer.FromLlama2C(b[:n], 512); err == nil {
			t.Fatalf("the first %d bytes were accepted", n)
		}
	}
	if _, err := tokenizer.FromLlama2C(b, 511); err == nil || !strings.Contains(err.Error(), "extra bytes after 511 tokens") {
		t.Errorf("too few tokens: %v", err)
	}
	huge := binary.LittleEndian.AppendUint32(nil, math.MaxUint32)
	huge = binary.LittleEndian.AppendUint32(append(huge, 0, 0, 0, 0), math.MaxUint32)
	if _, err := tokenizer.FromLlama2C(append(huge, make([]byte, 64)...), 3); err == nil || !strings.Contains(err.Error(), "token 0: bad length 4294967295") {
		t.Errorf("a huge token: %v", err)
	}
	if _, err := tokenizer.FromLlama2C(b, 1<<40); err == nil || !strings.Contains(err.Error(), "file truncated") {
		t.Errorf("a huge vocabulary: %v", err)
	}
}

// phiAuto writes a vocabulary in phi-auto's format.
func phiAuto(t testing.TB, v tokenizer.Vocabulary) []byte {
	t.Helper()
	ids := make(map[string]int)
	vocab := make(map[string][]int)
	for id, tok := range v.Tokens {
		ids[tok.Text] = id
		raw, _ := tokenizer.FromAlphabet(tok.Text)
		for i := range len(raw) {
			vocab[strconv.Itoa(id)] = append(vocab[strconv.Itoa(id)], int(raw[i]))
		}
	}
	merges := make(map[string]int)
	for _, m := range v.Merges {
		merges[fmt.Sprintf("%d,%d", ids[m.Left], ids[m.Right])] = ids[m.Left+m.Right]
	}
	b, err := json.Marshal(map[string]any{"vocab_size": len(v.Tokens), "merges": merges, "vocab": vocab})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPhiAuto(t *testing.T) {
	v, err := tokenizer.Train(slices.Values(corpus), tokenizer.TrainOptions{VocabSize: 330, Pre: tokenizer.PreNone})
	if err != nil {
		t.Fatal(err)
	}
	file := phiAuto(t, v)
	tok, err := tokenizer.FromPhiAuto(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v, tok.Vocabulary()); diff != "" {
		t.Errorf("(- trained, + read):\n%s", diff)
	}
	for want, bad := range map[string]string{
		"unexpected end":             string(file[:len(file)/2]),
		"want 256 more tokens":       `{"merges":{},"vocab":{}}`,
		"missing or empty token 257": strings.Replace(string(file), `"257":`, `"9257":`, 1),
		"is not a byte":              strings.Replace(string(file), `"200":[200]`, `"200":[256]`, 1),
		"want the byte":              strings.Replace(string(file), `"200":[200]`, `"200":[201]`, 1),
	} {
		if _, err := tokenizer.FromPhiAuto([]byte(bad)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, should hold %q", err, want)
		}
	}
}

func Example() {
	v := tokenizer.Vocabulary{Model: tokenizer.SPM, Special: tokenizer.NoSpecial, SpacePrefix: tokenizer.EveryPrefix}
	for i, text := range []string{"▁hello", "▁wor", "ld", "h", "e", "l", "o", "w", "r", "d", "▁", "▁w", "or", "ll", "he", "hell", "hello", "wor"} {
		v.Tokens = append(v.Tokens, tokenizer.Token{Text: text, Score: -float32(i)})
	}
	tok, err := tokenizer.New(v)
	if err != nil {
		fmt.Println(err)
		return
	}
	ids := tok.Encode("hello world", tokenizer.Options{})
	fmt.Println(ids)
	d := tok.Decoder(tokenizer.DecodeOptions{})
	for _, id := range ids {
		fmt.Printf("%q\n", d.Next(id))
	}
	// Output:
	// [0 1 2]
	// "hello"
	// " wor"
	// "ld"
}

// Special tokens do not cover literal bytes, which do not split.
func TestLiteral(t *testing.T) {
	tok := trained(t, "gpt-2")
	const text = "a<s>b</s><s>c"
	id := tok.ID
	plain := tok.Encode("a<s>b", tokenizer.Options{})
	for _, c := range []struct {
		literal []int
		want    []int32
	}{
		{nil, slices.Concat(tok.Encode("a", tokenizer.Options{}), []int32{id("<s>")}, tok.Encode("b", tokenizer.Options{}), []int32{id("</s>"), id("<s>")}, tok.Encode("c", tokenizer.Options{}))},
		{[]int{1}, slices.Concat(plain, []int32{id("</s>"), id("<s>")}, tok.Encode("c", tokenizer.Options{}))},
		{[]int{3}, slices.Concat(plain, []int32{id("</s>"), id("<s>")}, tok.Encode("c", tokenizer.Options{}))},
		{[]int{0, 4}, slices.Concat(tok.Encode("a", tokenizer.Options{}), []int32{id("<s>")}, tok.Encode("b", tokenizer.Options{}), []int32{id("</s>"), id("<s>")}, tok.Encode("c", tokenizer.Options{}))},
		{[]int{1, 5, 9}, tok.Encode(text, tokenizer.Options{})},
		{[]int{2, 6}, slices.Concat(tok.Encode("a<s>b</s>", tokenizer.Options{}), []int32{id("<s>")}, tok.Encode("c", tokenizer.Options{}))},
		{[]int{12}, slices.Concat(tok.Encode("a", tokenizer.Options{}), []int32{id("<s>")}, tok.Encode("b", tokenizer.Options{}), []int32{id("</s>"), id("<s>")}, tok.Encode("c", tokenizer.Options{}))},
	} {
		if d := cmp.Diff(c.want, tok.Encode(text, tokenizer.Options{Special: true, Literal: c.literal})); d != "" {
			t.Errorf("%v (-want +got)\n%s", c.literal, d)
		}
	}
}
