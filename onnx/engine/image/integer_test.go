package image_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/onnxtest"
)

func TestConvInteger(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	const batch, cin, cout, groups, h, w = 2, 4, 6, 2, 9, 11
	x, k := onnxtest.Bytes8(r, onnx.UINT8, batch, cin, h, w), onnxtest.Bytes8(r, onnx.INT8, cout, cin/groups, 3, 3)
	zx, zk := onnxtest.Bytes8(r, onnx.UINT8, 1), onnxtest.Bytes8(r, onnx.INT8, cout)
	var want []int32
	for n := range batch {
		for o := range cout {
			for y := range h {
				for q := range w {
					var s int32
					for c := range cin / groups {
						for i := range 3 {
							for j := range 3 {
								py, px := y+i-1, q+j-1
								if py < 0 || py >= h || px < 0 || px >= w {
									continue
								}
								v := int32(x.Bytes()[((n*cin+o/(cout/groups)*(cin/groups)+c)*h+py)*w+px]) - int32(zx.Bytes()[0])
								s += v * (int32(kernel.Elements[int8](k)[((o*cin/groups+c)*3+i)*3+j]) - int32(kernel.Elements[int8](zk)[o]))
							}
						}
					}
					want = append(want, s)
				}
			}
		}
	}
	for _, fixed := range []bool{false, true} {
		tr := onnxtest.Trial{Node: onnxtest.Node("ConvInteger", onnx.Int("group", groups), onnx.IntList("pads", 1, 1, 1, 1)), In: []*kernel.Array{x, k, zx, zk}, Fixed: []bool{false, fixed, false, fixed}}
		got := tr.Same(t, "ConvInteger")[0]
		for i, v := range kernel.Elements[int32](got) {
			if v != want[i] {
				t.Fatalf("element %d of %v: got %d, want %d", i, got.Shape, v, want[i])
			}
		}
	}
}

// Convolutions of bytes are equal to those of int16, which zero points of the
// weights that are not constant select.
func TestBytesConv(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 9))
	for name, c := range map[string]struct {
		x, k  []int
		zeros int // zero points of the weights; 0: none
		attrs []onnx.Attribute
	}{
		"1-D":            {[]int{1, 8, 100}, []int{16, 8, 3}, 1, []onnx.Attribute{onnx.IntList("pads", 1, 1)}},
		"dilated":        {[]int{2, 12, 70}, []int{9, 12, 7}, 9, []onnx.Attribute{onnx.IntList("pads", 9, 9), onnx.IntList("dilations", 3)}},
		"uneven":         {[]int{1, 5, 33}, []int{11, 5, 2}, 0, nil},
		"one tile":       {[]int{1, 4, 16}, []int{8, 4, 1}, 1, nil},
		"two dimensions": {[]int{2, 6, 7, 40}, []int{10, 6, 3, 3}, 1, []onnx.Attribute{onnx.IntList("pads", 1, 1, 1, 1), onnx.IntList("strides", 2, 1)}},
		"groups":         {[]int{1, 12, 40}, []int{24, 4, 5}, 24, []onnx.Attribute{onnx.Int("group", 3), onnx.IntList("pads", 2, 2)}},
		"many tiles":     {[]int{1, 64, 600}, []int{72, 64, 3}, 1, []onnx.Attribute{onnx.IntList("pads", 1, 1)}},
	} {
		for _, xt := range []onnx.DType{onnx.UINT8, onnx.INT8} {
			for _, kt := range []onnx.DType{onnx.UINT8, onnx.INT8} {
				in := []*kernel.Array{onnxtest.Bytes8(r, xt, c.x...), onnxtest.Bytes8(r, kt, c.k...), onnxtest.Bytes8(r, xt, 1)}
				if c.zeros > 0 {
					in = append(in, onnxtest.Bytes8(r, kt, c.zeros))
				}
				tr := onnxtest.Trial{Node: onnxtest.Node("ConvInteger", c.attrs...), In: in, Fixed: []bool{false, true, false, true}}
				got := tr.Same(t, name)[0]
				tr.Fixed = nil
				want := tr.Same(t, name)[0]
				if d := cmp.Diff(kernel.Elements[int32](want), kernel.Elements[int32](got)); d != "" {
					t.Errorf("%s %s %s (-want +got):\n%.400s", name, xt, kt, d)
				}
			}
		}
	}
}
