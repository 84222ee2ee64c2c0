//go:build amd64 && !purego

package panel

import "mm-abi.org/mm/core/tensor"

// The kernels for one row of activations and consecutive panels. n counts
// groups of 32 columns, and blocks of 256 for K-quants.

//go:noescape
func rowQ8VNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ4VNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ5VNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ4MinVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ5MinVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ4KVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ5KVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ6KVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ3KVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ2KVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowIQ4NLVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowIQ4XSVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowMXFP4VNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ8AVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ4AVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ5AVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ4MinAVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ5MinAVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ4KAVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ5KAVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ6KAVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ3KAVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ2KAVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowIQ4NLAVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowIQ4XSAVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowMXFP4AVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ8AVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ4AVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ5AVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ4MinAVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ5MinAVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ4KAVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ5KAVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ6KAVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ3KAVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowQ2KAVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowIQ4NLAVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowIQ4XSAVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

//go:noescape
func rowMXFP4AVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

// rowKernel is the type of the kernels above.
type rowKernel func(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)

func rowVNNI(t tensor.Type) rowKernel {
	switch t {
	case tensor.Q4_0:
		return rowQ4VNNI
	case tensor.Q5_0:
		return rowQ5VNNI
	case tensor.Q4_1:
		return rowQ4MinVNNI
	case tensor.Q5_1:
		return rowQ5MinVNNI
	case tensor.Q4_K:
		return rowQ4KVNNI
	case tensor.Q5_K:
		return rowQ5KVNNI
	case tensor.Q6_K:
		return rowQ6KVNNI
	case tensor.Q3_K:
		return rowQ3KVNNI
	case tensor.Q2_K:
		return rowQ2KVNNI
	case tensor.IQ4_NL:
		return rowIQ4NLVNNI
	case tensor.IQ4_XS:
		return rowIQ4XSVNNI
	case tensor.MXFP4:
		return rowMXFP4VNNI
	}
	return rowQ8VNNI
}

func rowAVX2(t tensor.Type) rowKernel {
	switch t {
	case tensor.Q4_0:
		return rowQ4AVX2
	case tensor.Q5_0:
		return rowQ5AVX2
	case tensor.Q4_1:
		return rowQ4MinAVX2
	case tensor.Q5_1:
		return rowQ5MinAVX2
	case tensor.Q4_K:
		return rowQ4KAVX2
	case tensor.Q5_K:
		return rowQ5KAVX2
	case tensor.Q6_K:
		return rowQ6KAVX2
	case tensor.Q3_K:
		return rowQ3KAVX2
	case tensor.Q2_K:
		return rowQ2KAVX2
	case tensor.IQ4_NL:
		return rowIQ4NLAVX2
	case tensor.IQ4_XS:
		return rowIQ4XSAVX2
	case tensor.MXFP4:
		return rowMXFP4AVX2
	}
	return rowQ8AVX2
}

func rowAVXVNNI(t tensor.Type) rowKernel {
	switch t {
	case tensor.Q4_0:
		return rowQ4AVXVNNI
	case tensor.Q5_0:
		return rowQ5AVXVNNI
	case tensor.Q4_1:
		return rowQ4MinAVXVNNI
	case tensor.Q5_1:
		return rowQ5MinAVXVNNI
	case tensor.Q4_K:
		return rowQ4KAVXVNNI
	case tensor.Q5_K:
		return rowQ5KAVXVNNI
	case tensor.Q6_K:
		return rowQ6KAVXVNNI
	case tensor.Q3_K:
		return rowQ3KAVXVNNI
	case tensor.Q2_K:
		return rowQ2KAVXVNNI
	case tensor.IQ4_NL:
		return rowIQ4NLAVXVNNI
	case tensor.IQ4_XS:
		return rowIQ4XSAVXVNNI
	case tensor.MXFP4:
		return rowMXFP4AVXVNNI
	}
	return rowQ8AVXVNNI
}

// mulRow multiplies with one row of activations, unpacking in registers. It
// reports false if the processor lacks the instructions.
func (m *Matrix) mulRow(y []float32, b *Batch, lo, end int) bool {
	if !hasAVX2 {
		return false
	}
	kernel := rowAVX2
	switch {
	case hasVNNI:
		kernel = rowVNNI
	case hasAVXVNNI:
		kernel = rowAVXVNNI
	}
	per, fix := m.typ.BlockSize(), b.fix32
	switch m.format.scheme {
	case schemeSigned16, schemeK2:
		fix = b.fix16
	}
	p := lo / lanes
	kernel(m.typ)(&y[lo], &m.quants[p*m.panelBytes], &m.scales[p*m.scaleBytes],
		&b.q[0], &b.scale[0], &b.sum[0], &fix[0], m.cols/per, (end-lo)/lanes)
	return true
}
