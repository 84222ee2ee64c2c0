// Package embed encodes texts: into vectors, or into the scores of a classifier such as
// a reranker.
//
// A [Reader] joins the tokenizer and the function of a module of type encoder and
// modality text (modules.Text). Texts are sorted by their length and run in batches of
// similar lengths, so that little is spent on padding; results keep the order of the
// texts.
package embed

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
)

// Limits of a call.
const (
	// MaxTexts bounds the texts of a call.
	MaxTexts = 1 << 16
	// MaxBytes bounds a text.
	MaxBytes = 1 << 20
	// batchTexts and batchTokens bound a batch, padding included.
	batchTexts  = 32
	batchTokens = 1 << 14
)

// Function computes on tensors.
type Function interface {
	Run(ctx context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error)
}

// Reader encodes texts. It is safe for concurrent use if its function is.
type Reader struct {
	fn       Function
	vocab    *tokenizer.Tokenizer
	text     modules.Text
	output   string
	segments bool
	size     int
	pad      int32
}

// InputError is a fault of an input.
type InputError struct {
	Err  error
	Hint string
}

// Error describes the fault.
func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *InputError) Unwrap() error { return e.Err }

// New returns a reader of the function that a manifest describes.
func New(fn Function, vocab *tokenizer.Tokenizer, m *modules.Manifest) (*Reader, error) {
	if m == nil || m.Text == nil || len(m.Outputs) != 1 || len(m.Outputs[0].Shape) != 1 {
		return nil, errors.New("the module is not an encoder of text")
	}
	r := &Reader{fn: fn, vocab: vocab, text: *m.Text, output: m.Outputs[0].Name, size: int(m.Outputs[0].Shape[0].Size), pad: max(vocab.Special().Padding, 0)}
	for _, p := range m.Inputs {
		r.segments = r.segments || p.Name == modules.TextSegments
	}
	return r, nil
}

// Size returns the numbers of a vector, or the labels of a text.
func (r *Reader) Size() int { return r.size }

// Ranks reports whether the outputs are scores.
func (r *Reader) Ranks() bool { return r.output == modules.TextScores }

// Prompts lists the names of the prompts.
func (r *Reader) Prompts() []string {
	var out []string
	for name := range r.text.Prompts {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Labels returns the labels of the scores, or nil.
func (r *Reader) Labels() []string { return slices.Clone(r.text.Labels) }

// Options configures an encoding.
type Options struct {
	// Prompt names the prompt to put before each text. If empty, it is the module's.
	Prompt string
	// MaxTokens is a smaller limit than the module's; 0: the module's.
	MaxTokens int
}

// Result holds an output for each text.
type Result struct {
	Vectors [][]float32
	Tokens  int // of all texts, with the special tokens
	Cut     int // texts that were longer than the limit
}

// Embed returns the vectors of texts.
func (r *Reader) Embed(ctx context.Context, texts []string, opt Options) (*Result, error) {
	if r.Ranks() {
		return nil, &InputError{errors.New("the module scores texts, and has no vectors of them"), "mm rerank uses it"}
	}
	return r.run(ctx, texts, nil, opt)
}

// Rank returns the scores of documents for a query, in the order of the documents.
func (r *Reader) Rank(ctx context.Context, query string, documents []string, opt Options) (*Result, error) {
	if !r.Ranks() || r.size != 1 {
		return nil, &InputError{errors.New("the module is not a reranker: it has no single score of two texts"), "mm embed uses an encoder"}
	}
	if opt.Prompt != "" {
		return nil, &InputError{errors.New("a reranker has no prompts"), ""}
	}
	return r.run(ctx, documents, &query, opt)
}

// run encodes texts, each after the query if there is one.
func (r *Reader) run(ctx context.Context, texts []string, query *string, opt Options) (*Result, error) {
	if len(texts) > MaxTexts {
		return nil, &InputError{fmt.Errorf("%d texts, limit %d", len(texts), MaxTexts), "send them in several calls"}
	}
	prompt, err := r.prompt(opt.Prompt)
	if err != nil {
		return nil, err
	}
	limit := r.text.MaxTokens
	if opt.MaxTokens > 0 {
		limit = min(limit, opt.MaxTokens)
	}
	res := &Result{Vectors: make([][]float32, len(texts))}
	all := make([]tokenizer.Sequence, len(texts))
	order := make([]int, len(texts))
	for i, text := range texts {
		if len(text) > MaxBytes || query != nil && len(*query) > MaxBytes {
			return nil, &InputError{fmt.Errorf("text %d has more than %d bytes", i+1, MaxBytes), "split it"}
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		first, second := strings.TrimSpace(prompt+text), ""
		if query != nil {
			first, second = strings.TrimSpace(*query), strings.TrimSpace(text)
		}
		s, err := r.vocab.Join(first, second, query != nil, limit)
		if err != nil {
			return nil, &InputError{err, ""}
		}
		if len(s.IDs) == 0 {
			s = tokenizer.Sequence{IDs: []int32{r.pad}, Segments: []int32{0}}
		}
		if len(s.IDs) == limit { // perhaps cut
			if all, err := r.vocab.Join(first, second, query != nil, 0); err == nil && len(all.IDs) > limit {
				res.Cut++
			}
		}
		all[i], order[i] = s, i
		res.Tokens += len(s.IDs)
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(all[b].IDs) - len(all[a].IDs) })
	for len(order) > 0 {
		longest := len(all[order[0]].IDs)
		n := min(len(order), batchTexts, max(1, batchTokens/longest))
		if err := r.batch(ctx, all, order[:n], longest, res.Vectors); err != nil {
			return nil, err
		}
		order = order[n:]
	}
	return res, nil
}

// Best returns the indices of the scores of a reranker, the best first, of equal ones the
// first; n at most, or all if it is 0.
func (r *Result) Best(n int) []int {
	order := make([]int, len(r.Vectors))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(r.Vectors[b][0], r.Vectors[a][0]) })
	if n > 0 {
		order = order[:min(n, len(order))]
	}
	return order
}

// prompt returns the text of a prompt.
func (r *Reader) prompt(name string) (string, error) {
	if name == "" {
		return r.text.Prompts[r.text.Prompt], nil
	}
	text, ok := r.text.Prompts[name]
	if !ok {
		hint := "the module has no prompts"
		if prompts := r.Prompts(); len(prompts) > 0 {
			hint = diag.Suggest(name, prompts, "it has "+strings.Join(prompts, ", "))
		}
		return "", &InputError{fmt.Errorf("unknown prompt %q", name), hint}
	}
	return text, nil
}

// batch encodes the sequences of a batch, padded to the longest.
func (r *Reader) batch(ctx context.Context, all []tokenizer.Sequence, batch []int, longest int, out [][]float32) error {
	shape := []int64{int64(len(batch)), int64(longest)}
	n := 8 * len(batch) * longest
	ids, mask, segments := make([]byte, n), make([]byte, n), []byte(nil)
	if r.segments {
		segments = make([]byte, n)
	}
	put := func(b []byte, row, col int, v int32) {
		binary.LittleEndian.PutUint64(b[8*(row*longest+col):], uint64(v))
	}
	for row, i := range batch {
		s := all[i]
		for col := range longest {
			id, used := r.pad, int32(0)
			if col < len(s.IDs) {
				id, used = s.IDs[col], 1
				if segments != nil {
					put(segments, row, col, s.Segments[col])
				}
			}
			put(ids, row, col, id)
			put(mask, row, col, used)
		}
	}
	in := map[string]runtimes.Tensor{
		modules.TextIDs:  {Type: runtimes.Int64, Shape: shape, Data: ids},
		modules.TextMask: {Type: runtimes.Int64, Shape: shape, Data: mask},
	}
	if segments != nil {
		in[modules.TextSegments] = runtimes.Tensor{Type: runtimes.Int64, Shape: shape, Data: segments}
	}
	got, err := r.fn.Run(ctx, in)
	if err != nil {
		return err
	}
	t, ok := got[r.output]
	if !ok || t.Type != runtimes.Float32 || !slices.Equal(t.Shape, []int64{int64(len(batch)), int64(r.size)}) || len(t.Data) != 4*len(batch)*r.size {
		return fmt.Errorf("output %q: got %s %v, want fp32 [%d %d]", r.output, t.Type, t.Shape, len(batch), r.size)
	}
	for row, i := range batch {
		v := make([]float32, r.size)
		for k := range v {
			v[k] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*(row*r.size+k):]))
			if math.IsNaN(float64(v[k])) || math.IsInf(float64(v[k]), 0) {
				return fmt.Errorf("output %q: NaN or infinity for text %d", r.output, i+1)
			}
		}
		out[i] = v
	}
	return nil
}

// Ranking holds the documents of a query as mm rerank prints them.
type Ranking struct {
	Results []Ranked `json:"results"` // the best first
	Tokens  int      `json:"tokens"`
	Cut     int      `json:"cut,omitempty"`
}

// Ranked is a document with its score.
type Ranked struct {
	Index    int     `json:"index"` // among the documents, from 0
	Score    float32 `json:"score"`
	Document string  `json:"document"`
}

// Ranking returns the best n documents; 0: all.
func (r *Result) Ranking(documents []string, n int) Ranking {
	out := Ranking{Tokens: r.Tokens, Cut: r.Cut}
	for _, i := range r.Best(n) {
		out.Results = append(out.Results, Ranked{i, r.Vectors[i][0], documents[i]})
	}
	return out
}

// Write writes a line for each document.
func (r Ranking) Write(w io.Writer) error {
	for _, one := range r.Results {
		if _, err := fmt.Fprintf(w, "%.6f\t%d\t%s\n", one.Score, one.Index, diag.Printable(one.Document)); err != nil {
			return err
		}
	}
	return nil
}
