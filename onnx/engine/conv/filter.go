package conv

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/core/tensor"
)

// Filter holds the weights of a convolution in the order of the kernels.
type Filter struct {
	kernels    tensor.ConvKernels
	spec       Spec
	perChannel bool // depthwise: separate weights for each channel
	panels     []panel
	inputs     [][2]int // the input channels that panels read, each once
	weights    []float32
	bias       []float32
	room       func(n int) ([]float32, error) // allocates permanent memory
	wino       *winograd
	crowded    bool // no memory for wino

	// The taps for the size of the last image.
	seen Window
	taps []*tensor.Taps // dense: for each element of inputs
	edge *edges         // depthwise
}

// Spec describes the weights of a filter.
type Spec struct {
	In, Out, Groups int // channels of all groups
	Kernel          [2]int
	// Plain images have one channel after another instead of blocks: images of
	// few channels, usual as model inputs.
	Plain bool
}

// panel is up to two blocks of output channels.
type panel struct {
	first, blocks int
	inputs        int // index in the filter's inputs
	at            int // offset of its weights
}

// wasted is the maximum factor by which grouping may increase the work of a
// convolution: an output block in several groups reads the inputs of all of
// them.
const wasted = 3

// Fits reports whether a Filter supports the convolution: one group, groups of
// one channel in and out, and groups whose blocks do not read too many inputs.
func (s Spec) Fits(k tensor.ConvKernels) bool {
	if s.Groups < 1 || s.In < 1 || s.Out < 1 || s.In%s.Groups != 0 || s.Out%s.Groups != 0 {
		return false
	}
	if s.Groups == 1 || s.depthwise() {
		return s.Groups == 1 || !s.Plain
	}
	work := 0
	for b := range Blocks(s.Out, k.Lanes()) {
		in := s.sees(b, k.Lanes())
		work += k.Lanes() * (in[1] - in[0])
	}
	return !s.Plain && work <= wasted*s.Out*(s.In/s.Groups)
}

// depthwise reports whether each channel has separate weights.
func (s Spec) depthwise() bool { return s.Groups > 1 && s.In == s.Groups && s.Out == s.Groups }

// sees returns the input channels [0] to [1] that a block of outputs reads.
func (s Spec) sees(block, lanes int) [2]int {
	in, out := s.In/s.Groups, s.Out/s.Groups
	last := min((block+1)*lanes, s.Out) - 1
	return [2]int{block * lanes / out * in, (last/out + 1) * in}
}

// NewFilter packs weights, which are Out × In/Groups × rows × columns, and a
// bias, which may be nil, into memory allocated by room.
func NewFilter(k tensor.ConvKernels, s Spec, weights, bias []float32, room func(n int) ([]float32, error)) (*Filter, error) {
	size := s.Kernel[0] * s.Kernel[1]
	if !s.Fits(k) || len(weights) != s.Out*s.In/s.Groups*size || bias != nil && len(bias) != s.Out {
		panic(fmt.Sprintf("conv: %d weights for %+v", len(weights), s))
	}
	f := &Filter{kernels: k, spec: s, room: room, perChannel: s.depthwise()}
	lanes := k.Lanes()
	blocks := Blocks(s.Out, lanes)
	need := blocks * size * lanes
	if !f.perChannel {
		need = f.split()
	}
	memory, err := room(blocks*lanes + need)
	if err != nil {
		return nil, err
	}
	clear(memory)
	f.bias, f.weights = memory[:blocks*lanes], memory[blocks*lanes:]
	copy(f.bias, bias)
	if f.perChannel {
		for i, v := range weights {
			c, t := i/size, i%size
			f.weights[(c/lanes*size+t)*lanes+c%lanes] = v
		}
		return f, nil
	}
	in, out := s.In/s.Groups, s.Out/s.Groups
	for _, p := range f.panels {
		to, n := f.weights[p.at:], p.blocks*lanes
		s.spans(f.inputs[p.inputs], lanes, func(c0, c1 int) {
			for t := range size {
				for c := c0; c < c1; c++ {
					for o := p.first * lanes; o < min((p.first+p.blocks)*lanes, s.Out); o++ {
						if c/in == o/out {
							to[o-p.first*lanes] = weights[(o*in+c%in)*size+t]
						}
					}
					to = to[n:]
				}
			}
		})
	}
	return f, nil
}

// split creates the panels, of two blocks if both read the same inputs, and
// returns the size of their weights.
func (f *Filter) split() int {
	lanes, at := f.kernels.Lanes(), 0
	size := f.spec.Kernel[0] * f.spec.Kernel[1]
	blocks := Blocks(f.spec.Out, lanes)
	for b := 0; b < blocks; {
		in := f.spec.sees(b, lanes)
		p := panel{first: b, blocks: 1, inputs: slices.Index(f.inputs, in), at: at}
		if b+1 < blocks && f.spec.sees(b+1, lanes) == in {
			p.blocks = 2
		}
		if p.inputs < 0 {
			p.inputs = len(f.inputs)
			f.inputs = append(f.inputs, in)
		}
		f.panels = append(f.panels, p)
		at += (in[1] - in[0]) * size * p.blocks * lanes
		b += p.blocks
	}
	return at
}

// spans calls f for the contiguous parts of a range of input channels.
func (s *Spec) spans(in [2]int, lanes int, f func(c0, c1 int)) {
	if s.Plain {
		f(in[0], in[1])
		return
	}
	for c := in[0]; c < in[1]; {
		end := min(in[1], (c/lanes+1)*lanes)
		f(c, end)
		c = end
	}
}

// Spec returns the description of the filter's weights.
func (f *Filter) Spec() Spec { return f.spec }

// Do convolves the images of a batch. In and out are blocked.
func (f *Filter) Do(work *Work, w Window, batch int, out, x []float32, after After) error {
	lanes := f.kernels.Lanes()
	planes, width := Blocks(f.spec.In, lanes), lanes
	if f.spec.Plain {
		planes, width = f.spec.In, 1
	}
	in, res := planes*width*w.In[0]*w.In[1], len(f.bias)*w.Out[0]*w.Out[1]
	if len(x) != batch*in || len(out) != batch*res || after.Add != nil && len(after.Add) != len(out) || w.Kernel != f.spec.Kernel {
		panic(fmt.Sprintf("conv: %d and %d elements for %+v of %+v", len(x), len(out), w, f.spec))
	}
	for n := range batch {
		a := after
		if a.Add != nil {
			a.Add = a.Add[n*res : (n+1)*res]
		}
		o, img := out[n*res:(n+1)*res], x[n*in:(n+1)*in]
		if f.transforms(&w) && f.transform() {
			if err := f.byTransforms(work, w, o, img, a); err != nil {
				return err
			}
			continue
		}
		win := w
		if !w.inside() && (!f.perChannel || w.In[1] < edgy) {
			framed, err := w.pad(work, img, planes, width)
			if err != nil {
				return err
			}
			img, win.In, win.Before = framed, w.frame(), [2]int{}
		}
		if f.perChannel {
			f.depthwise(work, win, o, img, a)
		} else {
			f.dense(work, win, o, img, a)
		}
	}
	return nil
}

// edgy is the width of an image from which it is faster to compute the columns
// at the edges one by one than to copy the image into a frame.
const edgy = 64

// flat merges windows that are contiguous across rows into one row.
func (w *Window) flat() {
	if w.In[1] == w.Out[1] && w.Stride == [2]int{1, 1} && w.Kernel[1] == 1 {
		w.Out = [2]int{1, w.Out[0] * w.Out[1]}
	}
}

// look computes the taps for images of a size.
func (f *Filter) look(w Window) {
	if f.taps != nil && f.seen == w {
		return
	}
	f.seen, f.taps = w, nil
	lanes := f.kernels.Lanes()
	for _, in := range f.inputs {
		t := &tensor.Taps{}
		f.spec.spans(in, lanes, func(c0, c1 int) {
			for k := range w.Kernel[0] * w.Kernel[1] {
				at := k/w.Kernel[1]*w.Dilation[0]*w.In[1] + k%w.Kernel[1]*w.Dilation[1]
				if f.spec.Plain {
					t.Add(at, c1-c0, w.In[0]*w.In[1])
				} else {
					t.Add((c0/lanes*w.In[0]*w.In[1]+at)*lanes+c0%lanes, c1-c0, 1)
				}
			}
		})
		f.taps = append(f.taps, t)
	}
}

// dense computes an image that contains every window.
func (f *Filter) dense(work *Work, w Window, out, x []float32, after After) {
	f.look(w)
	lanes := f.kernels.Lanes()
	pixel, depth := lanes, 1
	if f.spec.Plain {
		pixel, depth = 1, w.In[0]*w.In[1]
	}
	plane := w.Out[0] * w.Out[1] * lanes
	line := w.In[1] * w.Stride[0] * pixel
	w.flat()
	// Parts are rows, or tiles if there is only one row.
	parts, size := w.Out[0], w.Out[1]
	if parts == 1 {
		size = min(size, 4*14)
		parts = (w.Out[1] + size - 1) / size
	}
	per := pieces(parts*len(f.panels), size*2*f.taps[0].Channels())
	chunks := (parts + per - 1) / per
	work.For(chunks*len(f.panels), 1, func(thread, lo, hi int) {
		row := &work.Rows[thread]
		for t := lo; t < hi; t++ {
			p, p0 := &f.panels[t/chunks], t%chunks*per
			p1 := min(p0+per, parts)
			*row = tensor.Row{
				X: x, Pixel: w.Stride[1] * pixel, Depth: depth, Taps: f.taps[p.inputs], Blocks: p.blocks,
				W: f.weights[p.at:], Bias: f.bias[p.first*lanes:], Step: lanes, Plane: plane, N: w.Out[1],
				Low: after.Low, High: after.High,
			}
			first, n := p0*size, (p1-p0)*size // pixels
			if w.Out[0] == 1 {
				n = min(n, w.Out[1]-first)
				row.N, row.At = n, first*row.Pixel
				f.one(row, out, after.Add, p.first*plane+first*lanes)
			} else {
				for y := p0; y < p1; y++ {
					row.At = y * line
					f.one(row, out, after.Add, p.first*plane+y*w.Out[1]*lanes)
				}
			}
			if after.Shape != nil {
				for b := range p.blocks {
					seg := out[(p.first+b)*plane+first*lanes:][:n*lanes]
					f.kernels.Shape(seg, seg, after.Shape)
				}
			}
		}
		*row = tensor.Row{}
	})
}

// one computes a row.
func (f *Filter) one(row *tensor.Row, out, add []float32, at int) {
	row.Out = out[at:]
	if add != nil {
		row.Add = add[at:]
	}
	f.kernels.Dense(row)
}
