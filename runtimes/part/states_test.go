package part

import (
	"math"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
)

// A decoder gets the last T_dec states, preceded by zeros if there are fewer. T_dec and the width
// are those of the manifest, then of the file.
func TestStates(t *testing.T) {
	named := abi.Shape{{Name: "T_dec"}, {Name: "d_model"}}
	three := []float32{1, 2, 3, 4, 5, 6}
	for name, c := range map[string]struct {
		shape  abi.Shape
		params modules.Figures
		dims   map[string][]int64
		dtype  abi.DType
		x      []float32
		want   []float32
		sizes  []int64
		err    string
	}{
		"all of them":        {shape: named, x: three, want: three, sizes: []int64{3, 2}},
		"the last":           {shape: named, params: modules.Figures{"T_dec": 2.0}, x: three, want: three[2:], sizes: []int64{2, 2}},
		"preceded by zeros":  {shape: named, params: modules.Figures{"T_dec": 4.0}, x: three, want: append([]float32{0, 0}, three...), sizes: []int64{4, 2}},
		"of the port":        {shape: abi.Shape{{Size: 1}, {Size: 2}}, x: three, want: three[4:], sizes: []int64{1, 2}},
		"of the file":        {shape: named, dims: map[string][]int64{"z": {1, 2, 0}}, x: three, want: three[2:], sizes: []int64{1, 2, 2}},
		"the manifest first": {shape: named, params: modules.Figures{"T_dec": 1.0}, dims: map[string][]int64{"z": {0, 2, 2}}, x: three, want: three[4:], sizes: []int64{1, 1, 2}},
		"halves":             {shape: named, dtype: abi.FP16, x: three, want: three, sizes: []int64{3, 2}},
		"another width":      {shape: named, params: modules.Figures{"d_model": 3.0}, x: three, err: "has width 3, the core's states have width 2"},
		"the file's width":   {shape: named, dims: map[string][]int64{"z": {0, 0, 5}}, x: three, err: "has width 5"},
		"no states":          {shape: named, x: nil, err: "the core has no states"},
		"nothing but zeros":  {shape: named, params: modules.Figures{"T_dec": 1.0}, x: nil, want: []float32{0, 0}, sizes: []int64{1, 2}},
		"NaN":                {shape: named, x: []float32{1, float32(math.NaN())}, err: "element 1 of the core's states is NaN"},
		"bytes":              {shape: named, dtype: abi.UInt8, x: three, err: "floating point"},
		"a flat port":        {shape: abi.Shape{{Name: "d_model"}}, x: three, err: "want [T_dec, d_model]"},
		"endless":            {shape: named, params: modules.Figures{"T_dec": float64(1 << 40)}, x: three, err: "states"},
		"a file of rank 4":   {shape: named, dims: map[string][]int64{"z": {0, 0, 0, 0}}, x: three, err: "takes rank 4"},
	} {
		dtype := c.dtype
		if dtype == "" {
			dtype = abi.FP32
		}
		s := module("dec", port("z", dtype), abi.Port{})
		s.Manifest.Inputs[0].Shape, s.Manifest.Params, s.Dims = c.shape, c.params, c.dims
		in, got, err := States(s, slices.Clone(c.x), 2)
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
		x, err := Floats(got)
		if err != nil || in != "z" || got.Type != runtimes.Elem(dtype) || !slices.Equal(x, c.want) || !slices.Equal(got.Shape, c.sizes) {
			t.Errorf("%s: %s %v %v, %v", name, in, got.Shape, x, err)
		}
	}
}

// Noise is the documented generator, and normally distributed.
func TestNoise(t *testing.T) {
	got := Noise(1, 3)
	// The first three by hand: SplitMix64(1) yields 910a2dec89025cc1, beeb8da1658eec67, …
	u, v := float64(0x910a2dec89025cc1>>11)/(1<<53), float64(0xbeeb8da1658eec67>>11)/(1<<53)
	r := math.Sqrt(-2 * math.Log(1-u))
	for i, want := range []float64{r * math.Cos(2*math.Pi*v), r * math.Sin(2*math.Pi*v)} {
		if math.Abs(float64(got[i])-want) > 1e-6 {
			t.Errorf("number %d is %v, want %v", i, got[i], want)
		}
	}
	if !slices.Equal(got, Noise(1, 100)[:3]) || slices.Equal(got, Noise(2, 3)) || len(Noise(1, 0)) != 0 {
		t.Error("the numbers depend on their count, or not on the seed")
	}
	const n = 1 << 16
	sum, square := 0.0, 0.0
	for _, x := range Noise(3, n) {
		sum, square = sum+float64(x), square+float64(x)*float64(x)
	}
	if mean, variance := sum/n, square/n; math.Abs(mean) > 0.02 || math.Abs(variance-1) > 0.03 {
		t.Errorf("mean %v, variance %v", mean, variance)
	}
}
