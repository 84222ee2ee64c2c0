package image_test

import (
	"math/rand/v2"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/engine/op/optest"
)

func TestConvInteger(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	const batch, cin, cout, groups, h, w = 2, 4, 6, 2, 9, 11
	x, k := optest.Bytes8(r, onnx.UINT8, batch, cin, h, w), optest.Bytes8(r, onnx.INT8, cout, cin/groups, 3, 3)
	zx, zk := optest.Bytes8(r, onnx.UINT8, 1), optest.Bytes8(r, onnx.INT8, cout)
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
		tr := optest.Trial{Node: optest.Node("ConvInteger", onnx.Int("group", groups), onnx.IntList("pads", 1, 1, 1, 1)), In: []*kernel.Array{x, k, zx, zk}, Fixed: []bool{false, fixed, false, fixed}}
		got := tr.Same(t, "ConvInteger")[0]
		for i, v := range kernel.Elements[int32](got) {
			if v != want[i] {
				t.Fatalf("element %d of %v: got %d, want %d", i, got.Shape, v, want[i])
			}
		}
	}
}
