// Package calibrate has a model read a text and takes down what its matrices
// are multiplied with, which is what quantising them well needs to know.
//
// [Importance] gives the mean square of every column, as an importance matrix.
// Results depend on the model and the text alone, not on the number of threads.
package calibrate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/infer/score"
	"mm-abi.org/mm/core/quant/calibrated"
	"mm-abi.org/mm/core/tokenizer"
)

// Options is how a text is read.
type Options struct {
	// Window is the positions of a window; 0 means 512, or the model's context
	// where that is less.
	Window int
	// Limit is the most windows that are read; 0 means all.
	Limit int
	// Separator cuts the text into documents that say nothing of each other;
	// "" means that it is one.
	Separator string
	// Name is what the text is called in the importance matrix.
	Name string
}

const defaultWindow = 512

// cut makes windows of a text.
func (o *Options) cut(m *infer.Model, tok *tokenizer.Tokenizer, text string) ([]score.Window, error) {
	if o.Window == 0 {
		o.Window = min(defaultWindow, m.Config().Context)
	}
	if o.Window < 1 || o.Window > m.Config().Context {
		return nil, fmt.Errorf("windows of %d positions: the model has 1 to %d", o.Window, m.Config().Context)
	}
	windows := score.Cut(tok, text, score.Options{Window: o.Window, Limit: o.Limit, Separator: o.Separator})
	if len(windows) == 0 {
		return nil, errors.New("calibration: the text has nothing to read")
	}
	return windows, nil
}

// read has the model read windows, and o told of it.
func read(ctx context.Context, m *infer.Model, windows []score.Window, o infer.Observer) error {
	longest := 0
	for _, w := range windows {
		longest = max(longest, len(w.Tokens))
	}
	s, err := m.NewSession(infer.SessionOptions{Context: longest})
	if err != nil {
		return err
	}
	s.Observe(o)
	for _, w := range windows {
		s.Truncate(0)
		if err := s.Feed(ctx, w.Tokens); err != nil {
			return err
		}
	}
	return nil
}

// Importance has m read a text and gives its importance matrix.
func Importance(ctx context.Context, m *infer.Model, tok *tokenizer.Tokenizer, text string, opt Options) (*calibrated.Imatrix, error) {
	windows, err := opt.cut(m, tok, text)
	if err != nil {
		return nil, err
	}
	s := squares{}
	if err := read(ctx, m, windows, s); err != nil {
		return nil, err
	}
	out := &calibrated.Imatrix{Entries: make(map[string]calibrated.Entry), Chunks: uint32(len(windows)), Size: uint32(opt.Window)}
	if opt.Name != "" {
		out.Datasets = []string{opt.Name}
	}
	for name, seen := range s {
		if strings.Contains(name, "_exps.") { // the last ones may have seen nothing
			cols := len(seen.sums) / len(seen.counts)
			for len(seen.counts) < m.Config().Experts {
				seen.counts = append(seen.counts, 0)
				seen.sums = append(seen.sums, make([]float64, cols)...)
			}
		}
		e := calibrated.Entry{Counts: seen.counts, Sums: make([]float32, len(seen.sums))}
		for i, v := range seen.sums {
			if e.Sums[i] = float32(v); math.IsNaN(v) || math.IsInf(float64(e.Sums[i]), 0) {
				return nil, fmt.Errorf("calibration: column %d of %s was multiplied with numbers that are none", i, name)
			}
		}
		out.Entries[name] = e
	}
	return out, nil
}

// squares are sums of squares by tensor.
type squares map[string]*seen

type seen struct {
	sums   []float64 // columns × experts
	counts []float32
}

// Observe adds the squares of rows.
func (s squares) Observe(names []string, expert int, x []float32, cols int) {
	e := s[names[0]]
	if e == nil {
		e = &seen{}
		for _, n := range names { // one input, one sum
			s[n] = e
		}
	}
	for len(e.counts) <= expert {
		e.counts = append(e.counts, 0)
		e.sums = append(e.sums, make([]float64, cols)...)
	}
	e.counts[expert] += float32(len(x) / cols)
	sums := e.sums[expert*cols:][:cols]
	for ; len(x) > 0; x = x[cols:] {
		for i, v := range x[:cols] {
			sums[i] += float64(v) * float64(v)
		}
	}
}
