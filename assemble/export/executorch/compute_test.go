package executorch

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
)

// machine computes a region's operations by their definitions.
type machine struct {
	t    *testing.T
	r    *region
	data map[uint32][]float32
}

// computed returns the last value of a region whose first argument that is not a
// constant is x.
func computed(t *testing.T, r *region, x []float32) []float32 {
	m := &machine{t: t, r: r, data: map[uint32][]float32{}}
	for i, at := range r.args {
		v := r.c.m.Values[at].(*Tensor)
		m.data[r.x.inputs[i]] = x
		if v.Constant >= 0 {
			m.data[r.x.inputs[i]] = floats(r.c.p.Constants[v.Constant])
		}
	}
	var last uint32
	for _, n := range r.x.nodes {
		last = m.node(n)
	}
	return m.data[last]
}

func floats(data []byte) []float32 {
	out := make([]float32, len(data)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return out
}

// get returns the numbers of a value; weights are widened.
func (m *machine) get(id uint32) []float32 {
	v := m.r.x.values[id]
	if v.data == 0 {
		return m.data[id]
	}
	data := m.named(v.data)
	switch v.dtype {
	case xnnFloat16:
		out := make([]float32, len(data)/2)
		quant.Dequantize(out, data, tensor.F16)
		return out
	case xnnPerOutput:
		out, scales := make([]float32, len(data)), floats(m.named(v.scales))
		for i, b := range data {
			out[i] = float32(int8(b)) * scales[i/(len(data)/len(scales))]
		}
		return out
	}
	return floats(data)
}

func (m *machine) named(at int) []byte {
	key := m.r.x.constants[at-1].key
	return m.r.c.p.Named[m.r.c.p.keys[key]].Data
}

// node computes an operation and returns its result.
func (m *machine) node(n xnnNode) uint32 {
	id := func(i int) uint32 { return n.fields[i].(uint32) }
	list := func(i int) []int { return n.fields[i].([]int) }
	dims := func(id uint32) []int { return m.r.x.values[id].dims }
	switch n.kind {
	case xnnReshape:
		m.data[id(3)] = m.get(id(2))
		return id(3)
	case xnnTranspose:
		m.each(id(3), func(at []int) float32 {
			from := make([]int, len(at))
			for i, p := range list(1) {
				from[p] = at[i]
			}
			return m.at(id(2), from)
		})
		return id(3)
	case xnnPad:
		m.each(id(4), func(at []int) float32 {
			from := slices.Clone(at)
			for i, before := range list(0) {
				if from[i] -= before; from[i] < 0 || from[i] >= dims(id(3))[i] {
					return n.fields[2].(float32)
				}
			}
			return m.at(id(3), from)
		})
		return id(4)
	case xnnSlice:
		m.each(id(4), func(at []int) float32 {
			from := slices.Clone(at)
			for i, first := range list(1) {
				from[i] += first
			}
			return m.at(id(3), from)
		})
		return id(4)
	case xnnConcat2, xnnConcat3, xnnConcat4, xnnConcat5:
		m.each(id(5), func(at []int) float32 {
			from, axis := slices.Clone(at), id(0)
			for _, i := range []int{1, 2, 3, 4, 7} {
				width := dims(id(i))[axis]
				if from[axis] < width {
					return m.at(id(i), from)
				}
				from[axis] -= width
			}
			return 0
		})
		return id(5)
	case xnnAdd:
		a, b := m.get(id(0)), m.get(id(1))
		for i, v := range a {
			m.data[id(2)] = append(m.data[id(2)], v+b[i%len(b)])
		}
		return id(2)
	case xnnFullyConnected:
		m.product(id(0), id(1), id(2), id(3))
		return id(3)
	case xnnConv, xnnDepthwise:
		m.conv(n)
		return id(18)
	}
	m.t.Fatalf("node %d is not computed", n.kind)
	return 0
}

// product computes a layer. XNNPACK multiplies a bias by the scales of weights.
func (m *machine) product(x, w, bias, out uint32) {
	dims := m.r.x.values[w].dims
	in, weights := m.get(x), m.get(w)
	if bias != noValue && m.r.x.values[w].dtype == xnnPerOutput {
		m.t.Error("a bias of weights with scales")
	}
	for row := range slices.Chunk(in, dims[1]) {
		for o := range dims[0] {
			var sum float32
			if bias != noValue {
				sum = m.get(bias)[o]
			}
			for i, v := range row {
				sum += v * weights[o*dims[1]+i]
			}
			m.data[out] = append(m.data[out], sum)
		}
	}
}

// conv computes a convolution; the weights of single channels are 1×H×W×outputs.
func (m *machine) conv(n xnnNode) {
	f := make([]int, 20)
	for i, v := range n.fields {
		f[i] = int(v.(uint32))
	}
	x, w, bias := uint32(f[15]), uint32(f[16]), m.get(uint32(f[17]))
	perIn, perOut, in, weights := f[10], f[11], m.r.x.values[x].dims, m.get(w)
	m.each(uint32(f[18]), func(at []int) float32 {
		sum, group := bias[at[3]], at[3]/perOut
		for a := range f[4] {
			for b := range f[5] {
				row, column := at[1]*f[6]+a*f[8]-f[0], at[2]*f[7]+b*f[9]-f[3]
				if row < 0 || column < 0 || row >= in[1] || column >= in[2] {
					continue
				}
				for i := range perIn {
					k := ((at[3]*f[4]+a)*f[5]+b)*perIn + i
					if n.kind == xnnDepthwise {
						k = (a*f[5]+b)*perOut*f[12] + at[3]
					}
					sum += m.at(x, []int{0, row, column, group*perIn + i}) * weights[k]
				}
			}
		}
		return sum
	})
}

// at returns an element.
func (m *machine) at(id uint32, at []int) float32 {
	k := 0
	for i, d := range m.r.x.values[id].dims {
		k = k*d + at[i]
	}
	return m.get(id)[k]
}

// each computes a value element by element.
func (m *machine) each(id uint32, f func(at []int) float32) {
	dims := m.r.x.values[id].dims
	at := make([]int, len(dims))
	for range product(dims) {
		m.data[id] = append(m.data[id], f(at))
		for i := len(at) - 1; i >= 0; i-- {
			if at[i]++; at[i] < dims[i] {
				break
			}
			at[i] = 0
		}
	}
}
