// Package nettest provides networks with every kind of layer for tests.
package nettest

import (
	"maps"

	"mm-abi.org/mm/train/net"
	"mm-abi.org/mm/train/nn"
)

// Networks returns networks that together use every kind of layer, some in
// several shapes. An input named ids takes whole numbers from 0 to 3.
func Networks() map[string]net.Config {
	all := arrangements()
	maps.Copy(all, products())
	return all
}

// products returns networks whose layers multiply.
func products() map[string]net.Config {
	return map[string]net.Config{
		"linear": {
			Inputs:  []net.Port{{Name: "x", Rows: 5, Cols: 6}},
			Layers:  []net.Layer{{Name: "a", Kind: "linear", Out: 7}, {Name: "b", Kind: "linear", Out: 6, NoBias: true, Residual: "x"}},
			Outputs: []string{"b", "a"},
		},
		"activations": {
			Inputs: []net.Port{{Name: "x", Rows: 4, Cols: 5}},
			Layers: []net.Layer{{Kind: "gelu"}, {Kind: "silu"}, {Name: "t", Kind: "tanh"}, {Name: "s", Kind: "sigmoid", Inputs: []string{"x"}},
				{Kind: "relu", Inputs: []string{"x"}, Name: "r"}, {Name: "y", Kind: "add", Inputs: []string{"t", "s", "r", "x"}}},
			Outputs: []string{"y"},
		},
		"norms": {
			Inputs: []net.Port{{Name: "x", Rows: 4, Cols: 9}},
			Layers: []net.Layer{{Name: "a", Kind: "layer_norm"}, {Name: "b", Kind: "rms_norm", Inputs: []string{"x"}, Eps: 1e-6},
				{Name: "c", Kind: "layer_norm", Inputs: []string{"x"}, NoAffine: true}, {Name: "y", Kind: "add", Inputs: []string{"a", "b", "c"}}},
			Outputs: []string{"y"},
		},
		"mlp": {
			Inputs:  []net.Port{{Name: "x", Rows: 50, Cols: 6}},
			Layers:  []net.Layer{{Name: "a", Kind: "mlp", Hidden: 10, Residual: "x"}, {Name: "b", Kind: "mlp", Activation: nn.SiLU, Out: 3}},
			Outputs: []string{"b"},
		},
		"attention": {
			Inputs:  []net.Port{{Name: "x", Rows: 51, Cols: 8}},
			Layers:  []net.Layer{{Name: "a", Kind: "attention", Heads: 2, Residual: "x"}, {Name: "b", Kind: "attention", Heads: 4, NoBias: true}},
			Outputs: []string{"b"},
		},
		"cross attention": {
			Inputs:  []net.Port{{Name: "x", Rows: 3, Cols: 8}, {Name: "m", Rows: 11, Cols: 5}},
			Layers:  []net.Layer{{Name: "a", Kind: "cross_attention", Heads: 2, Memory: "m", Residual: "x"}, {Name: "b", Kind: "cross_attention", Heads: 1, Memory: "a"}},
			Outputs: []string{"b"},
		},
		"block": {
			Inputs:  []net.Port{{Name: "x", Rows: 6, Cols: 8}, {Name: "m", Rows: 4, Cols: 5}, {Name: "c", Rows: 1, Cols: 3}},
			Layers:  []net.Layer{{Name: "a", Kind: "block", Heads: 2}, {Name: "b", Kind: "block", Heads: 2, Hidden: 12, Memory: "m", Condition: "c"}},
			Outputs: []string{"b"},
		},
		"modulation of every row": {
			Inputs:  []net.Port{{Name: "x", Rows: 3, Cols: 4}, {Name: "c", Rows: 3, Cols: 14}},
			Layers:  []net.Layer{{Name: "a", Kind: "modulate", Inputs: []string{"x", "c"}, From: 2}, {Name: "b", Kind: "gate", Inputs: []string{"x", "a", "c"}, From: 10}},
			Outputs: []string{"b"},
		},
		"conv1d": {
			Inputs: []net.Port{{Name: "x", Rows: 11, Cols: 6}},
			Layers: []net.Layer{{Name: "a", Kind: "conv1d", Out: 4, Kernel: net.Sizes{3}, Stride: net.Sizes{2}, Pad: net.Sizes{1}},
				{Name: "b", Kind: "conv1d", Out: 6, Kernel: net.Sizes{2}, Groups: 2}, {Name: "c", Kind: "conv1d", Out: 6, Kernel: net.Sizes{3}, Pad: net.Sizes{1}, Groups: 6}},
			Outputs: []string{"c"},
		},
		"conv2d": {
			Inputs: []net.Port{{Name: "x", Rows: 7 * 6, Cols: 3, Height: 7}},
			Layers: []net.Layer{{Name: "a", Kind: "conv2d", Out: 4, Kernel: net.Sizes{3, 2}, Stride: net.Sizes{2, 1}, Pad: net.Sizes{1, 1}},
				{Name: "b", Kind: "conv2d", Out: 6, Kernel: net.Sizes{3}, Pad: net.Sizes{1}, Groups: 2, NoBias: true}, {Name: "c", Kind: "conv2d", Out: 6, Kernel: net.Sizes{3}, Pad: net.Sizes{1}, Stride: net.Sizes{2}, Groups: 6},
				{Name: "d", Kind: "conv2d", Out: 5, Kernel: net.Sizes{1}}},
			Outputs: []string{"d"},
		},
		"transposed": {
			Inputs:  []net.Port{{Name: "x", Rows: 6, Cols: 3, Height: 2}},
			Layers:  []net.Layer{{Name: "a", Kind: "conv2d_transpose", Out: 4, Kernel: net.Sizes{4, 3}, Stride: net.Sizes{2}, Pad: net.Sizes{1}}, {Name: "b", Kind: "conv1d_transpose", Out: 2, Kernel: net.Sizes{4}, Stride: net.Sizes{2}, Pad: net.Sizes{1}, NoBias: true}},
			Outputs: []string{"b"},
		},
		"patches and positions": {
			Inputs:  []net.Port{{Name: "x", Rows: 64, Cols: 3}},
			Layers:  []net.Layer{{Name: "a", Kind: "patches", Out: 5, Kernel: net.Sizes{4}}, {Name: "b", Kind: "position"}},
			Outputs: []string{"b"},
		},
		"resampler": {
			Inputs:  []net.Port{{Name: "x", Rows: 9, Cols: 6}},
			Layers:  []net.Layer{{Name: "a", Kind: "resampler", Count: 4, Out: 8, Heads: 2, Hidden: 10}, {Name: "b", Kind: "resampler", Count: 2, Heads: 1}},
			Outputs: []string{"b"},
		},
	}
}

// arrangements returns networks whose layers rearrange values.
func arrangements() map[string]net.Config {
	return map[string]net.Config{
		"enlarging": {
			Inputs: []net.Port{{Name: "x", Rows: 6, Cols: 8, Height: 2}},
			Layers: []net.Layer{{Kind: "upsample2d", Factor: 2}, {Kind: "pixel_shuffle", Factor: 2, Name: "p"}, {Name: "y", Kind: "upsample1d", Factor: 3},
				{Name: "z", Kind: "mean", Factor: 3}, {Name: "w", Kind: "add", Inputs: []string{"z", "p"}}},
			Outputs: []string{"w", "y"},
		},
		"arranging": {
			Inputs: []net.Port{{Name: "x", Rows: 6, Cols: 8}},
			Layers: []net.Layer{{Name: "a", Kind: "slice", From: 2, To: 6}, {Name: "b", Kind: "slice", Inputs: []string{"x"}, Axis: "rows", From: 1, To: 4},
				{Name: "c", Kind: "reshape", Inputs: []string{"b"}, Cols: 4}, {Name: "d", Kind: "concat", Inputs: []string{"a", "c"}},
				{Name: "e", Kind: "concat", Inputs: []string{"d", "x"}, Axis: "rows"}, {Name: "f", Kind: "mean", Factor: 3, Every: 2}, {Name: "g", Kind: "scale", Scale: 0.5, Offset: 1},
				{Name: "h", Kind: "multiply", Inputs: []string{"g", "f"}}, {Name: "i", Kind: "mean"}},
			Outputs: []string{"i", "h"},
		},
		"pictures of two shapes": {
			Inputs: []net.Port{{Name: "x", Rows: 6, Cols: 3}},
			Layers: []net.Layer{{Name: "a", Kind: "conv2d", Out: 2, Kernel: net.Sizes{1}, Height: 2}, {Name: "b", Kind: "conv2d", Inputs: []string{"x"}, Out: 2, Kernel: net.Sizes{1}, Height: 3},
				{Name: "c", Kind: "add", Inputs: []string{"a", "b"}}},
			Outputs: []string{"c"},
		},
		"wide borders": {
			Inputs: []net.Port{{Name: "x", Rows: 5, Cols: 4}},
			Layers: []net.Layer{{Name: "a", Kind: "conv1d", Out: 4, Kernel: net.Sizes{2}, Pad: net.Sizes{2}}, {Name: "b", Kind: "conv1d", Out: 3, Kernel: net.Sizes{4}, Pad: net.Sizes{3}, NoBias: true},
				{Name: "c", Kind: "conv1d", Out: 9, Kernel: net.Sizes{3}}},
			Outputs: []string{"c"},
		},
		"queries behind another layer": {
			Inputs:  []net.Port{{Name: "x", Rows: 5, Cols: 4}},
			Layers:  []net.Layer{{Name: "a", Kind: "gelu"}, {Name: "q", Kind: "queries", Inputs: []string{"x"}, Count: 3}, {Name: "b", Kind: "cross_attention", Heads: 2, Memory: "a"}},
			Outputs: []string{"b"},
		},
		"a value taken twice": {
			Inputs: []net.Port{{Name: "x", Rows: 5, Cols: 4}},
			Layers: []net.Layer{{Name: "a", Kind: "linear", Out: 4}, {Name: "b", Kind: "add", Inputs: []string{"a", "a"}}, {Name: "c", Kind: "multiply", Inputs: []string{"b", "b"}},
				{Name: "d", Kind: "cross_attention", Heads: 2, Memory: "c", Residual: "c"}, {Name: "e", Kind: "mlp", Inputs: []string{"a"}, Residual: "a"}, {Name: "f", Kind: "concat", Inputs: []string{"e", "e", "d"}}},
			Outputs: []string{"f", "a"},
		},
		"time": {
			Inputs:  []net.Port{{Name: "t", Rows: 2, Cols: 1}},
			Layers:  []net.Layer{{Kind: "time", Out: 6, Scale: 3, Period: 50}, {Name: "y", Kind: "linear", Out: 3}},
			Outputs: []string{"y"},
		},
		"embedding": {
			Inputs:  []net.Port{{Name: "ids", Rows: 5, Cols: 1}},
			Layers:  []net.Layer{{Name: "e", Kind: "embedding", Count: 4, Out: 3}, {Name: "y", Kind: "gelu"}},
			Outputs: []string{"y"},
		},
	}
}
