package train

import (
	"errors"
	"math"
	"strings"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/llm"
)

// Recovery compares a model with the same model without its adapters, on the same
// held-out windows, in bits per byte.
type Recovery struct {
	Windows int     `json:"windows"`
	Before  float64 `json:"before"` // without adapters
	After   float64 `json:"after"`
	Low     float64 `json:"low"` // 95 % interval of the difference, paired by window
	High    float64 `json:"high"`
}

var errFew = errors.New("fewer than two windows with text: no interval")

// Recover measures the change by the adapters of m on held in windows of T
// positions, at most limit; 0 means all. The adapters are the same afterwards.
func Recover(m *llm.Model[float32], p *pool.Pool, held *dataset.Tokens, T, limit int, tok *tokenizer.Tokenizer) (Recovery, error) {
	after, err := windowLosses(m, p, held, T, limit, tok)
	if err != nil {
		return Recovery{}, err
	}
	return recovered(m, p, held, T, limit, tok, after)
}

// recovered is [Recover] with the losses of m.
func recovered(m *llm.Model[float32], p *pool.Pool, held *dataset.Tokens, T, limit int, tok *tokenizer.Tokenizer, after windows) (Recovery, error) {
	kept := map[string][]float32{}
	for _, t := range m.Tensors() {
		if strings.HasSuffix(t.Name, ".lora_b") {
			kept[t.Name] = append([]float32(nil), t.Data...)
			clear(t.Data)
		}
	}
	if len(kept) == 0 {
		return Recovery{}, errors.New("model without adapters")
	}
	renew := func() {
		m.Stale()
		m.Refresh(p)
	}
	renew()
	before, err := windowLosses(m, p, held, T, limit, tok)
	for _, t := range m.Tensors() {
		copy(t.Data, kept[t.Name])
	}
	renew()
	if err != nil {
		return Recovery{}, err
	}
	return paired(before.nats, after.nats, after.bytes)
}

// windows are the losses in nats and the bytes of windows with text.
type windows struct {
	nats, bytes []float64
	predictions int
}

// evaluation returns the mean of the losses, as [Evaluate] does.
func (w windows) evaluation() (Evaluation, error) {
	var sum, bytes float64
	for i := range w.nats {
		sum, bytes = sum+w.nats[i], bytes+w.bytes[i]
	}
	return mean(sum, w.predictions, int(bytes))
}

// windowLosses measures each window.
func windowLosses(m *llm.Model[float32], p *pool.Pool, held *dataset.Tokens, T, limit int, tok *tokenizer.Tokenizer) (w windows, err error) {
	switch {
	case held == nil:
		return w, errNoHeld
	case tok == nil:
		return w, errors.New("recovery in bits per byte: missing tokenizer")
	}
	const rows = 8
	b, pass, row, of := dataset.NewBatch(rows, T), m.NewPass(p, rows, T), make([]float64, rows), pieces(tok, m.Config.Vocab)
	for b := range dataset.Windows(held, b, limit) {
		if err := pass.Losses(batch(b), row); err != nil {
			return w, err
		}
		for r := range rows {
			size, any := 0, false
			for _, v := range b.Targets[r*T : (r+1)*T] {
				if v >= 0 {
					size, any = size+of[v], true
					w.predictions++
				}
			}
			if any {
				w.nats, w.bytes = append(w.nats, row[r]), append(w.bytes, float64(size))
			}
		}
	}
	return w, nil
}

// paired returns the bits per byte of two lists of losses in nats, and the interval
// of their difference as a ratio of sums.
func paired(before, after, bytes []float64) (Recovery, error) {
	r := Recovery{Windows: len(bytes)}
	total := 0.0
	for i, n := range bytes {
		total += n * math.Ln2
		r.Before += before[i]
		r.After += after[i]
	}
	if r.Windows < 2 || total == 0 {
		return r, errFew
	}
	r.Before, r.After = r.Before/total, r.After/total
	d, sum := r.After-r.Before, 0.0
	for i, n := range bytes {
		e := after[i] - before[i] - d*n*math.Ln2
		sum += e * e
	}
	n := float64(r.Windows)
	half := 1.96 * math.Sqrt(sum*n/(n-1)) / total
	r.Low, r.High = d-half, d+half
	return r, nil
}
