package score

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/quant/calibrated"
	"mm-abi.org/mm/core/tokenizer"
)

// Reading configures the reading of a text.
type Reading struct {
	// Window is the number of positions of a window. If zero, it is 512 or the
	// model's context, if less.
	Window int
	// Limit is the maximum number of windows. If zero, all are read.
	Limit int
	// Separator splits the text into independent documents. If empty, the text
	// is one document.
	Separator string
	// Name is the name of the text in the importance matrix.
	Name string
}

// cut splits a text into windows.
func (o *Reading) cut(m *infer.Model, tok *tokenizer.Tokenizer, text string) ([]Window, error) {
	if o.Window == 0 {
		o.Window = min(defaultWindow, m.Config().Context)
	}
	if o.Window < 1 || o.Window > m.Config().Context {
		return nil, fmt.Errorf("bad window: got %d positions, want 1 to %d", o.Window, m.Config().Context)
	}
	windows := Cut(tok, text, Options{Window: o.Window, Limit: o.Limit, Separator: o.Separator})
	if len(windows) == 0 {
		return nil, errors.New("calibration: text is empty")
	}
	return windows, nil
}

// read feeds windows to the model with the observer o.
func read(ctx context.Context, m *infer.Model, windows []Window, o infer.Observer) error {
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

// Importance runs m over a text and returns its importance matrix.
func Importance(ctx context.Context, m *infer.Model, tok *tokenizer.Tokenizer, text string, opt Reading) (*calibrated.Imatrix, error) {
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
		if strings.Contains(name, "_exps.") { // the last experts may be unused
			cols := len(seen.sums) / len(seen.counts)
			for len(seen.counts) < m.Config().Experts {
				seen.counts = append(seen.counts, 0)
				seen.sums = append(seen.sums, make([]float64, cols)...)
			}
		}
		e := calibrated.Entry{Counts: seen.counts, Sums: make([]float32, len(seen.sums))}
		for i, v := range seen.sums {
			if e.Sums[i] = float32(v); math.IsNaN(v) || math.IsInf(float64(e.Sums[i]), 0) {
				return nil, fmt.Errorf("calibration: column %d of %s has non-finite inputs", i, name)
			}
		}
		out.Entries[name] = e
	}
	return out, nil
}

// squares holds sums of squares by tensor.
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
		for _, n := range names { // shared input, one sum
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
