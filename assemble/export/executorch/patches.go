package executorch

import (
	"slices"

	"mm-abi.org/mm/onnx/lower"
)

// patches returns the elements that a convolution reads for each position: the
// channels of all places of the kernel, row by row. Images are padded to multiples of
// the strides and seen as N×H'×stride×W'×stride×C, so that a place is a slice.
func (r *region) patches(n *lower.Node, x uint32, kernel []int) uint32 {
	in, out := r.x.values[x].dims, widened(n.Out.Shape)
	steps, each, before := flat(n.Strides, 1), flat(dilations(n, len(n.Before)), 1), flat(n.Before, 0)
	pre, post, dims := []int{0, 0, 0, 0}, []int{0, 0, 0, 0}, slices.Clone(in)
	for i := range 2 {
		first, last := in[1+i]+before[i], (out[1+i]-1)*steps[i]+each[i]*(kernel[i]-1)
		blocks := (max(first, last+1) + steps[i] - 1) / steps[i]
		blocks = max(blocks, out[1+i]+each[i]*(kernel[i]-1)/steps[i])
		pre[1+i], post[1+i], dims[1+i] = before[i], blocks*steps[i]-first, blocks*steps[i]
	}
	if !slices.Equal(in, dims) {
		padded := r.fresh(dims...)
		r.x.node(xnnPad, pre, post, float32(0), x, padded, uint32(0))
		x = padded
	}
	split := []int{dims[0], dims[1] / steps[0], steps[0], dims[2] / steps[1], steps[1], dims[3]}
	x = r.reshaped(x, split...)
	if slices.Equal(kernel, steps) && each[0] == 1 && each[1] == 1 && split[1] == out[1] && split[3] == out[2] {
		x = r.transposed(x, split, 0, 1, 3, 2, 4, 5)
		return r.reshaped(x, out[0], out[1], out[2], product(kernel)*dims[3])
	}
	var places []uint32
	for i := range kernel[0] {
		for j := range kernel[1] {
			row, column := i*each[0], j*each[1]
			from := []int{0, row / steps[0], row % steps[0], column / steps[1], column % steps[1], 0}
			size := []int{dims[0], out[1], 1, out[2], 1, dims[3]}
			place := r.fresh(size...)
			r.x.node(xnnSlice, uint32(6), from, size, x, place, uint32(0))
			places = append(places, r.reshaped(place, dims[0], out[1], out[2], dims[3]))
		}
	}
	return r.joined(places, 3)
}

// joined concatenates any number of values.
func (r *region) joined(list []uint32, axis int) uint32 {
	const most = 5 // of a node
	for len(list) > 1 {
		var next []uint32
		for part := range slices.Chunk(list, most) {
			next = append(next, r.concatenated(part, axis))
		}
		list = next
	}
	return list[0]
}

// concatenated joins up to five values.
func (r *region) concatenated(list []uint32, axis int) uint32 {
	if len(list) == 1 {
		return list[0]
	}
	dims := slices.Clone(r.x.values[list[0]].dims)
	for _, id := range list[1:] {
		dims[axis] += r.x.values[id].dims[axis]
	}
	out := r.fresh(dims...)
	five := []uint32{noValue, noValue, noValue, noValue, noValue}
	copy(five, list)
	kind := map[int]byte{2: xnnConcat2, 3: xnnConcat3, 4: xnnConcat4, 5: xnnConcat5}[len(list)]
	r.x.node(kind, uint32(axis), five[0], five[1], five[2], five[3], out, uint32(0), five[4])
	return out
}
