package dataset

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/chat"
	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/core/tokenizer"
)

// doc returns a document from a text in which [ and ] enclose context.
func doc(t testing.TB, text string) Document {
	t.Helper()
	d, err := cut(text, "[", "]")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestCut(t *testing.T) {
	for text, want := range map[string]Document{
		"plain":        {Text: "plain"},
		"[a]b[cd]":     {"abcd", []Span{{0, 1}, {2, 4}}},
		"x[ab][c]y":    {"xabcy", []Span{{1, 4}}}, // adjacent spans are joined
		"x[]y":         {Text: "xy"},
		"[everything]": {"everything", []Span{{0, 10}}},
	} {
		if d := cmp.Diff(want, doc(t, text)); d != "" {
			t.Errorf("%s: %s", text, d)
		}
	}
	for _, bad := range []string{"[", "]", "a]b", "[[a]]", "[a", "[a]]", "[a[b]c]"} {
		if d, err := cut(bad, "[", "]"); err == nil {
			t.Errorf("%s: %+v", bad, d)
		}
	}
}

func TestTrim(t *testing.T) {
	for text, want := range map[string]Document{
		" [ a] b ":          {"a b", []Span{{0, 1}}},
		"[  ]a[ \n]":        {Text: "a"},
		"a\u00a0[b \u3000]": {"a\u00a0b", []Span{{3, 4}}},
		"[ \t]":             {},
	} {
		d := doc(t, text)
		d.trim()
		if len(d.Context) == 0 {
			d.Context = nil
		}
		if diff := cmp.Diff(want, d); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
		if plain := doc(t, text).Text; strings.TrimSpace(plain) != d.Text {
			t.Errorf("trimmed %q to %q", plain, d.Text)
		}
	}
}

// Marks survive the joining of lines and do not count as length.
func TestReadContext(t *testing.T) {
	text := "<|given|>How\n much?<|/given|>\n two \n<|endoftext|>tiny<|endoftext|>"
	got, err := Collect(ReadText(strings.NewReader(text), "", Filter{JoinLines: true, MinChars: 5, MaxChars: 13}))
	if d := cmp.Diff([]Document{{"How much? two", []Span{{0, 9}}}}, got); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
	if _, err := Collect(ReadText(strings.NewReader("a<|endoftext|>b<|given|>c"), "", Filter{})); err == nil || !strings.Contains(err.Error(), "document 2") {
		t.Errorf("open mark: %v", err)
	}
	f := Filter{Keys: []string{"q", "a"}, Context: []string{"q"}}
	got, err = Collect(ReadJSONL(strings.NewReader(`{"q":" 1+1 <|given|>?","a":"2"}`), f))
	if d := cmp.Diff([]Document{{"1+1 <|given|>?\n2", []Span{{0, 14}}}}, got); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
	if _, err := Collect(ReadJSONL(strings.NewReader(`{"q":"\ufdd1","a":"2"}`), f)); err == nil || !strings.Contains(err.Error(), "U+FDD") {
		t.Errorf("mark in a field: %v", err)
	}
}

const turns = `{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls %}{{ c.function.name }}({{ c.function.arguments.x }}){% endfor %}</>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}`

// The assistant's messages are learned, including calls; the rest is context.
func TestReadChat(t *testing.T) {
	template, err := chat.Parse(turns)
	if err != nil {
		t.Fatal(err)
	}
	read := func(line string) ([]Document, error) {
		return Collect(ReadChat(strings.NewReader(line), template, chat.Options{}, Filter{}))
	}
	got, err := read(`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"1","function":{"name":"add","arguments":"{\"x\":7}"}}]},{"role":"tool","content":"9","tool_call_id":"1"},{"role":"assistant","content":"nine"},{"role":"user","content":"bye"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	want := doc(t, "[<user>hi</><assistant>]add(7)</>[<tool>9</><assistant>]nine</>")
	if d := cmp.Diff([]Document{want}, got); d != "" {
		t.Error(d)
	}
	for line, say := range map[string]string{
		`{"messages":[{"role":"user","content":"hi"}]}`: "assistant", `{"messages":[]}`: "assistant", `{"messages":5}`: "line 1", `{`: "line 1",
	} {
		if _, err := read(line); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: %v", line, err)
		}
	}
	shifty, err := chat.Parse(`{{ messages|length }}{% for m in messages %}{{ m.content }}{% endfor %}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Collect(ReadChat(strings.NewReader(`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`), shifty, chat.Options{}, Filter{})); err == nil || !strings.Contains(err.Error(), "message 2") {
		t.Errorf("template that changes earlier text: %v", err)
	}
	for _, n := range []string{"1", "2"} { // of the prompt, and of the answer
		failing, err := chat.Parse(`{% if messages|length == ` + n + ` %}{{ raise_exception("refused") }}{% endif %}`)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Collect(ReadChat(strings.NewReader(`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`), failing, chat.Options{}, Filter{})); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("template that fails on %s messages: %v", n, err)
		}
	}
}

func FuzzReadChat(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":" x "}]}`))
	f.Add([]byte(`{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{"}}]}],"tools":[1]}`))
	template, err := chat.Parse(turns)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		docs, err := Collect(ReadChat(strings.NewReader(string(b)), template, chat.Options{}, Filter{}))
		if err != nil {
			return
		}
		for _, d := range docs {
			sound(t, d)
		}
	})
}

func FuzzContext(f *testing.F) {
	f.Add(" <|given|> a<|/given|>b ", true)
	f.Add("<|given|><|/given|><|endoftext|>x<|/given|>", false)
	f.Fuzz(func(t *testing.T, text string, join bool) {
		docs, err := Collect(ReadText(strings.NewReader(text), "", Filter{JoinLines: join}))
		if err != nil {
			return
		}
		for _, d := range docs {
			sound(t, d)
		}
	})
}

// sound fails on spans that are out of order, empty, or outside the text.
func sound(t *testing.T, d Document) {
	t.Helper()
	at := 0
	for _, s := range d.Context {
		if s.From < at || s.To <= s.From || s.To > len(d.Text) {
			t.Fatalf("%q: context %v", d.Text, d.Context)
		}
		at = s.To
	}
	all := ""
	for part := range d.parts() {
		all += part
	}
	if all != d.Text {
		t.Fatalf("parts of %q: %q", d.Text, all)
	}
}

// The digest depends on context and is unchanged without it.
func TestDigestOfContext(t *testing.T) {
	seen := map[string]string{}
	for name, docs := range map[string][]Document{
		"none": plain("ab", "c"), "first": {doc(t, "[a]b"), {Text: "c"}}, "second": {doc(t, "a[b]"), {Text: "c"}},
		"both": {doc(t, "[ab]"), {Text: "c"}}, "other": {{Text: "ab"}, doc(t, "[c]")}, "one": plain("abc"),
	} {
		sum := fmt.Sprintf("%x", Digest(docs))
		if seen[sum] != "" {
			t.Errorf("equal digests of %s and %s", name, seen[sum])
		}
		seen[sum] = name
	}
	if got := fmt.Sprintf("%.8x", Digest(plain("ab", "c"))); got != goldenDigest {
		t.Errorf("digest of plain documents changed to %s: earlier runs cannot be resumed", got)
	}
}

const goldenDigest = "43ee655579de01ca"

// bosTokens is a tokenizer of bytes with BOS and EOS.
func bosTokens(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	v, err := tokenizer.Train(func(yield func(string) bool) {}, tokenizer.TrainOptions{VocabSize: 259, Control: []string{"<s>", "</s>", "<e>"}, BOS: "<s>", EOS: "</s>"})
	if err != nil {
		t.Fatal(err)
	}
	v.AddBOS = true
	tok, err := tokenizer.New(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// targets returns the target of every position of the documents in one window
// as text: · for none, $ for EOS.
func targets(t testing.TB, tok *tokenizer.Tokenizer, special bool, docs ...Document) string {
	t.Helper()
	tokens, err := Encode(docs, tok, EncodeOptions{Special: special})
	if err != nil {
		t.Fatal(err)
	}
	b := NewBatch(1, tokens.Len())
	b.window(0, tokens, 0)
	var all strings.Builder
	for _, v := range b.Targets {
		switch {
		case v < 0:
			all.WriteString("·")
		case v == tok.Special().EOS:
			all.WriteString("$")
		default:
			all.WriteString(tok.Piece(v))
		}
	}
	return all.String()
}

// A context token is not a target. EOS is, before context, unless the model has
// not written yet or has ended its turn; a document that ends with context has
// no final EOS.
func TestTargets(t *testing.T) {
	tok := bosTokens(t)
	for text, want := range map[string]string{
		"abc":        "abc$·",
		"[ab]c":      "··c$·",
		"a[bc]d":     "a$·d$·",
		"[a]b[c]":    "·b$··",
		"a[b]c[d]e":  "a$c$e$·",
		"[abc]":      "·····",
		"ab[c]d[ef]": "ab$d$···",
	} {
		if got := targets(t, tok, false, doc(t, text)); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	if got := targets(t, tok, false, doc(t, "a[b]"), doc(t, "[c]d")); got != "a$···d$·" {
		t.Errorf("two documents: %s", got)
	}
	if got := targets(t, tok, true, doc(t, "a</s>[b]c")); got != "a$·c$·" {
		t.Errorf("turn with EOS: %s", got)
	}
}

// A window has the targets of the entire text at any position.
func TestWindowsOfContext(t *testing.T) {
	tok := bosTokens(t)
	tokens, err := Encode([]Document{doc(t, "ab[cd]e[f]"), doc(t, "[gh]ij[k]l"), {Text: "mno"}}, tok, EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n := tokens.Len()
	full := NewBatch(1, n)
	full.window(0, tokens, 0)
	for T := 1; T < n; T++ {
		b := NewBatch(1, T)
		for at := 0; at+T < n; at++ {
			b.window(0, tokens, at)
			if d := cmp.Diff(full.Targets[at:at+T], b.Targets); d != "" {
				t.Fatalf("window of %d at %d: %s", T, at, d)
			}
		}
	}
}

// The n-gram baselines have exactly the targets of a model.
func TestNGramsSkipContext(t *testing.T) {
	tok := bosTokens(t)
	docs := []Document{doc(t, "ab[cd]e[f]"), doc(t, "[gh]ij[k]l"), {Text: "mno"}}
	tokens, err := Encode(docs, tok, EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	b := NewBatch(1, tokens.Len())
	b.window(0, tokens, 0)
	var wants []int32
	for _, v := range b.Targets {
		if v >= 0 {
			want++
			wants = append(wants, v)
		}
	}
	var got []int32
	for g := range grams(tokens, 0, tokens.Len()) {
		got = append(got, g.word)
	}
	if d := cmp.Diff(wants, got); d != "" {
		t.Error(d)
	}
	base, err := NGrams(tokens, tokens, 259)
	if err != nil || base.Predictions != want {
		t.Errorf("%d predictions, want %d: %v", base.Predictions, want, err)
	}
}

// Context spans are cached; a damaged cache is rewritten.
func TestCacheContext(t *testing.T) {
	dir := t.TempDir()
	tok := bosTokens(t)
	docs := []Document{doc(t, "ab[cd]e[f]"), doc(t, "[gh]ij[k]l")}
	first, err := Cache(dir, docs, tok, EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := Cache(dir, docs, tok, EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.file == nil || !cmp.Equal(first.context, again.context, cmp.AllowUnexported(contextTokens{})) || len(again.context) != 4 {
		t.Errorf("%+v, from the cache %+v", first.context, again.context)
	}
	if _, err := Cache(dir, plain("abcdef", "ghijkl"), tok, EncodeOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := len(files(t, dir)); n != 2 {
		t.Errorf("%d files: context does not change the cache key", n)
	}
	for name, spans := range map[string][]int64{
		"backward": {4, 2, -1}, "beyond": {1, 1 << 40, -1}, "overlap": {1, 4, 1, 3, 5, 1}, "negative": {-1, 2, -1}, "end": {1, 2, 1 << 33}, "below": {1, 2, -2}, "first": {0, 1, 1},
	} {
		var b []byte
		for _, v := range spans {
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		}
		x := &Tokens{ids: make([]byte, 40), width: 2}
		if err := x.readContext(safetensors.Tensor{DType: safetensors.I64, Data: b}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	x := &Tokens{ids: make([]byte, 40), width: 2, context: []contextTokens{{1, 2, 300}}}
	if x.Check(300) == nil || x.Check(301) != nil {
		t.Error("accepted an end token outside the vocabulary")
	}
}
