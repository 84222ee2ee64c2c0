package tensor

import (
	"fmt"
	"unsafe"
)

// The convolution kernels work on images in blocks of channels: the channels of
// a pixel are adjacent in groups of [ConvLanes], the size of a vector; then
// come the pixels of the row, then the rows, then the next block of channels.
// So one vector is one pixel of a block, for any window, stride and dilation.
// The contents of lanes beyond the last channel are unspecified; no result
// depends on them.

// convLevel holds the kernels of one level of instructions.
type convLevel struct {
	lanes int
	// By the pixels of a tile; nil beyond the widest.
	two, one, depthwise, maxPool [tileLimit + 1]convKernel
	shape                        func(dst, x *float32, n int, s *Shaper)
	lane                         func(dst, x, v *float32, n int)
	sum                          func(dst, x *float32, n int)
	in                           func(dst *float32, step uintptr, src *float32, row uintptr, tmp *float32)
	out                          func(dst *float32, row uintptr, src *float32, step uintptr, tmp *float32, bias, add *float32, low, high float32)
}

// convKernel computes a run of tiles.
type convKernel func(*convArgs)

// tileLimit is the largest number of pixels of a tile.
const tileLimit = 14

// convArgs holds the arguments of an assembly kernel; distances are in bytes.
type convArgs struct {
	x                         *float32
	taps                      *tap
	count                     int
	w, out, bias, add         *float32
	pixel, depth, step, plane int
	low, high                 float32
	tiles                     int
}

// tap is one position of a window: its distance in bytes from the window's
// first pixel, and the number of channels there, or for depthwise weights the
// distance in bytes from the first weight.
type tap struct{ at, n int }

// Taps lists the positions that a window reads, in the order of the weights.
type Taps struct {
	list      []tap
	lo, hi    int // the first and the last element, relative to the first pixel
	channels  int // of all taps
	depthwise int // the last weight of Depthwise
}

// Add adds n channels that begin at the given element, depth apart.
func (t *Taps) Add(at, n, depth int) {
	t.list = append(t.list, tap{at * 4, n})
	t.lo, t.hi = min(t.lo, at), max(t.hi, at+(n-1)*depth)
	t.channels += n
}

// AddDepthwise adds a position of a window of per-channel weights, the first of
// which is at weight.
func (t *Taps) AddDepthwise(at, weight int) {
	t.list = append(t.list, tap{at * 4, weight * 4})
	t.lo, t.hi = min(t.lo, at), max(t.hi, at)
	t.depthwise = max(t.depthwise, weight)
}

// Len returns the number of positions.
func (t *Taps) Len() int { return len(t.list) }

// Channels returns the total number of channels of all positions.
func (t *Taps) Channels() int { return t.channels }

// ConvLanes returns the number of channels of a block on this machine; 0 if no
// convolution kernels are faster than matrix products.
func ConvLanes() int {
	if bestConv == nil {
		return 0
	}
	return bestConv.lanes
}

// ConvKernels is a set of kernels for one level of instructions.
type ConvKernels struct {
	level *convLevel
	lanes int
}

// BestConv returns the fastest kernels for this machine, those of plain Go if
// there is no assembly.
func BestConv() ConvKernels {
	if bestConv == nil {
		return PlainConv(8)
	}
	return ConvKernels{bestConv, bestConv.lanes}
}

// PlainConv returns the kernels in plain Go for blocks of the given size.
func PlainConv(lanes int) ConvKernels { return ConvKernels{nil, lanes} }

// Lanes returns the number of channels of a block.
func (k ConvKernels) Lanes() int { return k.lanes }

// Row describes consecutive pixels of a row of a convolution or of a pool.
type Row struct {
	X            []float32
	At           int // element of X at which the first pixel's window begins
	Pixel, Depth int // elements from one pixel to the next, from a channel to the next
	Taps         *Taps
	W            []float32 // Channels × Blocks·Lanes; for Depthwise addressed by the taps
	Bias         []float32 // Blocks·Lanes
	Blocks       int       // 1 or 2
	Out          []float32
	Add          []float32 // added to the sums, in the layout of Out; or nil
	Step, Plane  int       // elements of Out from one pixel to the next, from a block to the next
	N            int       // pixels
	Low, High    float32   // results are clamped to these, except NaN

	args convArgs
}

// check panics if the row exceeds its slices.
func (r *Row) check(lanes, weights int) {
	last := r.At + (r.N-1)*r.Pixel
	end := (r.N-1)*r.Step + (r.Blocks-1)*r.Plane + lanes
	if r.N < 1 || r.Blocks < 1 || r.Blocks > 2 || len(r.Taps.list) == 0 || r.Pixel < 0 || r.Step < 0 || r.Plane < 0 ||
		r.At+r.Taps.lo < 0 || last+r.Taps.hi >= len(r.X) || len(r.W) < weights || len(r.Bias) < r.Blocks*lanes ||
		len(r.Out) < end || r.Add != nil && len(r.Add) < end {
		panic(fmt.Sprintf("tensor: row of %d pixels from %d on is out of range", r.N, r.At))
	}
}

// Dense computes the row: each output channel sums over all input channels. The
// order of a sum is that of the taps, for any number of pixels.
func (k ConvKernels) Dense(r *Row) {
	r.check(k.lanes, r.Taps.channels*r.Blocks*k.lanes)
	switch {
	case k.level == nil:
		r.densePlain(k.lanes)
	case r.Blocks == 2:
		r.run(k.level.two[:], k.lanes)
	default:
		r.run(k.level.one[:], k.lanes)
	}
}

// Depthwise computes the row of a depthwise convolution, with separate weights
// for each channel. Blocks is 1.
func (k ConvKernels) Depthwise(r *Row) {
	r.check(k.lanes, r.Taps.depthwise+k.lanes)
	if k.level == nil {
		r.depthwisePlain(k.lanes)
		return
	}
	r.run(k.level.depthwise[:], k.lanes)
}

// MaxPool computes the maximum under each window. Blocks is 1, and Bias the
// least possible result. Whether a NaN propagates depends on its position.
func (k ConvKernels) MaxPool(r *Row) {
	r.check(k.lanes, 0)
	if k.level == nil {
		r.maxPoolPlain(k.lanes)
		return
	}
	r.run(k.level.maxPool[:], k.lanes)
}

// run splits the row into tiles of nearly equal size for one of the kernels.
func (r *Row) run(kernels []convKernel, lanes int) {
	widest := len(kernels) - 1
	for kernels[widest] == nil {
		widest--
	}
	tiles := (r.N + widest - 1) / widest
	each, rest := r.N/tiles, r.N%tiles
	a := &r.args
	*a = convArgs{
		taps: &r.Taps.list[0], count: len(r.Taps.list), bias: &r.Bias[0],
		pixel: r.Pixel * 4, depth: r.Depth * 4, step: r.Step * 4, plane: r.Plane * 4, low: r.Low, high: r.High,
	}
	if len(r.W) > 0 {
		a.w = &r.W[0]
	}
	done := 0
	for _, part := range [2][2]int{{each + 1, rest}, {each, tiles - rest}} {
		if part[1] == 0 {
			continue
		}
		a.x, a.out, a.tiles = &r.X[r.At+done*r.Pixel], &r.Out[done*r.Step], part[1]
		if r.Add != nil {
			a.add = &r.Add[done*r.Step]
		}
		kernels[part[0]](a)
		done += part[0] * part[1]
	}
	*a = convArgs{}
}

// Shaper describes an activation: with t = min(max(A·x+B, Low), High) the
// result is t, x·t or max(x, t), times Scale plus Shift.
type Shaper struct {
	A, B, Low, High, Scale, Shift float32
	Form                          int32
}

// The forms of a Shaper.
const (
	ShapeBound = int32(iota) // t: Relu, Clip, HardSigmoid
	ShapeTimes               // x·t: HardSwish
	ShapePeak                // max(x, t): LeakyRelu
)

// Shape applies an activation to full vectors: len(x) is a multiple of the
// lanes. dst may be x.
func (k ConvKernels) Shape(dst, x []float32, s *Shaper) {
	if len(dst) != len(x) || len(x)%k.lanes != 0 {
		panic(errLength)
	}
	if len(x) == 0 {
		return
	}
	if k.level == nil {
		s.plain(dst, x)
		return
	}
	k.level.shape(unsafe.SliceData(dst), unsafe.SliceData(x), len(x)/k.lanes, s)
}

// MulLanes multiplies each pixel's vector by v. dst may be x.
func (k ConvKernels) MulLanes(dst, x, v []float32) {
	if len(dst) != len(x) || len(x)%k.lanes != 0 || len(v) != k.lanes {
		panic(errLength)
	}
	if len(x) == 0 {
		return
	}
	if k.level == nil {
		for i, e := range x {
			dst[i] = e * v[i%k.lanes]
		}
		return
	}
	k.level.lane(unsafe.SliceData(dst), unsafe.SliceData(x), unsafe.SliceData(v), len(x)/k.lanes)
}

// SumLanes sums the vectors of all pixels, in four partial sums that are added
// at the end.
func (k ConvKernels) SumLanes(dst, x []float32) {
	if len(dst) != k.lanes || len(x)%k.lanes != 0 {
		panic(errLength)
	}
	clear(dst)
	if len(x) == 0 {
		return
	}
	if k.level == nil {
		sumPlain(dst, x)
		return
	}
	k.level.sum(unsafe.SliceData(dst), unsafe.SliceData(x), len(x)/k.lanes)
}

// Interleave converts planes of n pixels, ld elements apart, to vectors of the
// given lanes, for at most as many channels. Lanes beyond the channels are
// unchanged. Deinterleave is the inverse.
func Interleave(dst []float32, lanes int, x []float32, ld, channels, n int) {
	if channels < 1 || channels > lanes || n < 1 || len(dst) < n*lanes || len(x) < (channels-1)*ld+n {
		panic(errLength)
	}
	interleave(dst, lanes, x, ld, channels, n)
}

// Deinterleave converts vectors of n pixels to planes ld elements apart.
func Deinterleave(dst []float32, ld int, x []float32, lanes, channels, n int) {
	if channels < 1 || channels > lanes || n < 1 || len(x) < n*lanes || len(dst) < (channels-1)*ld+n {
		panic(errLength)
	}
	deinterleave(dst, ld, x, lanes, channels, n)
}

// Apply applies the activation to any number of elements.
func (s *Shaper) Apply(x []float32) {
	k := BestConv()
	n := len(x) / k.lanes * k.lanes
	k.Shape(x[:n], x[:n], s)
	s.plain(x[n:], x[n:])
}
