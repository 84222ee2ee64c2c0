package export

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"path"
	"strings"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/lower"
	"mm-abi.org/mm/onnx/window"
)

// Grower is a Composer for a runtime whose states grow: one graph reads any number
// of positions after any number of earlier ones.
type Grower interface {
	Composer
	// Grow writes a growing model. The problems are the nodes that cannot be written.
	Grow(m Growing, name, precision string) (files []Output, problems []lower.Problem, err error)
}

// Growing is a language model of [window.Growing] whose sizes are open: negative
// dimensions ([lower.Open]).
type Growing struct {
	Graph  *lower.Graph
	Shape  arch.Shape
	Places *window.Places
}

// GrowingInputs returns the names of the inputs as programs for transformers call them:
// tokens, which positions of the texts are there, their places, and which text each
// continues.
func GrowingInputs() []string {
	return []string{"input_ids", "attention_mask", "position_ids", "beam_idx"}
}

// growingSizes are the two sizes whose differences are the open dimensions. No fixed dimension of a
// graph is a multiple of both.
func growingSizes() [2]window.GrowingOptions {
	return [2]window.GrowingOptions{{Texts: 2, Positions: 3, Past: 4}, {Texts: 3, Positions: 5, Past: 9}}
}

// grow returns the files of a growing model in the folder NAME.
func (x Lowered) grow(ctx context.Context, f *gguf.File, s arch.Shape, form Grower, name string, r LanguageRecord) ([]Output, LanguageRecord, error) {
	places, err := window.NewPlaces(f, s.Context)
	if err != nil {
		return nil, r, err
	}
	var graphs [2]*lower.Graph
	for i, size := range growingSizes() {
		m, err := window.Growing(f, size)
		if err != nil {
			return nil, r, x.unwritten(err, s, name, r.Precision)
		}
		sample := growingSample(s, size)
		g, problems, err := lower.Lower(ctx, m, sample)
		if err != nil || len(problems) > 0 {
			return nil, r, x.judged(name, r.Precision, 0, problems, err)
		}
		if i == 0 {
			if r.Cosine, err = measure(ctx, g, r.Precision, sample); err != nil {
				return nil, r, err
			}
		}
		graphs[i] = g
	}
	if err := lower.Open(graphs[0], graphs[1]); err != nil {
		return nil, r, err
	}
	files, problems, err := form.Grow(Growing{Graph: graphs[0], Shape: s, Places: places}, name, r.Precision)
	if err = x.judged(name, r.Precision, r.Cosine, problems, err); err != nil {
		return nil, r, err
	}
	entry := files[0].Path
	r.Graphs = []string{strings.TrimSuffix(entry, path.Ext(entry))}
	for i := range files {
		files[i].Path = path.Join(name, files[i].Path)
	}
	r.Window, r.Positions, r.Stateful = s.Context, 0, true
	r.Inputs, r.Outputs = GrowingInputs(), []string{window.Logits}
	return append(files, configuration(f, s, name), vocabulary(f, r.Tokenizer)), r, nil
}

// growingSample returns inputs of a growing model of some size: tokens after empty
// caches.
func growingSample(s arch.Shape, size window.GrowingOptions) map[string]engine.Tensor {
	sample := map[string]engine.Tensor{window.Tokens: spread(s.Vocab, size.Texts, size.Positions)}
	floats := func(value func(row, column int) float32, columns int) engine.Tensor {
		t := engine.Tensor{Type: onnx.FLOAT, Shape: []int{size.Texts, 1, size.Positions, columns}}
		for range size.Texts {
			for row := range size.Positions {
				for column := range columns {
					t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(value(row, column)))
				}
			}
		}
		return t
	}
	for _, side := range window.GrowingSides(s) {
		switch side {
		case window.Masks, window.LocalMasks:
			sample[side] = floats(func(row, column int) float32 {
				if at := column - size.Past; at < 0 || at > row {
					return window.Masked
				}
				return 0
			}, size.Past+size.Positions)
		default:
			of := math.Cos
			if side == window.Sin || side == window.LocalSin {
				of = math.Sin
			}
			sample[side] = floats(func(row, column int) float32 { return float32(of(float64(row) / float64(1+column))) }, s.Rope.Dims/2)
		}
	}
	cache := engine.Tensor{Type: onnx.FLOAT, Shape: []int{size.Texts, s.KVHeads, size.Past, s.HeadDim}, Data: make([]byte, 4*size.Texts*s.KVHeads*size.Past*s.HeadDim)}
	for i := range s.Layers {
		sample[window.PastKey(i)], sample[window.PastValue(i)] = cache, cache
	}
	return sample
}

// configuration is the file config.json, in which programs for transformers find the
// sizes of a model and the tokens that end a text.
func configuration(f *gguf.File, s arch.Shape, name string) Output {
	c := map[string]any{
		"model_type": s.Arch, "vocab_size": s.Vocab, "hidden_size": s.Width, "num_hidden_layers": s.Layers, "num_attention_heads": s.Heads, "num_key_value_heads": s.KVHeads,
		"head_dim": s.HeadDim, "max_position_embeddings": s.Context,
	}
	for key, from := range map[string]string{"bos_token_id": gguf.KeyBOS, "eos_token_id": gguf.KeyEOS} {
		if id, err := gguf.Get[uint32](f, from); err == nil {
			c[key] = id
		}
	}
	return Output{Path: path.Join(name, "config.json"), Write: func(w io.Writer) error {
		text, err := json.MarshalIndent(c, "", " ")
		if err == nil {
			_, err = w.Write(append(text, '\n'))
		}
		return err
	}}
}
