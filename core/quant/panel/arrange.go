package panel

import (
	"encoding/binary"
	"math"
	"math/bits"

	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
)

// Rearrangement of GGUF rows into panels. Four columns of a row move as one
// little-endian 32-bit word.

var le = binary.LittleEndian

// packFloats fills panel p, 32 rows of F32, F16 or BF16: column by column, the
// 32 rows of each. Rows beyond the last remain zero. F32 is stored in native
// byte order, so that no conversion is needed.
func (m *Matrix) packFloats(p int, data []byte) {
	size := m.typ.BlockBytes()
	rowBytes := m.cols * size
	panel := m.quants[p*m.panelBytes : (p+1)*m.panelBytes]
	rows := data[p*Unit*rowBytes:]
	first := 0
	if size == 2 && (p+1)*Unit <= m.rows {
		first = transposeHalves(panel, rows, m.cols)
	}
	for r := 0; r < Unit && p*Unit+r < m.rows; r++ {
		row := rows[r*rowBytes:][:rowBytes]
		for c := first; c < m.cols; c++ {
			at := (c*Unit + r) * size
			if size == 4 {
				binary.NativeEndian.PutUint32(panel[at:], le.Uint32(row[4*c:]))
			} else {
				le.PutUint16(panel[at:], le.Uint16(row[2*c:]))
			}
		}
	}
}

// packQuants fills panel p, 16 rows of blocks.
func (m *Matrix) packQuants(p int, data []byte) {
	rowBytes := m.typ.RowBytes(m.cols)
	block, n := m.typ.BlockBytes(), m.typ.BlockSize()
	q := m.quants[p*m.panelBytes : (p+1)*m.panelBytes]
	s := m.scales[p*m.scaleBytes : (p+1)*m.scaleBytes]
	qStep, sStep := n/groupLen*m.format.groupBytes(), m.format.scaleBytes(n)
	rows := data[min(p*lanes*rowBytes, len(data)):]
	// The integers of simple blocks move in words, one panel at a time.
	moved := (p+1)*lanes <= m.rows && transposeInts(m.typ, q, rows, rowBytes, m.cols/n)
	// Block by block, because the scales of the rows are adjacent.
	here := min(lanes, m.rows-p*lanes)
	plain := m.format.scheme == schemeScale && m.format.bits != 5 // most models
	for i := range m.cols / n {
		bq, bs := q[i*qStep:(i+1)*qStep], s[i*sStep:(i+1)*sStep]
		for r := range here {
			b := rows[r*rowBytes+i*block:][:block]
			if !moved {
				packInts(m.typ, r, b, bq)
			}
			if plain {
				le.PutUint16(bs[2*r:], le.Uint16(b))
			} else {
				packScales(m.typ, r, b, bq, bs)
			}
		}
	}
}

// intsAt returns the offset of the integers in a block of 32.
func intsAt(t tensor.Type) int {
	switch t {
	case tensor.MXFP4:
		return 1
	case tensor.Q8_0, tensor.Q4_0, tensor.IQ4_NL:
		return 2
	case tensor.Q4_1:
		return 4
	case tensor.Q5_0:
		return 6
	}
	return 8 // Q5_1
}

// packInts stores the integers of one block of row r of a panel, except the
// planes of upper bits of Q5_0 and Q5_1.
func packInts(t tensor.Type, r int, b, q []byte) {
	switch t {
	case tensor.Q8_0:
		for i := range 8 {
			le.PutUint32(q[(i*lanes+r)*4:], le.Uint32(b[2+4*i:]))
		}
	case tensor.Q4_0, tensor.Q4_1, tensor.Q5_0, tensor.Q5_1, tensor.IQ4_NL, tensor.MXFP4:
		// Byte i holds columns i and i+16, in the panel's order.
		b = b[intsAt(t):]
		for i := range 4 {
			le.PutUint32(q[(i*lanes+r)*4:], le.Uint32(b[4*i:]))
		}
	case tensor.IQ4_XS:
		for g := range 8 {
			for i := range 4 {
				le.PutUint32(q[g*256+(i*lanes+r)*4:], le.Uint32(b[8+16*g+4*i:]))
			}
		}
	case tensor.Q2_K:
		for g := range 8 {
			putPairs(q[g*128:], r, b[16:], g)
		}
	case tensor.Q3_K:
		for g := range 8 {
			group := q[g*192:]
			putPairs(group, r, b[32:], g)
			le.PutUint32(group[128+4*r:], bitPlane(b, g))
		}
	case tensor.Q4_K:
		for g := range 8 {
			putNibbles(q[g*256:], r, b[16+g/2*32:], g%2*4)
		}
	case tensor.Q5_K:
		for g := range 8 {
			group := q[g*320:]
			putNibbles(group, r, b[48+g/2*32:], g%2*4)
			le.PutUint32(group[256+4*r:], bitPlane(b[16:], g))
		}
	case tensor.Q6_K:
		for g := range 8 {
			// 128 elements share 64 bytes of low halves.
			half, quarter := g/4, g%4
			group := q[g*384:]
			putNibbles(group, r, b[half*64+quarter%2*32:], quarter/2*4)
			putPairs(group[256:], r, b[128:], g)
		}
	}
}

// packScales stores the scales of one block of row r of a panel, and the planes
// of Q5_0 and Q5_1.
func packScales(t tensor.Type, r int, b, q, s []byte) {
	switch t {
	case tensor.Q8_0, tensor.Q4_0, tensor.IQ4_NL:
		le.PutUint16(s[2*r:], le.Uint16(b))
	case tensor.MXFP4: // a bfloat16 has the exponents of a float32
		le.PutUint16(s[2*r:], uint16(math.Float32bits(quant.ScaleMXFP4(b[0]))>>16))
	case tensor.IQ4_XS:
		le.PutUint16(s[2*r:], le.Uint16(b))
		for g := range 8 {
			s[2*lanes+g*lanes+r] = byte(quant.ScaleIQ4XS(b, g))
		}
	case tensor.Q2_K:
		le.PutUint16(s[2*r:], le.Uint16(b[80:]))
		le.PutUint16(s[2*(lanes+r):], le.Uint16(b[82:]))
		for g := range 16 {
			s[4*lanes+g*lanes+r] = b[g]
		}
	case tensor.Q3_K:
		le.PutUint16(s[2*r:], le.Uint16(b[108:]))
		for g := range 16 {
			s[2*lanes+g*lanes+r] = byte(quant.ScaleQ3K(b[96:108], g))
		}
	case tensor.Q4_1:
		le.PutUint16(s[2*r:], le.Uint16(b))
		le.PutUint16(s[2*(lanes+r):], le.Uint16(b[2:]))
	case tensor.Q5_0:
		le.PutUint16(s[2*r:], le.Uint16(b))
		le.PutUint32(q[256+4*r:], spread(le.Uint32(b[2:])))
	case tensor.Q5_1:
		le.PutUint16(s[2*r:], le.Uint16(b))
		le.PutUint16(s[2*(lanes+r):], le.Uint16(b[2:]))
		le.PutUint32(q[256+4*r:], spread(le.Uint32(b[4:])))
	case tensor.Q4_K, tensor.Q5_K:
		le.PutUint16(s[2*r:], le.Uint16(b))
		le.PutUint16(s[2*(lanes+r):], le.Uint16(b[2:]))
		for g := range 8 {
			at := 4*lanes + g*2*lanes + r
			s[at], s[at+lanes] = quant.ScaleMin(b[4:16], g)
		}
	case tensor.Q6_K:
		le.PutUint16(s[2*r:], le.Uint16(b[208:]))
		for g := range 16 {
			s[2*lanes+g*lanes+r] = b[192+g]
		}
	}
}

// putNibbles stores 32 columns, each the half of a byte that begins at bit
// shift.
func putNibbles(q []byte, r int, src []byte, shift int) {
	for i := range 4 {
		lo := le.Uint32(src[4*i:]) >> shift & 0x0f0f0f0f
		hi := le.Uint32(src[4*i+16:]) >> shift & 0x0f0f0f0f
		le.PutUint32(q[(i*lanes+r)*4:], lo|hi<<4)
	}
}

// putPairs stores the 32 columns of group g, each two bits of a byte: 128
// columns share 32 bytes, and a byte holds one column of each group.
func putPairs(q []byte, r int, src []byte, g int) {
	src = src[g/4*32:]
	for p := range 2 {
		var plane uint32
		for i := range 4 {
			plane |= le.Uint32(src[4*(4*p+i):]) >> (g % 4 * 2) & 0x03030303 << (2 * i)
		}
		le.PutUint32(q[64*p+4*r:], plane)
	}
}

// bitPlane returns bit g of the bytes of the 32 columns of group g: bit i of
// the result's bytes is that of unit i.
func bitPlane(src []byte, g int) (plane uint32) {
	for i := range 8 {
		plane |= le.Uint32(src[4*i:]) >> g & 0x01010101 << i
	}
	return plane
}

// spread moves bits e = 4i+j to bit i of byte j.
func spread(high uint32) uint32 {
	var plane uint32
	for i := range 8 {
		four := bits.RotateLeft32(high, -4*i) & 15
		plane |= four * 0x00204081 & 0x01010101 << i
	}
	return plane
}
