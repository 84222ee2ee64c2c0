package conv

import "mm-abi.org/mm/core/tensor"

// winograd holds a filter's transformed weights, [36][panel][channel][lane],
// created for the first image that uses them.
type winograd struct {
	weights []float32
	bias    []float32 // zeros
}

// The minimum number of tiles of an image for which transforms pay, the maximum
// number of weights to transform, in elements, and the share of the
// second-level cache for the images of a piece of work, in elements.
const (
	fewTiles   = 12
	mostWeight = 36 * 256 * 256
	cached     = 1 << 18
)

// tiles returns the number of tiles that cover an image's rows and columns.
func (w *Window) tiles() (high, wide int) {
	const n = tensor.WinogradOut
	return (w.Out[0] + n - 1) / n, (w.Out[1] + n - 1) / n
}

// transforms reports whether transforms are faster for an image.
func (f *Filter) transforms(w *Window) bool {
	if f.perChannel || f.spec.Plain || f.spec.Groups != 1 || w.Kernel != [2]int{3, 3} || w.Stride != [2]int{1, 1} || w.Dilation != [2]int{1, 1} {
		return false
	}
	lanes := f.kernels.Lanes()
	high, wide := w.tiles()
	n, most := high*wide, tensor.WinogradAll*f.spec.In*len(f.bias)
	// Tiles that extend beyond the image waste work, and many weights must be
	// loaded for every few tiles.
	useful := w.Out[0]*w.Out[1]*10 >= n*16*6
	return useful && n >= fewTiles && most <= mostWeight && most <= n*(1<<16) && f.spec.In >= lanes/2 && f.spec.Out >= lanes
}

// transform creates the transformed weights, once, unless memory is short.
func (f *Filter) transform() bool {
	if f.wino != nil || f.crowded {
		return f.wino != nil
	}
	lanes, in := f.kernels.Lanes(), f.spec.In
	memory, err := f.room(tensor.WinogradAll * in * len(f.bias))
	if err != nil {
		f.crowded = true
		return false
	}
	t := &winograd{weights: memory, bias: make([]float32, 2*lanes)}
	var w [9]float32
	var u [tensor.WinogradAll]float32
	for _, p := range f.panels {
		n := p.blocks * lanes
		from, at := f.weights[p.at:], p.first*lanes*in
		f.spec.spans(f.inputs[0], lanes, func(c0, c1 int) {
			for c := c0; c < c1; c++ {
				for o := range n {
					for k := range w {
						w[k] = from[(k*(c1-c0)+c-c0)*n+o]
					}
					tensor.WinogradWeights(&u, &w)
					for k, v := range u {
						memory[k*in*len(f.bias)+at+c*n+o] = v
					}
				}
			}
			from = from[9*(c1-c0)*n:]
		})
	}
	f.wino = t
	return true
}

// byTransforms convolves an image, framed so that it contains every tile.
func (f *Filter) byTransforms(work *Work, w Window, out, x []float32, after After) error {
	lanes := f.kernels.Lanes()
	high, wide := w.tiles()
	// Copy the image into a frame of complete tiles.
	framed := w
	framed.Out = [2]int{high * tensor.WinogradOut, wide * tensor.WinogradOut}
	size := framed.frame()
	blocks, results := Blocks(f.spec.In, lanes), len(f.bias)/lanes
	if w.Before != [2]int{} || size != w.In {
		var err error
		if x, err = framed.pad(work, x, blocks, lanes); err != nil {
			return err
		}
	}
	tiles, threads := high*wide, len(work.Rows)
	each := tensor.WinogradAll * lanes * (blocks + results)
	per := max(14, min(cached/each/14*14, 112))
	per = min(per, max(1, (tiles+threads-1)/threads))
	room, err := work.Room(threads * (each*per + tensor.WinogradAll*lanes + 32*lanes))
	if err != nil {
		return err
	}
	taps := &tensor.Taps{}
	f.spec.spans(f.inputs[0], lanes, func(c0, c1 int) { taps.Add(c0/lanes*per*lanes, c1-c0, 1) })
	s := &sweep{f: f, t: f.wino, taps: taps, w: w, size: size, wide: wide, per: per, blocks: blocks, results: results, out: out, x: x, after: after}
	work.For((tiles+per-1)/per, 1, func(thread, lo, hi int) {
		n := len(room) / threads
		mine := room[thread*n : (thread+1)*n]
		for c := lo; c < hi; c++ {
			s.do(&work.Rows[thread], mine, c*per, min((c+1)*per, tiles))
		}
		work.Rows[thread] = tensor.Row{}
	})
	return nil
}

// sweep is the state of a convolution by transforms.
type sweep struct {
	f               *Filter
	t               *winograd
	taps            *tensor.Taps
	w               Window
	size            [2]int // size of the frame
	wide            int    // tiles in a row
	per             int    // tiles that fit in memory
	blocks, results int
	out, x          []float32
	after           After
}

// do computes the tiles [t0, t1).
func (s *sweep) do(row *tensor.Row, room []float32, t0, t1 int) {
	k := s.f.kernels
	lanes := k.Lanes()
	in, res := s.blocks*s.per*lanes, s.results*s.per*lanes // strides of the 36
	images, sums := room[:tensor.WinogradAll*in], room[tensor.WinogradAll*in:][:tensor.WinogradAll*res]
	rest := room[len(images)+len(sums):]
	tmp, edge := rest[:tensor.WinogradAll*lanes], rest[tensor.WinogradAll*lanes:]
	plane, line := s.size[0]*s.size[1]*lanes, s.size[1]*lanes
	for b := range s.blocks {
		for t := t0; t < t1; t++ {
			at := b*plane + (t/s.wide*line+t%s.wide*lanes)*tensor.WinogradOut
			k.WinogradInput(images[(b*s.per+t-t0)*lanes:], in, s.x[at:], line, tmp)
		}
	}
	for i := range tensor.WinogradAll {
		for _, p := range s.f.panels {
			*row = tensor.Row{
				X: images[i*in : (i+1)*in], Pixel: lanes, Depth: 1, Taps: s.taps, Blocks: p.blocks, N: t1 - t0,
				W: s.t.weights[(i*s.results+p.first)*lanes*s.f.spec.In:], Bias: s.t.bias, Step: lanes, Plane: s.per * lanes,
				Out: sums[i*res+p.first*s.per*lanes:], Low: -infinity, High: infinity,
			}
			k.Dense(row)
		}
	}
	for b := range s.results {
		for t := t0; t < t1; t++ {
			s.back(sums[(b*s.per+t-t0)*lanes:], res, b, t, tmp, edge)
		}
	}
}

// back writes a tile of a block of results.
func (s *sweep) back(sums []float32, step, b, t int, tmp, edge []float32) {
	const n = tensor.WinogradOut
	k, lanes := s.f.kernels, s.f.kernels.Lanes()
	y, x, line := t/s.wide*n, t%s.wide*n, s.w.Out[1]*lanes
	at := b*s.w.Out[0]*line + y*line + x*lanes
	bias, a := s.f.bias[b*lanes:(b+1)*lanes], &s.after
	rows, columns := min(n, s.w.Out[0]-y), min(n, s.w.Out[1]-x)
	if rows == n && columns == n {
		var add []float32
		if a.Add != nil {
			add = a.Add[at:]
		}
		k.WinogradOutput(s.out[at:], line, sums, step, tmp, bias, add, a.Low, a.High)
	} else { // through a complete tile
		full, add := edge[:n*n*lanes], []float32(nil)
		if a.Add != nil {
			add = edge[n*n*lanes : 2*n*n*lanes]
			clear(add)
			for r := range rows {
				copy(add[r*n*lanes:(r*n+columns)*lanes], a.Add[at+r*line:])
			}
		}
		k.WinogradOutput(full, n*lanes, sums, step, tmp, bias, add, a.Low, a.High)
		for r := range rows {
			copy(s.out[at+r*line:at+r*line+columns*lanes], full[r*n*lanes:])
		}
	}
	if a.Shape != nil {
		for r := range rows {
			seg := s.out[at+r*line : at+r*line+columns*lanes]
			k.Shape(seg, seg, a.Shape)
		}
	}
}
