// Package score runs a model over a text. It measures how well the model predicts
// the text: its loss, as in the evaluation of a checkpoint in training (train). For
// quantization it records the inputs of the model's matrices.
//
// [Cut] splits the text's tokens into windows and [Evaluate] reads them one by
// one. Each token is predicted from the preceding tokens of its window;
// consecutive windows of a document share one token, so that all tokens but the
// first are predicted once. If the vocabulary starts texts with a BOS token,
// each window begins with one, and the first token is predicted as well.
//
// [Importance] computes the mean square of every column, an importance matrix.
// Results depend only on the model and the text, not on the number of threads.
package score

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/tokenizer"
)

// Options configures a measurement.
type Options struct {
	// Window is the number of positions of a window. If zero, it is 512 or the
	// model's context, if less.
	Window int
	// Limit is the maximum number of windows. If zero, all are read.
	Limit int
	// Separator splits the text into independent documents and is not part of
	// them. If empty, the text is one document.
	Separator string
	// Special encodes the texts of control tokens as these tokens.
	Special bool
	// KV is the storage type of keys and values, as in [infer.SessionOptions].
	KV string
}

// FileOptions configures the measurement of a GGUF file.
type FileOptions struct {
	Options
	Threads int // if zero, the default of the machine
}

// File measures the GGUF file at path on a text, encoded with its tokenizer.
func File(ctx context.Context, path, text string, opt FileOptions) (Evaluation, error) {
	m, err := infer.Load(path, infer.Options{Threads: opt.Threads})
	if err != nil {
		return Evaluation{}, err
	}
	defer m.Close()
	tok, err := tokenizer.FromGGUF(m.File())
	if err != nil {
		return Evaluation{}, fmt.Errorf("%s: %w", path, err)
	}
	return Text(ctx, m, tok, text, opt.Options)
}

const defaultWindow = 512

// Window is a part of a text: the tokens that a model reads, and the next one.
// All but the first are predicted.
type Window struct {
	Tokens []int32
	Next   int32
}

// Evaluation is a model's loss on a text.
type Evaluation struct {
	Loss        float64 `json:"loss"`          // nats a token
	BitsPerByte float64 `json:"bits_per_byte"` // of the bytes of the predicted tokens
	Predictions int     `json:"predictions"`   // tokens predicted
	Bytes       int     `json:"bytes"`         // of the predicted tokens
}

// Text measures m on a text. tok is the model's tokenizer.
func Text(ctx context.Context, m *infer.Model, tok *tokenizer.Tokenizer, text string, opt Options) (Evaluation, error) {
	if opt.Window == 0 {
		opt.Window = min(defaultWindow, m.Config().Context)
	}
	if opt.Window < 1 || opt.Window > m.Config().Context {
		return Evaluation{}, fmt.Errorf("bad window: got %d positions, want 1 to %d", opt.Window, m.Config().Context)
	}
	return Evaluate(ctx, m, Cut(tok, text, opt), tok, opt.KV)
}

// Cut splits a text into windows. opt.Window must be positive.
func Cut(tok *tokenizer.Tokenizer, text string, opt Options) []Window {
	var windows []Window
	for text != "" && (opt.Limit <= 0 || len(windows) < opt.Limit) {
		var doc string
		if opt.Separator == "" {
			doc, text = text, ""
		} else {
			doc, text, _ = strings.Cut(text, opt.Separator)
		}
		ids := tok.Encode(doc, tokenizer.Options{Special: opt.Special})
		bos := tokenizer.None
		if v := tok.Rules(); v.AddBOS {
			bos = v.Special.BOS
		}
		windows = append(windows, cut(ids, opt.Window, bos)...)
	}
	if opt.Limit > 0 {
		windows = windows[:min(len(windows), opt.Limit)]
	}
	return windows
}

// cut splits one document into windows. A BOS other than None precedes each.
func cut(ids []int32, size int, bos int32) (windows []Window) {
	if bos == tokenizer.None {
		for at := 0; at+1 < len(ids); at += size {
			end := min(at+size, len(ids)-1)
			windows = append(windows, Window{ids[at:end], ids[end]})
		}
		return windows
	}
	for at := 0; at < len(ids); at += size {
		end := min(at+size, len(ids))
		windows = append(windows, Window{append([]int32{bos}, ids[at:end-1]...), ids[end-1]})
	}
	return windows
}

// Evaluate measures m on windows, none longer than its context. tok counts
// bytes.
func Evaluate(ctx context.Context, m *infer.Model, windows []Window, tok *tokenizer.Tokenizer, kv string) (Evaluation, error) {
	longest := 0
	for _, w := range windows {
		longest = max(longest, len(w.Tokens))
	}
	if longest == 0 {
		return Evaluation{}, errors.New("evaluation: text has no tokens to predict")
	}
	s, err := m.NewSession(infer.SessionOptions{Context: longest, KV: kv})
	if err != nil {
		return Evaluation{}, err
	}
	var e Evaluation
	var sum float64
	for _, w := range windows {
		s.Truncate(0)
		loss, err := s.Loss(ctx, w.Tokens, w.Next)
		if err != nil {
			return Evaluation{}, err
		}
		sum += loss
		e.Predictions += len(w.Tokens)
		e.Bytes += size(tok, w.Next)
		for _, id := range w.Tokens[1:] {
			e.Bytes += size(tok, id)
		}
	}
	e.Loss = sum / float64(e.Predictions)
	if e.Bytes > 0 {
		e.BitsPerByte = sum / math.Ln2 / float64(e.Bytes)
	}
	return e, nil
}

// size returns the number of bytes of a token; 0 for control tokens.
func size(tok *tokenizer.Tokenizer, id int32) int {
	switch tok.Type(id) {
	case tokenizer.Control, tokenizer.Unknown, tokenizer.Unused:
		return 0
	}
	return len(tok.Piece(id))
}
