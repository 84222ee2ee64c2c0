package product

import (
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// maxNibbleRows is the number of rows of activations up to which weights of 4 bits
// are multiplied as they are; for more, unpacking a row of weights once is faster.
const maxNibbleRows = 16

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
	c.Each(b.n, b.k*m/4, func(_, lo, hi int) {
		for j := lo; j < hi; j++ {
			scales, w := b.scales[j*b.count:(j+1)*b.count], b.data[j*wide/2:(j+1)*wide/2]
			for i := range m {
				v := tensor.DotNibbles(ordered[i*wide:(i+1)*wide], w, scales, b.size/tensor.NibbleGroup)
				v -= b.zeroSum(j, scales, sums[i*b.count:(i+1)*b.count])
				if bias != nil {
					v += bias[j]
				}
				o[i*b.n+j] = v
			}
		}
	})
	return nil
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
