package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

func split(t testing.TB, name, text string) []string {
	t.Helper()
	r, ok := findPretokenizer(name)
	if !ok {
		t.Fatalf("no rule %q", name)
	}
	var out []string
	r.Split(text, func(w string) { out = append(out, w) })
	return out
}

func TestSplit(t *testing.T) {
	const text = "I'll pay  $1234.50,\n\n\tDON'T  ask"
	for name, want := range map[string][]string{
		"gpt-2":          {"I", "'ll", " pay", " ", " $", "1234", ".", "50", ",", "\n\n", "\t", "DON", "'", "T", " ", " ask"},
		"smollm":         {"I", "'ll", " pay", " ", " $", "1", "2", "3", "4", ".", "5", "0", ",", "\n\n", "\t", "DON", "'", "T", " ", " ask"},
		"llama-bpe":      {"I", "'ll", " pay", " ", " $", "123", "4", ".", "50", ",\n\n", "\tDON", "'T", " ", " ask"},
		"qwen2":          {"I", "'ll", " pay", " ", " $", "1", "2", "3", "4", ".", "5", "0", ",\n\n", "\tDON", "'T", " ", " ask"},
		"tekken":         {"I", "'ll", " pay", " ", " $", "1", "2", "3", "4", ".", "5", "0", ",\n\n", "\tDON", "'T", " ", " ask"},
		"gpt-4o":         {"I'll", " pay", " ", " $", "123", "4", ".", "50", ",\n\n", "\tDON'T", " ", " ask"},
		"falcon":         {"I", "'", "ll", " pay", "  ", "$", "123", "4", ".", "50", ",", "\n\n", "\t", "DON", "'", "T", " ", " ask"},
		"deepseek-coder": {"I", "'", "ll", " pay", "  $", "1", "2", "3", "4", ".", "5", "0", ",", "\n", "\n", "\tDON", "'", "T", " ", " ask"},
		"gemma4":         {"I'll pay  $1234.50,", "\n\n", "\tDON'T  ask"},
		"bailingmoe":     {"I", "'ll", " pay", " ", " $", "1", "2", "3", "4", ".", "5", "0", ",\n\n", "\tDON", "'T", " ", " ask"},
		"laguna":         {"I", "'ll", " pay", " ", " $", "1", "2", "3", "4", ".", "5", "0", ",", "\n\n", "\tDON", "'T", " ", " ask"},
		"seed-coder":     {"I", "'ll", " pay", " ", " $", "1", "2", "3", "4", ".", "5", "0", ",", "\n\n", "\tDON", "'T", " ", " ask"},
		"ufakzeka":       {"I", "'ll", " pay", " ", " $", "1", "2", "3", "4", ".", "5", "0", ",\n\n", "\tDON", "'T", " ", " ask"},
		"minicpm5":       {"I", "'ll", " pay", " ", " $", "123", "4", ".", "50", ",\n\n", "\tDON", "'T", " ", " ask"},
		"bloom":          {"I'll", " pay", " ", " $1234", ".", "50", ",\n\n\t", "DON'T", " ", " ask"},
		"viking":         {"I'll", " pay", " ", " $", "1", "2", "3", "4", ".", "5", "0", ",\n\n\t", "DON'T", " ", " ask"},
		preCLIP:          {"I", "'ll", "pay", "$", "1", "2", "3", "4", ".", "5", "0", ",", "DON", "'", "T", "ask"},
		preMetaspace:     {"I'll", " pay", " ", " $1234.50,\n\n\tDON'T", " ", " ask"},
		PreNone:          {text},
	} {
		if diff := cmp.Diff(want, split(t, name, text)); diff != "" {
			t.Errorf("%s (- want, + got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff([]string{"we", "'refined", " a", "'llama"}, split(t, "ufakzeka", "we'refined a'llama")); diff != "" {
		t.Errorf("words without contractions (- want, + got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"GPTModel字", "ABCñandú", "É"}, split(t, "tekken", "GPTModel字ABCñandúÉ")); diff != "" {
		t.Errorf("words that change case (- want, + got):\n%s", diff)
	}
}

// TestLossless checks that every pre-tokenizer returns the text, whatever it
// is, in nonempty words.
func TestLossless(t *testing.T) {
	for _, text := range []string{"", " ", "a", "\n", "é\xff\xfe x", strings.Repeat(" \n", 9), "'", "'s", "日本 語\u3000！", "\u0301x\U0010ffff"} {
		for name := range pretokenizers() {
			got := split(t, name, text)
			if strings.Join(got, "") != kept(name, text) || slices.Contains(got, "") {
				t.Errorf("%s: %q becomes %q", name, text, got)
			}
		}
	}
}

// kept returns the part of a text that a pre-tokenizer does not drop.
func kept(name, text string) string {
	if name != preCLIP {
		return text
	}
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.Is(unicode.White_Space, r) }), "")
}

// TestClasses compares the table of classes with package unicode.
func TestClasses(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r >= 0xd800 && r < 0xe000 {
			continue
		}
		c, n := at(string(r), 0)
		if n != len(string(r)) || (c&letter != 0) != unicode.IsLetter(r) || (c&number != 0) != unicode.IsNumber(r) ||
			(c&space != 0) != unicode.Is(unicode.White_Space, r) || (c&punct != 0) != unicode.IsPunct(r) || (c&mark != 0) != unicode.IsMark(r) {
			t.Fatalf("%U has the class %b and %d bytes", r, c, n)
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("I'll pay  $1234.50,\n\n\tDON'T  ask 日本 \xff")
	f.Fuzz(func(t *testing.T, text string) {
		for name := range pretokenizers() {
			if got := split(t, name, text); strings.Join(got, "") != kept(name, text) || slices.Contains(got, "") {
				t.Errorf("%s: %q becomes %q", name, text, got)
			}
		}
	})
}

func BenchmarkSplit(b *testing.B) {
	text := strings.Repeat("Once upon a time, there was a little girl named Lily. ", 1000)
	for _, name := range []string{"gpt-2", "llama-bpe", "qwen2", "gpt-4o"} {
		b.Run(name, func(b *testing.B) {
			r, _ := findPretokenizer(name)
			b.SetBytes(int64(len(text)))
			n := 0
			for b.Loop() {
				r.Split(text, func(w string) { n += len(w) })
			}
		})
	}
}

func Example() {
	r, _ := findPretokenizer("llama-bpe")
	r.Split("It's 12345 o'clock.\n", func(w string) { fmt.Printf("%q ", w) })
	// Output: "It" "'s" " " "123" "45" " o" "'clock" ".\n"
}
