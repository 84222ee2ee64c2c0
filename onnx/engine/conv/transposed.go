package conv

import (
	"fmt"

	"mm-abi.org/mm/core/tensor"
)

// Transposed holds the weights of a transposed convolution with adjacent
// windows: the strides equal the kernel's size, and each output depends on one
// input pixel.
type Transposed struct {
	kernels tensor.ConvKernels
	in, out int
	kernel  [2]int
	parts   []*Filter // for each kernel element; a single one for all if Plain
	plain   bool
}

// NewTransposed packs weights, which are in × out × rows × columns, and a bias,
// which may be nil.
func NewTransposed(k tensor.ConvKernels, in, out int, kernel [2]int, weights, bias []float32, room func(n int) ([]float32, error)) (*Transposed, error) {
	size := kernel[0] * kernel[1]
	if in < 1 || out < 1 || len(weights) != in*out*size || bias != nil && len(bias) != out {
		panic(fmt.Sprintf("conv: %d weights from %d to %d channels by %v", len(weights), in, out, kernel))
	}
	t := &Transposed{kernels: k, in: in, out: out, kernel: kernel, plain: out < k.Lanes()/2}
	each, parts := out, size
	if t.plain {
		each, parts = out*size, 1
	}
	w := make([]float32, each*in)
	for p := range parts {
		var b []float32
		if bias != nil {
			b = make([]float32, each)
		}
		for o := range each {
			at := o*size + p
			if t.plain {
				at = o
			}
			for i := range in {
				w[o*in+i] = weights[i*out*size+at]
			}
			if b != nil {
				b[o] = bias[at/size]
			}
		}
		f, err := NewFilter(k, Spec{In: in, Out: each, Groups: 1, Kernel: [2]int{1, 1}}, w, b, room)
		if err != nil {
			return nil, err
		}
		t.parts = append(t.parts, f)
	}
	return t, nil
}

// Plain reports whether results are plain images, which have few channels.
func (t *Transposed) Plain() bool { return t.plain }

// Channels returns the numbers of input and output channels.
func (t *Transposed) Channels() (in, out int) { return t.in, t.out }

// Kernel returns the size of the windows.
func (t *Transposed) Kernel() [2]int { return t.kernel }

// Do convolves the images of a batch, of the given rows and columns.
func (t *Transposed) Do(work *Work, size [2]int, batch int, out, x []float32, after After) error {
	lanes := t.kernels.Lanes()
	to := [2]int{size[0] * t.kernel[0], size[1] * t.kernel[1]}
	in, res := Blocks(t.in, lanes)*lanes*size[0]*size[1], Blocks(t.out, lanes)*lanes*to[0]*to[1]
	if t.plain {
		res = t.out * to[0] * to[1]
	}
	if len(x) != batch*in || len(out) != batch*res {
		panic(fmt.Sprintf("conv: %d and %d elements from %d to %d channels of %v", len(x), len(out), t.in, t.out, size))
	}
	w := Window{In: size, Out: size, Kernel: [2]int{1, 1}, Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}}
	var line []float32
	for _, f := range t.parts {
		f.look(w)
	}
	if t.plain {
		var err error
		if line, err = work.Room(len(work.Rows) * len(t.parts[0].bias) * size[1]); err != nil {
			return err
		}
	}
	panels := t.parts[0].panels
	tasks := len(panels)
	if t.plain {
		tasks = 1
	}
	per := pieces(size[0]*tasks, size[1]*2*t.in*t.kernel[0]*t.kernel[1])
	chunks := (size[0] + per - 1) / per
	for n := range batch {
		img, o := x[n*in:(n+1)*in], out[n*res:(n+1)*res]
		work.For(chunks*tasks, 1, func(thread, lo, hi int) {
			row := &work.Rows[thread]
			for c := lo; c < hi; c++ {
				y0 := c % chunks * per
				y1 := min(y0+per, size[0])
				if t.plain {
					each := len(line) / len(work.Rows)
					t.few(row, line[thread*each:(thread+1)*each], o, img, size, y0, y1, after)
				} else {
					t.many(row, c/chunks, o, img, size, y0, y1, after)
				}
			}
			*row = tensor.Row{}
		})
	}
	return nil
}

// start sets up a row of a part's panel.
func (f *Filter) start(row *tensor.Row, p int, x []float32, n int) {
	lanes, panel := f.kernels.Lanes(), f.panels[p]
	*row = tensor.Row{
		X: x, Pixel: lanes, Depth: 1, Taps: f.taps[0], Blocks: panel.blocks, W: f.weights[panel.at:],
		Bias: f.bias[panel.first*lanes:], N: n, Low: -infinity, High: infinity,
	}
}

// many computes the output rows of the input rows [y0, y1) in a panel's
// channels: each kernel element writes pixels and rows at the stride of the
// convolution.
func (t *Transposed) many(row *tensor.Row, p int, out, x []float32, size [2]int, y0, y1 int, after After) {
	lanes, width := t.kernels.Lanes(), size[1]*t.kernel[1]
	plane := size[0] * t.kernel[0] * width * lanes
	for i, f := range t.parts {
		f.start(row, p, x, size[1])
		row.Step, row.Plane, row.Low, row.High = t.kernel[1]*lanes, plane, after.Low, after.High
		for y := y0; y < y1; y++ {
			row.At = y * size[1] * lanes
			row.Out = out[f.panels[p].first*plane+((y*t.kernel[0]+i/t.kernel[1])*width+i%t.kernel[1])*lanes:]
			t.kernels.Dense(row)
		}
	}
	if after.Shape != nil {
		panel := t.parts[0].panels[p]
		for b := range panel.blocks {
			seg := out[(panel.first+b)*plane+y0*t.kernel[0]*width*lanes : (panel.first+b)*plane+y1*t.kernel[0]*width*lanes]
			t.kernels.Shape(seg, seg, after.Shape)
		}
	}
}

// few computes all channels of the output rows, through a line of the input's
// width whose channels are the kernel's elements.
func (t *Transposed) few(row *tensor.Row, line, out, x []float32, size [2]int, y0, y1 int, after After) {
	lanes, width, f := t.kernels.Lanes(), size[1]*t.kernel[1], t.parts[0]
	plane := size[0] * t.kernel[0] * width
	for y := y0; y < y1; y++ {
		for p, panel := range f.panels {
			f.start(row, p, x, size[1])
			row.Step, row.Plane, row.Low, row.High = lanes, size[1]*lanes, after.Low, after.High
			row.At, row.Out = y*size[1]*lanes, line[panel.first*size[1]*lanes:]
			t.kernels.Dense(row)
		}
		if after.Shape != nil {
			t.kernels.Shape(line, line, after.Shape)
		}
		for i := range t.out * t.kernel[0] * t.kernel[1] {
			c, ky, kx := i/t.kernel[1]/t.kernel[0], i/t.kernel[1]%t.kernel[0], i%t.kernel[1]
			to := out[c*plane+(y*t.kernel[0]+ky)*width:][:width]
			from := line[i/lanes*size[1]*lanes+i%lanes:]
			for q, k := 0, kx; k < width; q, k = q+lanes, k+t.kernel[1] {
				to[k] = from[q]
			}
		}
	}
}
