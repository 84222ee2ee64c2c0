package engine_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/op"
)

// hostile lists the numbers that mutations insert.
var hostile = []int64{-1, 0, 1, 2, 3, 4, 5, 7, 16, 255, -2, -3, -7, math.MaxInt32, math.MinInt32, 1 << 33, math.MaxInt64, math.MinInt64, 1 << 20, 65537}

// edit changes a model according to the bytes, three for each change, so that
// most results are still models.
func edit(m *onnx.Model, edits []byte) {
	g := &m.Graph
	names := slices.Concat(op.Names(), op.Contributed())
	for ; len(edits) >= 3; edits = edits[3:] {
		a, b, v := int(edits[0]), int(edits[1]), hostile[int(edits[2])%len(hostile)]
		n := &g.Nodes[b%len(g.Nodes)]
		kind := a % 8
		if len(g.Inputs) == 0 && (kind == 4 || kind == 6) {
			continue
		}
		switch kind {
		case 0, 1:
			if len(n.Attributes) > 0 {
				at := &n.Attributes[a/8%len(n.Attributes)]
				at.Int, at.Float = v, float32(v)
				if len(at.Ints) > 0 {
					at.Ints[b/8%len(at.Ints)] = v
				}
			}
		case 2, 3:
			if len(g.Initializers) > 0 {
				t := &g.Initializers[b%len(g.Initializers)]
				switch k := a / 8; {
				case t.DType == onnx.INT64 && len(t.Raw) >= 8:
					binary.LittleEndian.PutUint64(t.Raw[k%(len(t.Raw)/8)*8:], uint64(v))
				case len(t.Raw) >= 4:
					binary.LittleEndian.PutUint32(t.Raw[k%(len(t.Raw)/4)*4:], math.Float32bits(float32(v)))
				}
			}
		case 4:
			if dims := g.Inputs[0].Type.Dims; len(dims) > 0 {
				dims[a/8%len(dims)].Value = max(0, v%9)
			}
		case 5:
			n.Op = names[int(edits[2])%len(names)]
		case 6:
			kinds := []onnx.DType{onnx.FLOAT, onnx.INT64, onnx.UINT8, onnx.BOOL, onnx.FLOAT16, onnx.DOUBLE, onnx.INT32}
			g.Inputs[0].Type.DType = kinds[b%len(kinds)]
		case 7:
			attrs := []string{"axis", "to", "group", "blocksize", "batch_dims", "keepdims", "k", "num_groups", "size", "num_outputs", "hidden_size", "start", "end"}
			n.Attributes = append(n.Attributes, onnx.Int(attrs[b%len(attrs)], v))
		}
	}
}

// A model with hostile numbers returns results or an error that blames the
// model.
func FuzzEdited(f *testing.F) {
	models := small(f)
	for _, e := range microsoft(f) {
		models = append(models, e.Model)
	}
	for i := range models {
		for e := range 8 {
			f.Add(uint16(i), []byte{byte(e), byte(i), byte(i + e), byte(8*i + e + 2), byte(e), byte(i)})
		}
	}
	f.Fuzz(func(t *testing.T, which uint16, edits []byte) {
		m, err := onnx.Parse(append([]byte(nil), models[int(which)%len(models)]...))
		if err != nil {
			t.Fatal(err)
		}
		edit(m, edits[:min(len(edits), 30)])
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		p, err := engine.Compile(ctx, m, engine.Options{Threads: 1, Memory: 8 << 20, Steps: 100})
		if errors.Is(err, engine.ErrInternal) {
			t.Fatal(err)
		}
		if err != nil {
			return
		}
		defer func() { _ = p.Close() }()
		if _, err := p.Run(ctx, zeros(p)); errors.Is(err, engine.ErrInternal) {
			t.Fatal(err)
		}
	})
}
