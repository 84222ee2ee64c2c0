package product

import (
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

const (
	// maxNibbleRows is the number of rows of activations up to which weights of 4
	// bits are multiplied as they are; for more, unpacking them is faster.
	maxNibbleRows = 4
	unpackedRows  = 32 // rows of weights that are unpacked at a time
)

// nibbles reports whether the matrix has the layout of [tensor.DotNibbles].
func (b *blocks) nibbles() bool {
	return b.bits == 4 && b.size%tensor.NibbleGroup == 0 && b.group == nil
}

// multiplyNibbles computes rows of x by the transpose of the matrix. The zero points
// are subtracted as Σ scale·zero·Σ x of each block.
func (b *blocks) multiplyNibbles(c *kernel.Call, o, xs, bias []float32) error {
	m, wide := len(xs)/b.k, b.count*b.size
	room, err := c.Arena.Zeros(onnx.FLOAT, m, wide+b.count)
	if err != nil {
		return err
	}
	defer c.Arena.Release(room)
	ordered := kernel.Elements[float32](room)
	sums := ordered[m*wide:]
	padded := make([]float32, wide)
	for i := range m {
		copy(padded, xs[i*b.k:(i+1)*b.k])
		tensor.OrderNibbles(ordered[i*wide:(i+1)*wide], padded)
		for k := range b.count {
			for _, v := range padded[k*b.size : (k+1)*b.size] {
				sums[i*b.count+k] += v
			}
		}
	}
	if m > maxNibbleRows {
		b.multiplyUnpacked(c, o, ordered[:m*wide], bias)
		return nil
	}
	c.Each(b.n, b.k*m/4, func(_, lo, hi int) {
		for j := lo; j < hi; j++ {
			b.multiplyRow(o[j:], ordered, sums, m, j)
			for i := range m {
				if bias != nil {
					o[i*b.n+j] += bias[j]
				}
			}
		}
	})
	return nil
}

// multiplyRow multiplies m rows by row j, to every n-th number of o.
func (b *blocks) multiplyRow(o, ordered, sums []float32, m, j int) {
	wide, per := b.count*b.size, b.size/tensor.NibbleGroup
	scales, w := b.scales[j*b.count:(j+1)*b.count], b.data[j*wide/2:(j+1)*wide/2]
	var four [4]float32
	for i := 0; i < m; i += len(four) {
		n := min(len(four), m-i)
		if n == len(four) {
			tensor.DotNibbles4(&four, ordered[i*wide:m*wide], wide, w, scales, per)
		}
		for k := range n {
			if n < len(four) {
				four[k] = tensor.DotNibbles(ordered[(i+k)*wide:(i+k+1)*wide], w, scales, per)
			}
			o[(i+k)*b.n] = four[k] - b.zeroSum(j, scales, sums[(i+k)*b.count:(i+k+1)*b.count])
		}
	}
}

// multiplyUnpacked computes rows of x, in order, by the transpose of the matrix, of
// which some rows at a time become panels of float32.
func (b *blocks) multiplyUnpacked(c *kernel.Call, o, ordered, bias []float32) {
	wide := b.count * b.size
	m := len(ordered) / wide
	c.Each((b.n+unpackedRows-1)/unpackedRows, unpackedRows*b.k*(m/8+1), func(thread, lo, hi int) {
		for t := lo; t < hi; t++ {
			first := t * unpackedRows
			n := min(unpackedRows, b.n-first)
			rows, panels := c.Lanes[thread].Room(unpackedRows*wide, wide, n)
			for j := range n {
				for k := range b.count {
					at := (first+j)*b.count + k
					tensor.UnpackNibbles(rows[(j*b.count+k)*b.size:][:b.size], b.data[at*b.size/2:], b.zero(first+j, k), b.scales[at])
				}
			}
			panels.PackTransposed(rows[:n*wide], wide)
			panels.Mul(m, 1, tensor.Rows(ordered, wide), 0, o[first:], b.n)
			for i := range m {
				for j := range n {
					if bias != nil {
						o[i*b.n+first+j] += bias[first+j]
					}
				}
			}
		}
	})
}

// zeroSum returns Σ scale·zero·sum over the blocks of a row.
func (b *blocks) zeroSum(row int, scales, sums []float32) float32 {
	if b.zeros == nil && b.offsets == nil {
		return 8 * tensor.Dot(scales, sums)
	}
	var total float32
	if b.offsets != nil {
		for k, z := range b.offsets[row*b.count:][:b.count] {
			total += scales[k] * z * sums[k]
		}
		return total
	}
	packed := b.zeros[row*b.bytes(b.count):]
	for k, by := range scales {
		total += by * float32(packed[k/2]>>(k%2*4)&15) * sums[k]
	}
	return total
}
