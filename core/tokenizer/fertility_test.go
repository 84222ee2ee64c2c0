package tokenizer_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"mm-abi.org/mm/core/tokenizer"
)

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRead(t *testing.T) {
	got, err := tokenizer.ReadText(write(t, "a.xml", `<udhr iso639-3="deu" n="German" xmlns="http://efele.net/udhr"><title>A &amp; u`+"\u0308"+`</title><para> b </para></udhr>`))
	if err != nil || got.Language != "deu" || got.Name != "German" || got.Text != "A & ü\nb\n" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = tokenizer.ReadText(write(t, "a.txt", "plain <b>")); err != nil || got.Text != "plain <b>" || got.Language != "" {
		t.Errorf("%+v, %v", got, err)
	}
	for name, text := range map[string]string{
		"bomb.xml":   `<!DOCTYPE a [<!ENTITY b "x">]><a>&b;</a>`,
		"deep.xml":   strings.Repeat("<a>", 65) + "x" + strings.Repeat("</a>", 65),
		"open.xml":   "<a>x",
		"empty.xml":  "<a> </a>",
		"latin.xml":  `<?xml version="1.0" encoding="ISO-8859-1"?><a>x</a>`,
		"bytes.txt":  "a\xff",
		"empty.txt":  "\n",
		"broken.xml": "<a>\xff</a>",
	} {
		if got, err := tokenizer.ReadText(write(t, name, text)); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	large := write(t, "large.txt", "")
	if err := os.Truncate(large, tokenizer.MaxFertilityFile+1); err != nil {
		t.Fatal(err)
	}
	if _, err := tokenizer.ReadText(large); err == nil {
		t.Error("a file over the limit was read")
	}
	if _, err := tokenizer.ReadText(t.TempDir()); err == nil {
		t.Error("a folder was read")
	}
}

func TestMeasure(t *testing.T) {
	for text, want := range map[string][3]int{ // words, characters, bytes
		"the cat's 2 hats": {5, 13, 16},
		"人人生而自由，":          {6, 7, 21},
		"हिन्दी में":       {2, 9, 28},
		"모든 사람은":           {2, 5, 16},
		"カタカナ and ひらがな":    {9, 11, 29},
		"...":              {1, 3, 3},
	} {
		f := tokenizer.MeasureFertility(text, utf8.RuneCountInString)
		if got := [3]int{f.Words, f.Characters, f.Bytes}; got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
		if f.Tokens != utf8.RuneCountInString(text) || f.PerWord != float64(f.Tokens)/float64(f.Words) || f.PerByte != float64(f.Tokens)/float64(f.Bytes) {
			t.Errorf("%q: %+v", text, f)
		}
		if chinese := strings.ContainsAny(text, "人カ"); f.ByChar != chinese {
			t.Errorf("%q: by character: %v", text, f.ByChar)
		}
	}
}

// A ratio equal to the threshold is not high.
func TestCompare(t *testing.T) {
	base := tokenizer.Fertility{Tokens: 100, PerWord: 1.25}
	if r := tokenizer.CompareFertility(tokenizer.Fertility{Tokens: 250, PerWord: 2.5}, base); r.High || r.Parallel != 2.5 || r.Word != 2 {
		t.Errorf("%+v", r)
	}
	if r := tokenizer.CompareFertility(tokenizer.Fertility{Tokens: 251}, base); !r.High {
		t.Errorf("%+v", r)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`<udhr iso639-3="eng"><title>x</title></udhr>`)
	f.Add(`<!DOCTYPE a [<!ENTITY b "x">]><a>&b;</a>`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := tokenizer.ReadText(write(t, "f.xml", text))
		if err != nil {
			return
		}
		if n := tokenizer.MeasureFertility(got.Text, utf8.RuneCountInString); n.Words < 1 || n.Characters < 1 || !utf8.ValidString(got.Text) {
			t.Fatalf("%+v of %q", n, text)
		}
	})
}
