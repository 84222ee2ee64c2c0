// Package conv computes convolutions and pools of images whose channels are
// stored in blocks, the layout that the kernels of core/tensor read.
//
// An image of C channels is held as ⌈C/lanes⌉ blocks: [block][row][column]
// [lane]. The contents of lanes beyond C are unspecified; no result depends on
// them. A [Filter] holds weights packed once in the order of the kernels; it
// applies to any number of images, split into rows over the threads of a pool.
// If a window extends beyond the image, the image is first copied into a frame
// of zeros; for depthwise windows over wide images, the columns at the edges are
// computed one by one instead.
//
// The order of each sum follows from the weights alone: it depends neither on
// the number of threads nor on the size of the image.
//
// The kernels in block.go convert arrays to and from this layout and scale and
// concatenate them.
package conv

import (
	"math"

	"mm-abi.org/mm/core/tensor"
)

// Window describes the movement of a kernel over rows and columns.
type Window struct {
	In, Out                  [2]int // pixels
	Kernel, Stride, Dilation [2]int
	Before                   [2]int // padding above and to the left
}

// valid returns the kernel elements [lo, hi) within the image for output o.
func (w *Window) valid(dim, o int) (lo, hi int) {
	at, d := o*w.Stride[dim]-w.Before[dim], w.Dilation[dim]
	if at < 0 {
		lo = (-at + d - 1) / d
	}
	if last := w.In[dim] - 1 - at; last >= 0 {
		hi = min(last/d+1, w.Kernel[dim])
	}
	return min(lo, w.Kernel[dim]), max(hi, min(lo, w.Kernel[dim]))
}

// frame returns the size of the image with padding, over which no window
// extends.
func (w *Window) frame() [2]int {
	var f [2]int
	for i := range f {
		f[i] = (w.Out[i]-1)*w.Stride[i] + (w.Kernel[i]-1)*w.Dilation[i] + 1
	}
	return f
}

// inside reports whether every window is within the image.
func (w *Window) inside() bool {
	f := w.frame()
	return w.Before == [2]int{} && f[0] <= w.In[0] && f[1] <= w.In[1]
}

// Work holds the resources of a call.
type Work struct {
	// For calls f for all of [0, n) in pieces of at most chunk, on several
	// threads; it may skip pieces once the result is no longer needed.
	For func(n, chunk int, f func(thread, lo, hi int))
	// Rows are the workspaces of the threads.
	Rows []tensor.Row
	// Room returns n elements for exclusive use until the call is done.
	Room func(n int) ([]float32, error)
}

// After describes the processing of the sums: Add is added, then they are
// clamped to Low…High, then Shape is applied, if set.
type After struct {
	Add       []float32 // an image of the result's shape
	Low, High float32
	Shape     *tensor.Shaper
}

// Nothing returns an After that leaves the sums unchanged.
func Nothing() After { return After{Low: -infinity, High: infinity} }

var infinity = float32(math.Inf(1))

// Blocks returns the number of blocks of the given lanes for n channels.
func Blocks(n, lanes int) int { return (n + lanes - 1) / lanes }

// grain is the work of a task, in multiply-adds of vectors: some ten
// microseconds.
const grain = 1 << 15

// pieces returns the number of equal parts of the given size in a task.
func pieces(n, size int) int {
	want := min(grain, max(n*size/8, grain/8))
	return min(max(1, want/max(size, 1)), max(n, 1))
}

// pad copies the blocks of an image into a frame of zeros: planes of h×w
// vectors, or of numbers if width is 1.
func (w *Window) pad(work *Work, x []float32, planes, width int) ([]float32, error) {
	f := w.frame()
	dst, err := work.Room(planes * f[0] * f[1] * width)
	if err != nil {
		return nil, err
	}
	// The columns of a row that come from the image.
	first, n := w.Before[1], min(w.In[1], f[1]-w.Before[1])
	row, line := f[1]*width, w.In[1]*width
	work.For(planes*f[0], pieces(planes*f[0], f[1]), func(_, lo, hi int) {
		for r := lo; r < hi; r++ {
			to, y := dst[r*row:(r+1)*row], r%f[0]-w.Before[0]
			if y < 0 || y >= w.In[0] || n <= 0 {
				clear(to)
				continue
			}
			from := x[(r/f[0]*w.In[0]+y)*line:]
			clear(to[:first*width])
			copy(to[first*width:(first+n)*width], from[:n*width])
			clear(to[(first+n)*width:])
		}
	})
	return dst, nil
}
