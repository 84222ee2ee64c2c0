package hf

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/core/tensor"
)

// Blocks of the folder and of GGUF hold the same numbers, of all rows or of every
// second one.
func TestBlocks(t *testing.T) {
	const experts, rows, groups = 2, 4, 3
	numbers := make([]byte, experts*rows*groups*blockBytes)
	for i := range numbers {
		numbers[i] = byte(i*37 + i/7)
	}
	exponents := make([]byte, experts*rows*groups)
	for i := range exponents {
		exponents[i] = byte(120 + i%9)
	}
	table := []float32{0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6}
	number := func(e, r, c int) float32 {
		g := ((e*rows+r)*groups + c/blockNumbers)
		b := numbers[g*blockBytes+c%blockNumbers/2] >> (c % 2 * 4) & 15
		return table[b] * float32(uint64(1)<<(exponents[g]-120)) / 128
	}
	all := map[string]safetensors.Tensor{
		"w_blocks": {Name: "w_blocks", DType: safetensors.U8, Shape: []int{experts, rows, groups, blockBytes}, Data: numbers},
		"w_scales": {Name: "w_scales", DType: safetensors.U8, Shape: []int{experts, rows, groups}, Data: exponents},
	}
	for _, c := range []struct {
		part  string
		first int
		step  int
		rows  int
	}{{"whole", 0, 1, rows}, {"even", 0, 2, rows / 2}, {"odd", 1, 2, rows / 2}} {
		b := &builder{weights: &weights{all: all, used: map[string]bool{}}, family: family{names: names{halves: map[string]half{"even": {turns: true}, "odd": {turns: true, second: true}}}}}
		src, ok := b.blocksOf("w", c.part, arch.Tensor{Name: "t", Dims: []int{groups * blockNumbers, c.rows, experts}})
		if !ok || b.err() != nil {
			t.Fatal(c.part, ok, b.err())
		}
		var out bytes.Buffer
		if _, err := src.Data.WriteTo(&out); err != nil {
			t.Fatal(err)
		}
		got := make([]float32, experts*c.rows*groups*blockNumbers)
		quant.Dequantize(got, out.Bytes(), tensor.MXFP4)
		var want []float32
		for e := range experts {
			for r := range c.rows {
				for n := range groups * blockNumbers {
					want = append(want, number(e, c.first+c.step*r, n))
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the numbers differ", c.part)
		}
		if !b.used["w_blocks"] || !b.used["w_scales"] {
			t.Errorf("%s: used %v", c.part, b.used)
		}
	}
	exponents[5] = 0xff
	b := &builder{weights: &weights{all: all, used: map[string]bool{}}}
	src, _ := b.blocksOf("w", "whole", arch.Tensor{Name: "t", Dims: []int{groups * blockNumbers, rows, experts}})
	if _, err := src.Data.WriteTo(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "exponent 5") {
		t.Errorf("an infinite exponent: %v", err)
	}
	for name, dims := range map[string][]int{"rows": {groups * blockNumbers, rows + 1, experts}, "columns": {groups*blockNumbers + 1, rows, experts}} {
		b := &builder{weights: &weights{all: all, used: map[string]bool{}}}
		if b.blocksOf("w", "whole", arch.Tensor{Name: "t", Dims: dims}); b.err() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
