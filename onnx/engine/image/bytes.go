package image

import (
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// byteWeights are the weights of a ConvInteger for [tensor.MulBytes]: for each group
// and 8 of its channels, 4 bytes of 4 input channels for each step.
type byteWeights struct {
	data  []int8
	sums  []int32 // of each channel
	steps int
	rows  int // channels of a group, rounded up
	// shift is added to a byte of data to get the number, by channel.
	shift []int32
	// ones is a block of ones, whose products are the sums of the input; nil if every
	// shift is 0.
	ones []int8
}

// planeBytes bounds the bytes of the padded input of a group.
const planeBytes = 1 << 30

// bytesConv computes ConvInteger with the kernel for bytes, in place of integerConv:
// the bytes of the input are multiplied as they are, and the zero points are
// accounted for in the sums. It reports false for convolutions that it does not
// compute.
func bytesConv(c *kernel.Call) (bool, error) {
	x, k := c.In[0], c.In[1]
	zx, zw := c.Input(2), c.Input(3)
	one := zx == nil || zx.Len() == 1 && zx.Type == x.Type
	constant := c.Same(1) && (zw == nil || c.Same(3) && zw.Type == k.Type && len(k.Shape) > 0 && (zw.Len() == 1 || zw.Len() == k.Shape[0]))
	if !tensor.HasBytes() || !one || !constant || !byteType(x.Type) || !byteType(k.Type) || len(x.Shape) > 4 {
		return false, nil
	}
	g, err := convolutionOf(c, x.Shape, k.Shape)
	if err != nil || g.stride[2] != 1 || g.out[2] < tensor.BytesLanes/2 || g.cin < 4 || g.cout < tensor.BytesRows || g.batch < 1 || (g.cin+3)/4*g.plane().size > planeBytes {
		return false, nil
	}
	w, ok := (*c.Cache).(*byteWeights)
	if !ok {
		if w, err = g.pack(c, k, zw); err != nil {
			return true, err
		}
		*c.Cache = w
	}
	return true, g.bytes(c, x, zx, w)
}

func byteType(d onnx.DType) bool { return d == onnx.UINT8 || d == onnx.INT8 }

// pack orders the weights.
func (g *convolution) pack(c *kernel.Call, k, zw *kernel.Array) (*byteWeights, error) {
	const rows = tensor.BytesRows
	fours := (g.cin + 3) / 4
	w := &byteWeights{steps: fours * g.kernelSize, rows: (g.cout + rows - 1) / rows * rows}
	size := g.groups * w.rows * w.steps * 4
	if err := c.Arena.Keep(int64(size + 8*g.result)); err != nil {
		return nil, err
	}
	w.data, w.sums, w.shift = make([]int8, size), make([]int32, g.result), make([]int32, g.result)
	raw, flip := k.Bytes(), byte(0)
	if k.Type == onnx.UINT8 {
		flip = 0x80
	}
	for o := range g.result {
		w.shift[o] = int32(flip)
		if zw != nil {
			w.shift[o] = -int32(int8(zw.Bytes()[o%zw.Len()] ^ flip))
		}
		if w.shift[o] != 0 && w.ones == nil {
			w.ones = g.oneBlock(w.steps)
		}
		row := o % g.cout
		block := w.data[(o/g.cout*w.rows+row/rows*rows)*w.steps*4:]
		for ch := range g.cin {
			for t := range g.kernelSize {
				v := int8(raw[(o*g.cin+ch)*g.kernelSize+t] ^ flip)
				w.sums[o] += int32(v)
				block[((ch/4*g.kernelSize+t)*rows+row%rows)*4+ch%4] = v
			}
		}
	}
	return w, nil
}

// oneBlock returns a block whose weights are 1.
func (g *convolution) oneBlock(steps int) []int8 {
	out := make([]int8, steps*tensor.BytesRows*4)
	for s := range steps {
		for j := range min(4, g.cin-s/g.kernelSize*4) {
			for r := range tensor.BytesRows {
				out[(s*tensor.BytesRows+r)*4+j] = 1
			}
		}
	}
	return out
}

// plane is the padded input of one group: for each four channels, the bytes of each
// position.
type plane struct {
	high, wide, size int // of the padded input; size in bytes, with room for the last tile
}

// plane returns the layout of the input.
func (g *convolution) plane() plane {
	p := plane{high: g.before[1] + g.in[1] + g.after[1], wide: g.before[2] + g.in[2] + g.after[2]}
	p.size = 4 * (p.high*p.wide + tensor.BytesLanes)
	return p
}

// bytes computes the convolution.
func (g *convolution) bytes(c *kernel.Call, x, zx *kernel.Array, w *byteWeights) error {
	out, err := c.Result(0, onnx.INT32, g.outs(g.batch, g.result)...)
	if err != nil || out.Len() == 0 {
		return err
	}
	pad, flip := byte(0), byte(0)
	if zx != nil {
		pad = zx.Bytes()[0]
	}
	if x.Type == onnx.INT8 {
		flip = 0x80
	}
	pad ^= flip
	p, fours := g.plane(), (g.cin+3)/4
	room, err := c.Arena.New(onnx.UINT8, g.batch*g.groups, fours, p.size)
	if err != nil {
		return err
	}
	defer c.Arena.Release(room)
	in := room.Bytes()
	c.Each(g.batch*g.groups*fours, 4*g.inSize, func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			g.interleave(in[i*p.size:(i+1)*p.size], x.Bytes(), p, i/fours*g.cin+i%fours*4, min(4, g.cin-i%fours*4), pad, flip)
		}
	})
	j := bytesJob{convolution: g, plane: p, byteWeights: w, in: in, dst: kernel.Elements[int32](out), offs: g.offsets(p, fours), pad: int32(pad)}
	if w.ones != nil {
		sums, err := c.Arena.New(onnx.INT32, g.batch*g.groups, g.outSize)
		if err != nil {
			return err
		}
		defer c.Arena.Release(sums)
		j.sumsOf = kernel.Elements[int32](sums)
		j.each(c, 1, j.sumInputs)
	}
	j.each(c, (w.rows/tensor.BytesRows+blocksOfStrip-1)/blocksOfStrip, j.strip)
	return nil
}

// interleave writes n channels from first on as the bytes of each position.
func (g *convolution) interleave(to, x []byte, p plane, first, n int, pad, flip byte) {
	for i := range to {
		to[i] = pad
	}
	for j := range n {
		from := x[(first+j)*g.inSize:][:g.inSize]
		for h := range g.in[1] {
			line := from[h*g.in[2]:][:g.in[2]]
			at := to[((h+g.before[1])*p.wide+g.before[2])*4+j:]
			for q, v := range line {
				at[4*q] = v ^ flip
			}
		}
	}
}

// offsets returns the place of each step relative to the first position of a tile.
func (g *convolution) offsets(p plane, fours int) []int32 {
	var out []int32
	for f := range fours {
		for kh := range g.kernel[1] {
			for kw := range g.kernel[2] {
				out = append(out, int32(f*p.size+4*(kh*g.dilation[1]*p.wide+kw*g.dilation[2])))
			}
		}
	}
	return out
}

const (
	blocksOfStrip = 4 // blocks of channels
	tilesOfStrip  = 8 // tiles of positions that read the same weights
)

// bytesJob is one run of a convolution of bytes.
type bytesJob struct {
	*convolution
	plane
	*byteWeights
	in     []byte
	dst    []int32
	sumsOf []int32 // Σ (x - zero point) under the kernel, by image, group and output
	offs   []int32
	pad    int32
}

// strip is a part of the output: blocks of channels, a row, and positions of it.
type strip struct{ image, block, row, from, to int }

// each calls f for the parts of the output, with units of channels.
func (j *bytesJob) each(c *kernel.Call, units int, f func(s strip)) {
	const wide = tilesOfStrip * tensor.BytesLanes
	spans, rows := (j.out[2]+wide-1)/wide, j.out[1]
	c.Each(j.batch*j.groups*units*rows*spans, tilesOfStrip*j.steps*tensor.BytesLanes, func(_, lo, hi int) {
		for t := lo; t < hi; t++ {
			s := strip{image: t / (units * rows * spans), block: t / (rows * spans) % units * blocksOfStrip, row: t / spans % rows, from: t % spans * wide}
			s.to = min(j.out[2], s.from+wide)
			f(s)
		}
	})
}

// image returns the input of a strip from its row on.
func (j *bytesJob) image(s strip) []byte {
	size := len(j.in) / (j.batch * j.groups)
	return j.in[s.image*size:][:size][4*s.row*j.stride[1]*j.wide:]
}

// sumInputs computes the sums of the input under the kernel.
func (j *bytesJob) sumInputs(s strip) {
	var tile [tensor.BytesRows * tensor.BytesLanes]int32
	zero := j.pad * int32(j.cin*j.kernelSize)
	for q := s.from; q < s.to; q += tensor.BytesLanes {
		tensor.MulBytes(&tile, j.ones, j.image(s)[4*q:], j.offs)
		to := j.sumsOf[(s.image*j.out[1]+s.row)*j.out[2]+q:][:min(tensor.BytesLanes, s.to-q)]
		for i := range to {
			to[i] = tile[i] - zero
		}
	}
}

// strip computes a part of the output.
func (j *bytesJob) strip(s strip) {
	const rows, lanes = tensor.BytesRows, tensor.BytesLanes
	group, g := s.image%j.groups, j.convolution
	var tile [rows * lanes]int32
	for b := s.block; b < min(s.block+blocksOfStrip, j.rows/rows); b++ {
		weights := j.data[(group*j.rows+b*rows)*j.steps*4:][:rows*j.steps*4]
		for q := s.from; q < s.to; q += lanes {
			tensor.MulBytes(&tile, weights, j.image(s)[4*q:], j.offs)
			n := min(lanes, s.to-q)
			for r := range min(rows, g.cout-b*rows) {
				ch := group*g.cout + b*rows + r
				fix, shift := j.pad*j.sums[ch], j.shift[ch]
				to := j.dst[((s.image/g.groups*g.result+ch)*g.out[1]+s.row)*g.out[2]+q:][:n]
				if shift == 0 {
					for i, v := range tile[r*lanes:][:n] {
						to[i] = v - fix
					}
					continue
				}
				more := j.sumsOf[(s.image*g.out[1]+s.row)*g.out[2]+q:][:n]
				for i, v := range tile[r*lanes:][:n] {
					to[i] = v - fix + shift*more[i]
				}
			}
		}
	}
}
