package window

import (
	"fmt"
	"math"

	"mm-abi.org/mm/onnx"
)

// norm writes RMSNorm or, if the model has them, LayerNorm of rows of C.
func (w *writer) norm(name, x string) (string, error) {
	gain, err := w.vector(name+".weight", w.s.Width)
	if err != nil {
		return "", err
	}
	if gain == nil {
		return "", fmt.Errorf("missing tensor %s.weight", name)
	}
	bias, err := w.vector(name+".bias", w.s.Width)
	if err != nil {
		return "", err
	}
	return w.normalized(name, x, gain, bias, w.s.Width), nil
}

// normalized writes x/√(mean(x²)+ε)·gain + bias over the last axis, for
// LayerNorm of x minus its mean. dims are those of gain and bias.
//
// In 16-bit floats, x² is infinite above 256 and 0 below 2⁻⁷, and ε is 0 if it
// is scaled down with x. So each row is first divided by m, a quarter of its
// largest number, and ε by m²: the squares are at most 16, and their mean at
// least 16/C. m is at least √ε, so that (√ε/m)² is at most 1, and neither 0 nor
// infinite for a row of zeros. It is a quarter because an NPU multiplies by 1/m,
// which is 0 for m above 2¹⁴.
func (w *writer) normalized(name, x string, gain, bias []float32, dims ...int) string {
	g, root := w.g, math.Sqrt(float64(w.s.Epsilon))
	last, keep := onnx.IntList("axes", -1), onnx.Int("keepdims", 1)
	most := g.Add("ReduceMax", []string{g.Add("Abs", []string{x}, name+".abs")}, name+".max", last, keep)
	most = g.Add("Max", []string{most, w.number("least", float32(4*max(root, minSize)))}, name+".most")
	size := g.Add("Mul", []string{most, w.number("quarter", 0.25)}, name+".size")
	small := g.Add("Div", []string{x, size}, name+".small")
	if w.style.LayerNorm {
		small = g.Add("Sub", []string{small, g.Add("ReduceMean", []string{small}, name+".middle", last, keep)}, name+".centered")
	}
	mean := g.Add("ReduceMean", []string{g.Add("Mul", []string{small, small}, name+".square")}, name+".mean", last, keep)
	e := g.Add("Div", []string{w.number("root_epsilon", float32(root)), size}, name+".root_epsilon")
	sum := g.Add("Add", []string{mean, g.Add("Mul", []string{e, e}, name+".epsilon")}, name+".more")
	unit := g.Add("Div", []string{small, g.Add("Sqrt", []string{sum}, name+".root")}, name+".unit")
	out := name
	if bias != nil {
		out = name + ".scaled"
	}
	y := g.Add("Mul", []string{unit, w.floats(name+".weight", gain, dims...)}, out)
	if bias == nil {
		return y
	}
	return g.Add("Add", []string{y, w.floats(name+".bias", bias, dims...)}, name)
}

// minSize is the least divisor of a row, the smallest normal 16-bit float.
const minSize = 1.0 / (1 << 14)
