package score

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/tokenizer"
)

func TestCut(t *testing.T) {
	ids := []int32{10, 11, 12, 13, 14}
	for _, c := range []struct {
		name string
		bos  int32
		n    int
		size int
		want []Window
	}{
		{"one token", tokenizer.None, 1, 2, nil},
		{"none", 7, 0, 2, nil},
		{"one window", tokenizer.None, 5, 4, []Window{{[]int32{10, 11, 12, 13}, 14}}},
		{"larger", tokenizer.None, 5, 9, []Window{{[]int32{10, 11, 12, 13}, 14}}},
		{"in twos", tokenizer.None, 5, 2, []Window{{[]int32{10, 11}, 12}, {[]int32{12, 13}, 14}}},
		{"rest", tokenizer.None, 5, 3, []Window{{[]int32{10, 11, 12}, 13}, {[]int32{13}, 14}}},
		{"begun", 7, 5, 3, []Window{{[]int32{7, 10, 11}, 12}, {[]int32{7, 13}, 14}}},
	} {
		if d := cmp.Diff(c.want, cut(ids[:c.n], c.size, c.bos)); d != "" {
			t.Errorf("%s (-want +got)\n%s", c.name, d)
		}
	}
}

// TestText compares two documents with a computation of one token at a time.
func TestText(t *testing.T) {
	m, tok := core(t, 1)
	docs := []string{"Once upon a time there was a little dog who liked to run in the park.", "The cat sat."}
	got, err := Text(t.Context(), m, tok, strings.Join(docs, "|"), Options{Window: 7, Separator: "|", KV: "f32"})
	if err != nil {
		t.Fatal(err)
	}
	var want Evaluation
	var sum float64
	s, err := m.NewSession(infer.SessionOptions{Context: 8, KV: "f32"})
	if err != nil {
		t.Fatal(err)
	}
	bos := tok.Vocabulary().Special.BOS // which the core's texts begin with
	for _, doc := range docs {
		before := bos
		for i, id := range tok.Encode(doc, tokenizer.Options{}) {
			if i%7 == 0 {
				s.Truncate(0)
				before = bos
			}
			if err := s.Feed(t.Context(), []int32{before}); err != nil {
				t.Fatal(err)
			}
			before = id
			var all float64
			for _, v := range s.Logits() {
				all += math.Exp(float64(v))
			}
			sum += math.Log(all) - float64(s.Logits()[id])
			want.Predictions++
			want.Bytes += len(tok.Piece(id))
		}
	}
	want.Loss = sum / float64(want.Predictions)
	want.BitsPerByte = sum / math.Ln2 / float64(want.Bytes)
	if got.Predictions != want.Predictions || got.Bytes != want.Bytes ||
		math.Abs(got.Loss-want.Loss) > 1e-5 || math.Abs(got.BitsPerByte-want.BitsPerByte) > 1e-5 {
		t.Errorf("got %+v, want %+v", got, want)
	}
	limited, err := Text(t.Context(), m, tok, strings.Join(docs, "|"), Options{Window: 7, Separator: "|", Limit: 1})
	if err != nil || limited.Predictions != 7 {
		t.Errorf("one window: %+v, %v", limited, err)
	}
}

func TestTextRefuses(t *testing.T) {
	m, tok := core(t, 1)
	for name, c := range map[string]struct {
		text string
		opt  Options
	}{
		"empty":      {"", Options{}},
		"no windows": {"a text of words", Options{Window: -1}},
		"too wide":   {"a text of words", Options{Window: m.Config().Context + 1}},
		"cache":      {"a text of words", Options{KV: "q3"}},
	} {
		if e, err := Text(t.Context(), m, tok, c.text, c.opt); err == nil {
			t.Errorf("%s: %+v", name, e)
		}
	}
}
