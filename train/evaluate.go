package train

import (
	"errors"
	"fmt"
	"math"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/llm"
)

var errNoHeld = errors.New("no held-out data: add documents, or a separator that splits the text")

// Evaluate measures m, which must be packed, on held in consecutive windows of
// T positions; each token is predicted from the preceding tokens of its window.
// It uses at most limit windows; 0 means all. tok counts bytes; if nil, they
// are omitted. If p is nil, it uses one thread.
func Evaluate(m *llm.Model[float32], p *pool.Pool, held *dataset.Tokens, T, limit int, tok *tokenizer.Tokenizer) (Evaluation, error) {
	if T < 1 || T > maxPositions {
		return Evaluation{}, fmt.Errorf("evaluation windows out of range: got %d positions, want 1 to %d", T, maxPositions)
	}
	const rows = 8
	b := dataset.NewBatch(rows, T)
	return evaluate(m.NewPass(p, rows, T), held, b, limit, pieces(tok, m.Config.Vocab))
}

func evaluate(pass *llm.Pass[float32], held *dataset.Tokens, b *dataset.Batch, limit int, pieces []int) (Evaluation, error) {
	var e Evaluation
	if held == nil {
		return e, errNoHeld
	}
	var sum float64
	for b := range dataset.Windows(held, b, limit) {
		loss, err := pass.Loss(batch(b))
		if err != nil {
			return Evaluation{}, err
		}
		sum += loss
		for _, v := range b.Targets {
			if v >= 0 {
				e.Predictions++
				if pieces != nil {
					e.Bytes += pieces[v]
				}
			}
		}
	}
	return mean(sum, e.Predictions, e.Bytes)
}

// mean returns the means of a sum of losses in nats.
func mean(sum float64, predictions, bytes int) (Evaluation, error) {
	if predictions == 0 {
		return Evaluation{}, errors.New("evaluation: nothing to predict")
	}
	e := Evaluation{Predictions: predictions, Bytes: bytes, Loss: sum / float64(predictions)}
	if bytes > 0 {
		e.BitsPerByte = sum / math.Ln2 / float64(bytes)
	}
	return e, nil
}

// pieces returns the number of bytes of each of v tokens, 0 for control tokens.
// Without a tokenizer it returns nil.
func pieces(tok *tokenizer.Tokenizer, v int) []int {
	if tok == nil {
		return nil
	}
	all := make([]int, max(v, tok.Size()))
	for id := range tok.Size() {
		switch tok.Type(int32(id)) {
		case tokenizer.Control, tokenizer.Unknown, tokenizer.Unused:
		default:
			all[id] = len(tok.Piece(int32(id)))
		}
	}
	return all
}
