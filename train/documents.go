package train

import (
	"fmt"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/llm"
)

// DocumentLoss is the loss on one document.
type DocumentLoss struct {
	Nats        float64 `json:"nats"` // sum over the predictions
	Predictions int     `json:"predictions"`
	Bytes       int     `json:"bytes"` // of the predicted tokens; 0 without a tokenizer
}

// EvaluateEach measures m, which must be packed, on each document in windows of
// T positions, the first at the start of the document.
func EvaluateEach(m *llm.Model[float32], p *pool.Pool, docs []*dataset.Tokens, T int, tok *tokenizer.Tokenizer) ([]DocumentLoss, error) {
	if T < 1 || T > maxPositions {
		return nil, fmt.Errorf("evaluation windows out of range: got %d positions, want 1 to %d", T, maxPositions)
	}
	const rows = 8
	b, pass, nats := dataset.NewBatch(rows, T), m.NewPass(p, rows, T), make([]float64, rows)
	bytesOf, out := pieces(tok, m.Config.Vocab), make([]DocumentLoss, len(docs))
	for of, b := range dataset.WindowsOf(docs, b) {
		if err := pass.Losses(batch(b), nats); err != nil {
			return nil, err
		}
		for r, i := range of {
			if i < 0 {
				continue
			}
			d := &out[i]
			d.Nats += nats[r]
			for _, v := range b.Targets[r*T : (r+1)*T] {
				if v >= 0 {
					d.Predictions++
					if bytesOf != nil {
						d.Bytes += bytesOf[v]
					}
				}
			}
		}
	}
	return out, nil
}
