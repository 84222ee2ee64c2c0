package tokenizer

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/internal/testfiles"
)

// naive trains by recounting every pair for every merge, on slices of ids.
func naive(docs []string, opt TrainOptions) []Merge {
	var list [][]int32
	rule, _ := findPretokenizer(opt.Pre)
	for _, doc := range docs {
		rule.Split(doc, func(w string) {
			ids := make([]int32, len(w))
			for i := range len(w) {
				ids[i] = int32(w[i])
			}
			list = append(list, ids)
		})
	}
	var texts []string
	for b := range 256 {
		texts = append(texts, string([]byte{byte(b)}))
	}
	var merges []Merge
	seen := make(map[[2]int32]bool)
	for len(texts) < opt.VocabSize-len(opt.Control) {
		counts := make(map[[2]int32]int)
		for _, ids := range list {
			for i := 0; i+1 < len(ids); i++ {
				counts[[2]int32{ids[i], ids[i+1]}]++
			}
		}
		best, n := [2]int32{}, opt.MinCount-1
		for p, c := range counts {
			if c > n || c == n && n >= opt.MinCount && slices.Compare(p[:], best[:]) < 0 {
				best, n = p, c
			}
		}
		if n < opt.MinCount {
			break
		}
		union := int32(slices.Index(texts, texts[best[0]]+texts[best[1]]))
		if union < 0 {
			union = int32(len(texts))
			texts = append(texts, texts[best[0]]+texts[best[1]])
		}
		if !seen[best] {
			seen[best] = true
			merges = append(merges, Merge{Left: ToAlphabet(texts[best[0]]), Right: ToAlphabet(texts[best[1]])})
		}
		for w, ids := range list {
			out := ids[:0]
			for i := 0; i < len(ids); i++ {
				if i+1 < len(ids) && ids[i] == best[0] && ids[i+1] == best[1] {
					out = append(out, union)
					i++
				} else {
					out = append(out, ids[i])
				}
			}
			list[w] = out
		}
	}
	return merges
}

// TestExact compares with recounting, on text of few letters with many runs,
// overlaps, ties and equal unions, and on language.
func TestExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for trial := range 60 {
		letters := "ab cd\n"[:2+rng.IntN(5)]
		var docs []string
		for range 1 + rng.IntN(12) {
			var b strings.Builder
			for range rng.IntN(120) {
				b.WriteByte(letters[rng.IntN(len(letters))])
			}
			docs = append(docs, b.String())
		}
		opt := TrainOptions{VocabSize: 256 + rng.IntN(60), Pre: []string{PreNone, "gpt-2", "llama-bpe"}[trial%3], MinCount: 1 + rng.IntN(3)}
		check(t, docs, opt)
	}
	prose := strings.Repeat("the cat sat on the mat, that cat; the rat sat there too. ", 3)
	check(t, []string{prose, "Ένα δύο τρία δύο ένα", "日本語 日本"}, TrainOptions{VocabSize: 330, Pre: "gpt-2", MinCount: 2, Control: []string{"<s>"}})
}

func check(t *testing.T, docs []string, opt TrainOptions) {
	t.Helper()
	v, err := Train(slices.Values(docs), opt)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(naive(docs, opt), v.Merges); diff != "" {
		t.Fatalf("%+v %q (- recounted, + trained):\n%s", opt, docs, diff)
	}
	tok, err := New(v)
	if err != nil {
		t.Fatalf("%+v %q: %v", opt, docs, err)
	}
	for _, doc := range docs {
		ids := tok.Encode(doc, Options{})
		if back := tok.Decode(ids, DecodeOptions{}); back != doc {
			t.Fatalf("%q decodes to %q", doc, back)
		}
	}
}

func TestTrain(t *testing.T) {
	docs := slices.Values([]string{"low lower lowest", "new newer newest", "wide wider widest"})
	opt := TrainOptions{VocabSize: 270, Control: []string{"<s>", "</s>", "<image>"}, BOS: "<s>", EOS: "</s>", AddEOS: true}
	v, err := Train(docs, opt)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Train(docs, opt)
	if err != nil || !cmp.Equal(v, again) {
		t.Errorf("the same text gave a different vocabulary (%v)", err)
	}
	tok, err := New(v)
	if err != nil {
		t.Fatal(err)
	}
	if tok.Size() != 270 || tok.ID("<image>") != 2 || tok.Piece(3+'a') != "a" {
		t.Errorf("%d tokens, <image> is %d, token %d is %q", tok.Size(), tok.ID("<image>"), 3+'a', tok.Piece(3+'a'))
	}
	got := tok.Encode("low<image>", Options{Add: true, Special: true})
	if got[0] != 0 || got[len(got)-1] != 1 || got[len(got)-2] != 2 {
		t.Errorf("low<image> is %v", got)
	}
	// By default a control token's text is text.
	if plain := tok.Encode("<image>", Options{}); slices.Contains(plain, 2) {
		t.Errorf("plain text became a control token: %v", plain)
	}
	long, err := Train(slices.Values([]string{strings.Repeat("abcdefgh", 50)}), TrainOptions{VocabSize: 400, Pre: PreNone, MaxTokenBytes: 4})
	if err != nil {
		t.Fatal(err)
	}
	for _, tok := range long.Tokens {
		if len(tok.Text) > 4 && len([]rune(tok.Text)) > 4 {
			t.Errorf("token %q is longer than 4 bytes", tok.Text)
		}
	}
}

func TestTrainRefuses(t *testing.T) {
	for want, opt := range map[string]TrainOptions{
		"256 bytes and 1 control tokens": {VocabSize: 256, Control: []string{"<s>"}},
		"limit 4194304":                  {VocabSize: 1 << 30},
		"MinCount -1":                    {VocabSize: 300, MinCount: -1},
		`pre-tokenizer "no"`:             {VocabSize: 300, Pre: "no"},
		`BOS "<s>" or EOS "" is not`:     {VocabSize: 300, BOS: "<s>"},
	} {
		if _, err := Train(slices.Values([]string{"text"}), opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error is %v, should hold %q", opt, err, want)
		}
	}
}

// stories returns the documents of the sample, in phi-auto's order.
func stories(t testing.TB) (docs []string, bytes int64) {
	t.Helper()
	b, err := os.ReadFile(testfiles.Shared(t, "tinystories", "tinystories_sample.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range strings.Split(string(b), "<|endoftext|>") {
		doc = strings.Join(strings.FieldsFunc(doc, func(r rune) bool { return r == '\n' }), " ")
		if len(doc) > 50 && len(doc) < 2000 {
			docs = append(docs, doc)
			bytes += int64(len(doc))
		}
	}
	return docs, bytes
}

// BenchmarkTrain trains 1,024 tokens on the stories.
func BenchmarkTrain(b *testing.B) {
	docs, size := stories(b)
	for _, pre := range []string{PreNone, "gpt-2", "llama-bpe"} {
		b.Run(pre, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				if _, err := Train(slices.Values(docs), TrainOptions{VocabSize: 1024, Pre: pre}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEncodeTrained encodes each story with the vocabulary trained on
// them.
func BenchmarkEncodeTrained(b *testing.B) {
	docs, size := stories(b)
	for _, pre := range []string{PreNone, "gpt-2", "llama-bpe"} {
		b.Run(pre, func(b *testing.B) {
			v, err := Train(slices.Values(docs), TrainOptions{VocabSize: 1024, Pre: pre})
			if err != nil {
				b.Fatal(err)
			}
			tok, err := New(v)
			if err != nil {
				b.Fatal(err)
			}
			var ids []int32
			n := 0
			b.SetBytes(size)
			for b.Loop() {
				n = 0
				for _, doc := range docs {
					ids = tok.Append(ids[:0], doc, Options{})
					n += len(ids)
				}
			}
			b.ReportMetric(float64(size)/float64(n), "bytes/token")
		})
	}
}

func ExampleTrain() {
	docs := slices.Values([]string{"she sells sea shells", "the shells she sells"})
	vocab, err := Train(docs, TrainOptions{VocabSize: 262, Pre: "gpt-2"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range vocab.Merges {
		fmt.Println(m.Left, m.Right)
	}
	// Output:
	// Ġ s
	// h e
	// l l
	// ll s
	// Ġs e
	// Ġs he
}
