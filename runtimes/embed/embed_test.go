package embed_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/embed"
)

const vocabulary = `{"added_tokens":[{"id":0,"content":"[PAD]","special":true},{"id":2,"content":"[CLS]","special":true},{"id":3,"content":"[SEP]","special":true}],
"normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":{"type":"BertProcessing","sep":["[SEP]",3],"cls":["[CLS]",2]},
"model":{"type":"WordPiece","unk_token":"[UNK]","vocab":{"[PAD]":0,"[UNK]":1,"[CLS]":2,"[SEP]":3,"a":4,"b":5,"c":6,"q":7}}}`

// sums is a function whose output is the sum of the ids of each text and that of its
// segments, and notes the shapes of its calls.
type sums struct {
	output string
	size   int
	calls  [][]int64
	bad    func(*runtimes.Tensor)
}

func (s *sums) Run(_ context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	ids, mask, types := in[modules.TextIDs], in[modules.TextMask], in[modules.TextSegments]
	s.calls = append(s.calls, ids.Shape)
	at := func(t runtimes.Tensor, i int64) int64 {
		if t.Data == nil {
			return 0
		}
		return int64(binary.LittleEndian.Uint64(t.Data[8*i:]))
	}
	out := runtimes.Tensor{Type: runtimes.Float32, Shape: []int64{ids.Shape[0], int64(s.size)}}
	for row := range ids.Shape[0] {
		var sum, second int64
		for col := range ids.Shape[1] {
			i := row*ids.Shape[1] + col
			if at(mask, i) == 0 && at(ids, i) != 0 {
				return nil, errors.New("padding is not the padding token")
			}
			sum += at(mask, i) * at(ids, i)
			second += at(types, i)
		}
		for _, v := range []int64{sum, second}[:s.size] {
			out.Data = binary.LittleEndian.AppendUint32(out.Data, math.Float32bits(float32(v)))
		}
	}
	if s.bad != nil {
		s.bad(&out)
	}
	return map[string]runtimes.Tensor{s.output: out}, nil
}

func reader(t *testing.T, s *sums, segments bool) *embed.Reader {
	t.Helper()
	tok, err := tokenizer.FromHuggingFace([]byte(vocabulary), []byte(`{"pad_token":"[PAD]"}`))
	if err != nil {
		t.Fatal(err)
	}
	port := func(name string, dim abi.Dim, typ abi.DType) abi.Port {
		return abi.Port{Name: name, Shape: abi.Shape{dim}, DType: typ}
	}
	m := &modules.Manifest{Type: abi.Encoder, Modality: abi.Text}
	m.Text = &modules.Text{Tokenizer: "t", MaxTokens: 6, Prompts: map[string]string{"query": "q ", "none": ""}}
	m.Inputs = []abi.Port{port(modules.TextIDs, abi.Dim{Name: "T"}, abi.Int64), port(modules.TextMask, abi.Dim{Name: "T"}, abi.Int64)}
	if segments {
		m.Inputs = append(m.Inputs, port(modules.TextSegments, abi.Dim{Name: "T"}, abi.Int64))
	}
	m.Outputs = []abi.Port{port(s.output, abi.Dim{Size: int64(s.size)}, abi.FP32)}
	r, err := embed.New(s, tok, m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestEmbed keeps the order of texts of any length, cuts and prompts them.
func TestEmbed(t *testing.T) {
	s := &sums{output: modules.TextEmbedding, size: 2}
	r := reader(t, s, false)
	got, err := r.Embed(t.Context(), []string{"a", " a b c ", "", "a b c a b c", "B"}, embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := &embed.Result{Vectors: [][]float32{{9, 0}, {20, 0}, {5, 0}, {24, 0}, {10, 0}}, Tokens: 3 + 5 + 2 + 6 + 3, Cut: 1}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got, err = r.Embed(t.Context(), []string{"a"}, embed.Options{Prompt: "query"}); err != nil || got.Vectors[0][0] != 16 {
		t.Errorf("with a prompt: %v, %v", got, err)
	}
	if got, err = r.Embed(t.Context(), []string{"a b c"}, embed.Options{MaxTokens: 3}); err != nil || got.Vectors[0][0] != 9 || got.Cut != 1 {
		t.Errorf("with a limit: %v, %v", got, err)
	}
	if got, err = r.Embed(t.Context(), nil, embed.Options{}); err != nil || len(got.Vectors) != 0 {
		t.Errorf("without texts: %v, %v", got, err)
	}
}

// TestBatches groups texts by length.
func TestBatches(t *testing.T) {
	s := &sums{output: modules.TextEmbedding, size: 1}
	r := reader(t, s, false)
	var texts []string
	for i := range 70 {
		texts = append(texts, strings.Repeat("a ", i%3))
	}
	got, err := r.Embed(t.Context(), texts, embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range got.Vectors {
		if v[0] != float32(5+4*(i%3)) {
			t.Fatalf("text %d: %v", i, v)
		}
	}
	if d := cmp.Diff([][]int64{{32, 4}, {32, 3}, {6, 2}}, s.calls); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
}

// TestRank joins the query with each document.
func TestRank(t *testing.T) {
	s := &sums{output: modules.TextScores, size: 1}
	r := reader(t, s, true)
	got, err := r.Rank(t.Context(), "q", []string{"a", "b b"}, embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&embed.Result{Vectors: [][]float32{{19}, {25}}, Tokens: 5 + 6}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestRefuses uses modules of other kinds, and inputs that are too large.
func TestRefuses(t *testing.T) {
	encoder, ranker := reader(t, &sums{output: modules.TextEmbedding, size: 1}, false), reader(t, &sums{output: modules.TextScores, size: 1}, false)
	two := reader(t, &sums{output: modules.TextScores, size: 2}, false)
	call := func(r *embed.Reader, texts []string, opt embed.Options) error {
		_, err := r.Embed(t.Context(), texts, opt)
		return err
	}
	rank := func(r *embed.Reader, query string, opt embed.Options) error {
		_, err := r.Rank(t.Context(), query, []string{"a"}, opt)
		return err
	}
	for want, err := range map[string]error{
		"scores texts":      call(ranker, []string{"a"}, embed.Options{}),
		"not a reranker":    rank(encoder, "q", embed.Options{}),
		"no single score":   rank(two, "q", embed.Options{}),
		"has no prompts":    rank(ranker, "q", embed.Options{Prompt: "query"}),
		"unknown prompt":    call(encoder, []string{"a"}, embed.Options{Prompt: "qury"}),
		"no room":           call(encoder, []string{"a"}, embed.Options{MaxTokens: 1}),
		"65537 texts":       call(encoder, make([]string, embed.MaxTexts+1), embed.Options{}),
		"more than 1048576": call(encoder, []string{strings.Repeat("a", embed.MaxBytes+1)}, embed.Options{}),
	} {
		if in := (*embed.InputError)(nil); !errors.As(err, &in) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := call(encoder, make([]string, embed.MaxTexts), embed.Options{}); err != nil {
		t.Errorf("MaxTexts: %v", err)
	}
	if err := call(encoder, []string{strings.Repeat("a", embed.MaxBytes)}, embed.Options{}); err != nil {
		t.Errorf("MaxBytes: %v", err)
	}
	if err := rank(ranker, strings.Repeat("a", embed.MaxBytes+1), embed.Options{}); err == nil {
		t.Error("a long query")
	}
	for want, bad := range map[string]func(*runtimes.Tensor){
		"NaN":       func(x *runtimes.Tensor) { binary.LittleEndian.PutUint32(x.Data, math.Float32bits(float32(math.NaN()))) },
		"want fp32": func(x *runtimes.Tensor) { x.Shape = slices.Insert(x.Shape, 0, 1) },
	} {
		r := reader(t, &sums{output: modules.TextEmbedding, size: 1, bad: bad}, false)
		if err := call(r, []string{"a"}, embed.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := embed.New(nil, nil, &modules.Manifest{}); err == nil {
		t.Error("a module without a text block")
	}
}
