package part

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
)

func fp32(shape []int64, v ...float32) runtimes.Tensor {
	t := runtimes.Tensor{Type: runtimes.Float32, Shape: shape}
	for _, x := range v {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(x))
	}
	return t
}

func module(name string, in, out abi.Port) Side {
	m := &modules.Manifest{Name: name, Version: "1.0.0", Tensors: modules.Tensors{Inputs: []abi.Port{in}, Outputs: []abi.Port{out}}}
	return Side{ID: m.ID(), Manifest: m}
}

func port(name string, dtype abi.DType, dims ...abi.Dim) abi.Port {
	return abi.Port{Name: name, DType: dtype, Shape: dims}
}

// Vectors are finite numbers, as wide as the core and at most as many as the cap.
func TestVectors(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for name, c := range map[string]struct {
		dtype abi.DType
		t     runtimes.Tensor
		want  string // of the error; "": 1 2 3 4
	}{
		"two":             {abi.FP32, fp32([]int64{2, 2}, 1, 2, 3, 4), ""},
		"a batch of one":  {abi.FP32, fp32([]int64{1, 2, 2}, 1, 2, 3, 4), ""},
		"a batch of two":  {abi.FP32, fp32([]int64{2, 1, 2}, 1, 2, 3, 4), "want [vectors, d_model]"},
		"another width":   {abi.FP32, fp32([]int64{1, 4}, 1, 2, 3, 4), "want d_model 2"},
		"over the cap":    {abi.FP32, fp32([]int64{4, 2}, 1, 2, 3, 4, 5, 6, 7, 8), "1 to 3 vectors"},
		"none":            {abi.FP32, fp32([]int64{0, 2}), "1 to 3 vectors"},
		"NaN":             {abi.FP32, fp32([]int64{2, 2}, 1, nan, 3, 4), "element 1 is NaN"},
		"without an end":  {abi.FP32, fp32([]int64{2, 2}, 1, 2, 3, inf), "element 3 is -Inf"},
		"another type":    {abi.FP16, fp32([]int64{2, 2}, 1, 2, 3, 4), "got type fp32, want fp16"},
		"bytes cut short": {abi.FP32, runtimes.Tensor{Type: runtimes.Float32, Shape: []int64{2, 2}, Data: make([]byte, 15)}, "15 bytes"},
		"no floats":       {abi.Int32, runtimes.Tensor{Type: runtimes.Int32, Shape: []int64{2, 2}, Data: make([]byte, 16)}, "not a floating point"},
	} {
		p := module("proj", abi.Port{}, port("llm", c.dtype, abi.Dim{Name: "T_cap"}, abi.Dim{Name: "d_model"}))
		p.Manifest.Params = modules.Figures{"d_model": 2.0}
		v, width, err := Vectors(p, map[string]runtimes.Tensor{"llm": c.t}, 3)
		if c.want == "" && (err != nil || width != 2 || !slices.Equal(v, []float32{1, 2, 3, 4})) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, %v, want %q", name, v, err, c.want)
		}
	}
	p := module("proj", abi.Port{}, port("llm", abi.FP32))
	if _, _, err := Vectors(p, nil, 3); err == nil || !strings.Contains(err.Error(), "missing output llm") {
		t.Errorf("nothing: %v", err)
	}
}

// A batch of one is added or removed to match the file, and the type changes only as the
// projector's manifest declares.
func TestConnect(t *testing.T) {
	tokens := func(dtype abi.DType) abi.Port { return port("tokens", dtype, abi.Dim{Name: "T"}, abi.Dim{Size: 2}) }
	input := fp32([]int64{1, 2, 2}, 1, 2, 3, 70000)
	half := runtimes.Tensor{Type: runtimes.Float16, Shape: []int64{1, 2, 2}, Data: make([]byte, 8)}
	tensor.ToF16(half.Data, []float32{1, 2, 3, 70000})
	flat := input
	flat.Shape = []int64{2, 2}
	for name, c := range map[string]struct {
		input    runtimes.Tensor
		rank     int
		declared string
		want     runtimes.Tensor
		err      string
	}{
		"as it is":           {input, 3, "", input, ""},
		"of a rank unknown":  {input, 0, "", input, ""},
		"the batch goes":     {input, 2, "", flat, ""},
		"a batch comes":      {flat, 3, "", input, ""},
		"a declared cast":    {input, 3, "fp16", half, ""},
		"declared as it was": {input, 3, "fp32", input, ""},
		"too many":           {input, 4, "", input, ""},
		"far too many":       {flat, 4, "", flat, "the file takes rank 4"},
		"no cast to that":    {input, 3, "uint8", input, "cannot cast fp32 to uint8"},
	} {
		enc, proj := module("enc", abi.Port{}, tokens(abi.FP32)), module("proj", tokens(abi.FP32), abi.Port{})
		proj.Dims = map[string][]int64{"tokens": make([]int64, c.rank)}
		if c.declared != "" {
			proj.Manifest.Preprocess = modules.Preprocess{"tokens": preprocess.Spec{DType: c.declared}}
		}
		if name == "too many" {
			c.want.Shape = []int64{1, 1, 2, 2}
		}
		got, err := Connect(enc, proj, map[string]runtimes.Tensor{"tokens": c.input})
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", name, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(c.want, got["tokens"]); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	enc, proj := module("enc", abi.Port{}, tokens(abi.FP32)), module("proj", tokens(abi.FP32), abi.Port{})
	proj.Manifest.Inputs = append(proj.Manifest.Inputs, port("mask", abi.FP32))
	if _, err := Connect(enc, proj, map[string]runtimes.Tensor{"tokens": input}); err == nil || !strings.Contains(err.Error(), "proj@1.0.0 takes mask") {
		t.Errorf("an input that nobody gives: %v", err)
	}
}

// A preprocess block without an element type yields fp32, whatever the type of the port.
func TestDeclared(t *testing.T) {
	port := abi.Port{Name: "tokens", DType: abi.FP16}
	m := &modules.Manifest{}
	if got := declared(m, port); got != runtimes.Float16 {
		t.Errorf("without a block: %s", got)
	}
	m.Preprocess = modules.Preprocess{"tokens": preprocess.Spec{}}
	if got := declared(m, port); got != runtimes.Float32 {
		t.Errorf("by a block without dtype: %s", got)
	}
}

// Named sizes are those of the manifest, and equal in all dimensions of a name; the cap is
// inclusive.
func TestSizes(t *testing.T) {
	named := port("out", abi.FP32, abi.Dim{Name: "T"}, abi.Dim{Name: "T"})
	for _, c := range []struct {
		shape []int64
		size  float64
		err   string
	}{
		{[]int64{2, 2}, 0, ""}, {[]int64{1, 2, 2}, 0, ""}, {[]int64{2, 3}, 0, "T: got 3, want 2"}, {[]int64{2, 2}, 2, ""}, {[]int64{2, 2}, 3, "T: got 2, want 3"},
		{[]int64{2, 2, 2}, 0, "got a batch of 2, want 1"}, {[]int64{2}, 0, "got 1 dimensions, want 2"},
	} {
		s := module("dec", abi.Port{}, named)
		if c.size != 0 {
			s.Manifest.Params = modules.Figures{"T": c.size}
		}
		n := int64(1)
		for _, d := range c.shape {
			n *= d
		}
		x := fp32(c.shape, make([]float32, n)...)
		if _, err := Output(s, named, map[string]runtimes.Tensor{"out": x}); (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%v, T = %v: %v, want %q", c.shape, c.size, err, c.err)
		}
	}
	p := module("proj", abi.Port{}, port("llm", abi.FP32, abi.Dim{Name: "T_cap"}, abi.Dim{Name: "d_model"}))
	for n, ok := range map[int64]bool{0: false, 1: true, 3: true, 4: false} {
		if _, _, err := Vectors(p, map[string]runtimes.Tensor{"llm": fp32([]int64{n, 1}, make([]float32, n)...)}, 3); (err == nil) != ok {
			t.Errorf("%d vectors of at most 3: %v", n, err)
		}
	}
}
