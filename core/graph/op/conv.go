package op

import (
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/core/graph/array"
	"mm-abi.org/mm/core/onnx"
	"mm-abi.org/mm/core/tensor"
)

// Lane is the workspace of one thread.
type Lane struct {
	cols   []float32
	panels *tensor.Panels[float32]
}

// room gives n elements and panels for k×w numbers.
func (l *Lane) room(n, k, w int) ([]float32, *tensor.Panels[float32]) {
	if cap(l.cols) < n {
		l.cols = make([]float32, n)
	}
	if l.panels == nil {
		l.panels = tensor.NewPanels[float32](k, w)
	}
	l.panels.Resize(k, w)
	return l.cols[:n], l.panels
}

// convolution is what input, weights and attributes agree on.
type convolution struct {
	window
	batch, groups  int
	cin, cout      int // channels of a group
	inputs, result int // channels of all
}

func (c *Call) convolution(x, w []int) (g convolution, err error) {
	if len(x) < 3 || len(w) != len(x) {
		return g, fmt.Errorf("a kernel of %v over %v", w, x)
	}
	g.groups = c.int("group", 1)
	g.batch, g.inputs, g.result = x[0], x[1], w[0]
	if g.groups < 1 || g.inputs%g.groups != 0 || g.result%g.groups != 0 || w[1] != g.inputs/g.groups || g.result == 0 || g.inputs == 0 {
		return g, fmt.Errorf("a kernel of %v over %v in %d groups", w, x, g.groups)
	}
	g.cin, g.cout = g.inputs/g.groups, g.result/g.groups
	if g.window, err = c.window(x[2:], w[2:]); err != nil {
		return g, err
	}
	if err := c.slide(&g.window); err != nil {
		return g, err
	}
	return g, g.sound(g.cin)
}

// convolve is Conv: per group, the weights times the columns that the kernel sees,
// tile by tile of outputs, so that a tile's columns stay in the cache.
func convolve(c *Call) error {
	in, err := c.floats(0, 1, 2)
	if err != nil {
		return err
	}
	g, err := c.convolution(c.In[0].Shape, c.In[1].Shape)
	if err != nil {
		return err
	}
	if err := c.lengths(g.result, 2); err != nil {
		return err
	}
	out, err := c.result(0, onnx.FLOAT, g.outs(g.batch, g.result)...)
	if err != nil || out.Len() == 0 {
		return err
	}
	o := array.Of[float32](out)
	if g.cin == 1 && g.cout <= 4 {
		c.each(g.batch*g.result, g.outSize*g.kernelSize, func(_, lo, hi int) {
			for r := lo; r < hi; r++ {
				k := r % g.result
				plane := o[r*g.outSize : (r+1)*g.outSize]
				bias(plane, in[2], k)
				g.depthwise(plane, in[0][(r/g.result*g.inputs+k/g.cout)*g.inSize:], in[1][k*g.kernelSize:])
				c.after(plane, 0)
			}
		})
		return nil
	}
	k := g.cin * g.kernelSize
	weights, ld := c.apart(in[1], k)
	tile := min(g.outSize, max(64, (1<<17)/k/32*32))
	tiles := (g.outSize + tile - 1) / tile
	block := g.cout
	if tiles*g.batch*g.groups < 8 && g.cout >= 48 {
		block = (g.cout/4 + 11) / 12 * 12
	}
	blocks := (g.cout + block - 1) / block
	c.each(g.batch*g.groups*tiles*blocks, grain, func(thread, lo, hi int) {
		for t := lo; t < hi; t++ {
			rest, b := t/blocks, t%blocks
			n, gr, p := rest/tiles/g.groups, rest/tiles%g.groups, rest%tiles*tile
			first, rows := gr*g.cout+b*block, min(block, g.cout-b*block)
			g.tile(&c.Lanes[thread], o[(n*g.result+first)*g.outSize:], in[0][(n*g.inputs+gr*g.cin)*g.inSize:], weights[first*ld:], ld, rows, p, min(p+tile, g.outSize))
			for r := range rows {
				at := (n*g.result+first+r)*g.outSize + p
				seg := o[at : at+min(tile, g.outSize-p)]
				add := float32(0)
				if in[2] != nil {
					add = in[2][first+r]
				}
				c.after(seg, add)
			}
		}
	})
	return nil
}

// apart gives fixed weights with rows at a distance at which the product does
// not have them evict each other.
func (c *Call) apart(weights []float32, k int) ([]float32, int) {
	ld := tensor.Stride(k)
	if ld == k || !c.fixed(1) {
		return weights, k
	}
	if w, ok := (*c.Cache).([]float32); ok {
		return w, ld
	}
	w := make([]float32, len(weights)/k*ld)
	for r := range len(weights) / k {
		copy(w[r*ld:], weights[r*k:(r+1)*k])
	}
	*c.Cache = w
	return w, ld
}

// bias fills a plane with its channel's bias.
func bias(plane, values []float32, k int) {
	v := float32(0)
	if values != nil {
		v = values[k]
	}
	for i := range plane {
		plane[i] = v
	}
}

// tile computes the outputs [p0, p1) of some channels of a group.
func (g *convolution) tile(l *Lane, o, x, weights []float32, ld, rows, p0, p1 int) {
	k, n := g.cin*g.kernelSize, p1-p0
	if g.kernelSize == 1 && g.stride == [3]int{1, 1, 1} && g.before == [3]int{} && g.after == [3]int{} {
		_, panels := l.room(0, k, n)
		panels.Pack(x[p0:(k-1)*g.inSize+p1], g.inSize)
		panels.Mul(rows, 1, tensor.Rows(weights, ld), 0, o[p0:], g.outSize)
		return
	}
	cols, panels := l.room(k*n, k, n)
	for ch := range g.cin {
		columns(&g.window, cols[ch*g.kernelSize*n:], n, x[ch*g.inSize:(ch+1)*g.inSize], p0, p1)
	}
	panels.Pack(cols, n)
	panels.Mul(rows, 1, tensor.Rows(weights, ld), 0, o[p0:], g.outSize)
}

// depthwise adds one channel's convolution to a plane, tap by tap.
func (g *convolution) depthwise(o, x, weights []float32) {
	for k := range g.kernelSize {
		kd, kh, kw := k/(g.kernel[1]*g.kernel[2]), k/g.kernel[2]%g.kernel[1], k%g.kernel[2]
		d0, d1 := g.span(0, kd)
		h0, h1 := g.span(1, kh)
		w0, w1 := g.span(2, kw)
		if w0 >= w1 {
			continue
		}
		v := weights[k]
		for d := d0; d < d1; d++ {
			for h := h0; h < h1; h++ {
				id, ih := d*g.stride[0]+kd*g.dilation[0]-g.before[0], h*g.stride[1]+kh*g.dilation[1]-g.before[1]
				at := (id*g.in[1]+ih)*g.in[2] + w0*g.stride[2] + kw*g.dilation[2] - g.before[2]
				row := o[(d*g.out[1]+h)*g.out[2]+w0:][:w1-w0]
				if g.stride[2] == 1 {
					tensor.Axpy(row, v, x[at:at+len(row)])
					continue
				}
				for i := range row {
					row[i] += v * x[at+i*g.stride[2]]
				}
			}
		}
	}
}

// after adds a channel's bias and applies what was joined to the node.
func (c *Call) after(x []float32, add float32) {
	switch a := c.After; {
	case a == nil && add == 0:
	case a == nil:
		for i, v := range x {
			x[i] = v + add
		}
	case a.Low == 0 && a.High == float32(math.Inf(1)):
		relu(x, x, add)
	default:
		for i, v := range x {
			if v += add; v < a.Low {
				v = a.Low
			}
			if v > a.High {
				v = a.High
			}
			x[i] = v
		}
	}
	if c.After != nil && c.After.Shape != nil {
		c.After.Shape.Apply(x)
	}
}

// relu is o = max(x + add, 0), by the sign bit: signs are as good as random,
// and a branch on them is mostly taken wrong. A NaN stays one.
func relu(o, x []float32, add float32) {
	x = x[:len(o)]
	const least = 0xff800000 // -Inf; above it are NaNs
	for i, v := range x {
		b := math.Float32bits(v + add)
		if b > least {
			o[i] = v
			continue
		}
		o[i] = math.Float32frombits(b &^ uint32(int32(b)>>31))
	}
}

// convTranspose is the gradient of Conv in its input: weights times input
// gives what each input element adds to the outputs around it.
func convTranspose(c *Call) error {
	in, err := c.floats(0, 1, 2)
	if err != nil {
		return err
	}
	x, w := c.In[0].Shape, c.In[1].Shape
	groups := c.int("group", 1)
	if len(x) < 3 || len(w) != len(x) || groups < 1 || x[1]%groups != 0 || w[0] != x[1] || w[1] == 0 || x[1] == 0 {
		return fmt.Errorf("a kernel of %v over %v in %d groups", w, x, groups)
	}
	g, err := c.window(x[2:], w[2:])
	if err != nil {
		return err
	}
	if err := c.widen(&g); err != nil {
		return err
	}
	cin, cout := x[1]/groups, w[1]
	if err := g.sound(cout); err != nil {
		return err
	}
	if err := c.lengths(cout*groups, 2); err != nil {
		return err
	}
	out, err := c.result(0, onnx.FLOAT, g.outs(x[0], cout*groups)...)
	if err != nil || out.Len() == 0 {
		return err
	}
	k := cout * g.kernelSize
	cols, err := c.Arena.New(onnx.FLOAT, k, g.inSize)
	if err != nil {
		return err
	}
	defer c.Arena.Release(cols)
	o, cs := array.Of[float32](out), array.Of[float32](cols)
	for i := range x[0] * groups {
		gr := i % groups
		if g.inSize > 0 {
			weights := in[1][gr*cin*k : (gr+1)*cin*k]
			p := tensor.NewPanels[float32](cin, g.inSize)
			p.Pack(in[0][i*cin*g.inSize:(i+1)*cin*g.inSize], g.inSize)
			c.multiply(cs, k, tensor.Columns(weights, k), p, cin, g.inSize)
		}
		c.each(cout, g.kernelSize*g.inSize, func(_, lo, hi int) {
			for ch := lo; ch < hi; ch++ {
				plane := o[(i*cout+ch)*g.outSize : (i*cout+ch+1)*g.outSize]
				bias(plane, in[2], gr*cout+ch)
				g.scatter(plane, cs[ch*g.kernelSize*g.inSize:])
				c.after(plane, 0)
			}
		})
	}
	return nil
}

// widen finds the size of the output of a transposed convolution.
func (c *Call) widen(g *window) error {
	extra, shape, auto := c.ints("output_padding"), c.ints("output_shape"), c.text("auto_pad", "NOTSET")
	if extra != nil && len(extra) != g.rank || shape != nil && len(shape) < g.rank {
		return fmt.Errorf("output_padding %v and output_shape %v", extra, shape)
	}
	for k := 3 - g.rank; k < 3; k++ {
		i, add := k-3+g.rank, 0
		if extra != nil {
			add = extra[i]
		}
		if add < 0 || add > 1<<20 || g.in[k] > 1<<24 {
			return fmt.Errorf("output_padding %v", extra)
		}
		full := g.stride[k]*(g.in[k]-1) + add + (g.kernel[k]-1)*g.dilation[k] + 1
		switch {
		case shape != nil || auto == "SAME_UPPER" || auto == "SAME_LOWER":
			g.out[k] = g.in[k] * g.stride[k]
			if shape != nil {
				g.out[k] = shape[len(shape)-g.rank+i]
			}
			if g.out[k] < 0 || g.out[k] > math.MaxInt32 {
				return fmt.Errorf("output_shape %v", shape)
			}
			total := max(0, full-g.out[k])
			g.before[k] = total / 2
			if auto == "SAME_LOWER" || shape != nil && auto == "NOTSET" {
				g.before[k] = total - total/2
			}
			if shape != nil && auto == "NOTSET" {
				g.before[k] = total / 2
			}
		default:
			if auto == "VALID" {
				g.before[k], g.after[k] = 0, 0
			}
			g.out[k] = full - g.before[k] - g.after[k]
		}
	}
	if _, err := array.Count(g.out[:]); err != nil {
		return err
	}
	g.measure()
	return nil
}

// scatter adds what the kernel gives at each input to a plane of outputs.
func (w *window) scatter(o, cols []float32) {
	for k := range w.kernelSize {
		kd, kh, kw := k/(w.kernel[1]*w.kernel[2]), k/w.kernel[2]%w.kernel[1], k%w.kernel[2]
		// The inputs [lo, hi) of a row that reach the output.
		off, step := kw*w.dilation[2]-w.before[2], w.stride[2]
		lo, hi := 0, 0
		if off < 0 {
			lo = (-off + step - 1) / step
		}
		if last := w.out[2] - 1 - off; last >= 0 {
			hi = min(last/step+1, w.in[2])
		}
		if lo >= hi {
			continue
		}
		for r := range w.in[0] * w.in[1] {
			d := r/w.in[1]*w.stride[0] + kd*w.dilation[0] - w.before[0]
			h := r%w.in[1]*w.stride[1] + kh*w.dilation[1] - w.before[1]
			if d < 0 || d >= w.out[0] || h < 0 || h >= w.out[1] {
				continue
			}
			row, from := o[(d*w.out[1]+h)*w.out[2]:][:w.out[2]], cols[k*w.inSize+r*w.in[2]:][lo:hi]
			if step == 1 {
				tensor.Add(row[lo+off:hi+off], from)
				continue
			}
			at := lo*step + off
			for _, v := range from {
				row[at] += v
				at += step
			}
		}
	}
}

// pooling is MaxPool, AveragePool and LpPool.
func pooling[T number](c *Call) error {
	x := c.In[0]
	if x.Rank() < 3 {
		return fmt.Errorf("a window over %v", x.Shape)
	}
	w, err := c.window(x.Shape[2:], nil)
	if err != nil {
		return err
	}
	if err := c.slide(&w); err != nil {
		return err
	}
	if err := w.sound(1); err != nil {
		return err
	}
	out, err := c.result(0, x.Type, w.outs(x.Shape[0], x.Shape[1])...)
	if err != nil {
		return err
	}
	var places []int64
	if len(c.Out) > 1 {
		a, err := c.result(1, onnx.INT64, out.Shape...)
		if err != nil {
			return err
		}
		places = array.Of[int64](a)
	}
	if out.Len() == 0 {
		return nil
	}
	p := pooler{window: w, all: c.int("count_include_pad", 0) != 0, p: float64(c.int("p", 2))}
	xs, o := array.Of[T](x), array.Of[T](out)
	c.each(len(o)/w.outSize, w.outSize*min(w.kernelSize, w.inSize+1), func(_, lo, hi int) {
		for r := lo; r < hi; r++ {
			plane := xs[r*w.inSize : (r+1)*w.inSize]
			if places == nil && c.Node.Op != "LpPool" {
				byRows(&p, o[r*w.outSize:(r+1)*w.outSize], plane, c.Node.Op == "MaxPool")
				continue
			}
			for i := range w.outSize {
				at := r*w.outSize + i
				var place int
				if c.Node.Op == "MaxPool" {
					o[at], place = largest(&p, plane, i)
				} else {
					o[at] = T(p.norm(i, func(at int) float64 { return float64(plane[at]) }))
				}
				if places != nil {
					places[at] = int64(r*w.inSize + place)
				}
			}
		}
	})
	return nil
}

// byRows computes a plane of maxima or averages, tap by tap over whole rows.
func byRows[T number](p *pooler, o, x []T, most bool) {
	start := T(0)
	if most {
		start = extreme[T](nil, 1)
	}
	for i := range o {
		o[i] = start
	}
	n := p.out[2]
	for r := range len(o) / n {
		row := o[r*n : (r+1)*n]
		d0, d1, da := p.bounds(0, r/p.out[1])
		h0, h1, ha := p.bounds(1, r%p.out[1])
		for t := range (d1 - d0) * (h1 - h0) * p.kernel[2] {
			kw, d, h := t%p.kernel[2], d0+t/p.kernel[2]/(h1-h0), h0+t/p.kernel[2]%(h1-h0)
			lo, hi := p.span(2, kw)
			if lo >= hi {
				continue
			}
			line := x[((da+d*p.dilation[0])*p.in[1]+ha+h*p.dilation[1])*p.in[2]:][:p.in[2]]
			at, step := lo*p.stride[2]+kw*p.dilation[2]-p.before[2], p.stride[2]
			if most {
				for i := lo; i < hi; i++ {
					row[i] = max(row[i], line[at])
					at += step
				}
				continue
			}
			for i := lo; i < hi; i++ {
				row[i] += line[at]
				at += step
			}
		}
		if !most {
			p.divide(r*n, (d1-d0)*(h1-h0), func(i, n int) { row[i] /= T(n) })
		}
	}
}

// divide calls f with the number of elements that each output of a row, the
// first of which is at, is the average of.
func (p *pooler) divide(at, deep int, f func(i, n int)) {
	for i := range p.out[2] {
		n := p.covered(at + i)
		if !p.all {
			w0, w1, _ := p.bounds(2, i)
			n = deep * (w1 - w0)
		}
		f(i, n)
	}
}

// pooler is a window with what pools add to it.
type pooler struct {
	window
	all bool // padding counts in an average
	p   float64
}

// bounds gives the kernel elements [lo, hi) that lie within the input for
// output o, and where the first of all would lie.
func (w *window) bounds(dim, o int) (lo, hi, at int) {
	at = o*w.stride[dim] - w.before[dim]
	d := w.dilation[dim]
	if at < 0 {
		lo = (-at + d - 1) / d
	}
	if last := w.in[dim] - 1 - at; last >= 0 {
		hi = min(last/d+1, w.kernel[dim])
	}
	return lo, max(lo, hi), at
}

// visit calls f for the elements under the window of output i.
func (w *window) visit(i int, f func(at int)) {
	d0, d1, da := w.bounds(0, i/(w.out[1]*w.out[2]))
	h0, h1, ha := w.bounds(1, i/w.out[2]%w.out[1])
	w0, w1, wa := w.bounds(2, i%w.out[2])
	for d := d0; d < d1; d++ {
		for h := h0; h < h1; h++ {
			base := ((da+d*w.dilation[0])*w.in[1] + ha + h*w.dilation[1]) * w.in[2]
			for x := w0; x < w1; x++ {
				f(base + wa + x*w.dilation[2])
			}
		}
	}
}

func largest[T number](p *pooler, x []T, i int) (best T, place int) {
	best, place = extreme[T](nil, 1), 0
	first := true
	p.visit(i, func(at int) {
		if v := x[at]; first || v > best || v != v {
			best, place, first = v, at, false
		}
	})
	return best, place
}

// norm is the p-norm of the elements under the window of output i.
func (p *pooler) norm(i int, x func(at int) float64) float64 {
	sum := 0.0
	p.visit(i, func(at int) { sum += math.Pow(math.Abs(x(at)), p.p) })
	return math.Pow(sum, 1/p.p)
}

// covered is how many elements the window of output i has in the input and its
// padding: what ceil_mode adds beyond does not count.
func (w *window) covered(i int) int {
	n := 1
	for dim, o := range []int{i / (w.out[1] * w.out[2]), i / w.out[2] % w.out[1], i % w.out[2]} {
		n *= w.coveredIn(dim, o)
	}
	return n
}

// coveredIn is covered in one dimension.
func (w *window) coveredIn(dim, o int) int {
	last := w.in[dim] + w.after[dim] - 1 - (o*w.stride[dim] - w.before[dim])
	return min(last/w.dilation[dim]+1, w.kernel[dim])
}

// globalPool is one number for each channel.
func globalPool[T float32 | float64](c *Call) error {
	x := c.In[0]
	if x.Rank() < 3 {
		return fmt.Errorf("a pool over %v", x.Shape)
	}
	shape := slices.Clone(x.Shape)
	for i := 2; i < len(shape); i++ {
		shape[i] = 1
	}
	n := product(x.Shape[2:])
	f := folding[T]("ReduceMean")
	switch c.Node.Op {
	case "GlobalMaxPool":
		f = folding[T]("ReduceMax")
	case "GlobalLpPool":
		if c.int("p", 2) != 2 {
			return fmt.Errorf("p %d is not supported", c.int("p", 2))
		}
		f = folding[T]("ReduceL2")
	}
	return c.folded(x, shape, product(shape), n, func(x, out *Array, lo, hi, n int) {
		xs, o := array.Of[T](x), array.Of[T](out)
		for g := lo; g < hi; g++ {
			o[g] = f(xs[g*n : (g+1)*n])
		}
	})
}
