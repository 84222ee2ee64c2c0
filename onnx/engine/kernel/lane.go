package kernel

import "mm-abi.org/mm/core/tensor"

// Lane is the workspace of one thread.
type Lane struct {
	cols   []float32
	panels *tensor.Panels[float32]
	second *tensor.Panels[float32]
}

// Room returns n elements and panels for k×w numbers.
func (l *Lane) Room(n, k, w int) ([]float32, *tensor.Panels[float32]) {
	if cap(l.cols) < n {
		l.cols = make([]float32, n)
	}
	if l.panels == nil {
		l.panels = tensor.NewPanels[float32](k, w)
	}
	l.panels.Resize(k, w)
	return l.cols[:n], l.panels
}

// Pair returns panels for k×n and for n×e numbers.
func (l *Lane) Pair(k, n, e int) (first, second *tensor.Panels[float32]) {
	_, first = l.Room(0, k, n)
	if l.second == nil {
		l.second = tensor.NewPanels[float32](n, e)
	}
	l.second.Resize(n, e)
	return first, l.second
}

// Kept packs weights that are kept between runs, and counts their memory.
func (c *Call) Kept(b []float32, k, n int, trans bool) (*tensor.Panels[float32], error) {
	if err := c.Arena.Keep(tensor.PanelsSize[float32](k, n)); err != nil {
		return nil, err
	}
	p := tensor.NewPanels[float32](k, n)
	Pack(p, b, k, n, trans)
	return p, nil
}

// Pack stores a k×n matrix, or the transpose of an n×k one.
func Pack(p *tensor.Panels[float32], b []float32, k, n int, trans bool) {
	if trans {
		p.PackTransposed(b, k)
	} else {
		p.Pack(b, n)
	}
}

// After is fused into a convolution: results are clamped to Low…High, then
// Shape is applied, if set.
type After struct {
	Low, High float32
	Shape     *tensor.Shaper
}
