package pack

import (
	"encoding/binary"
	"math/bits"

	"mm/core/quant"
	"mm/core/tensor"
)

// Rearrangement of GGUF rows into panels. Four columns of a row travel as one
// little endian 32-bit word.

var le = binary.LittleEndian

// packFloats fills panel p, 32 rows of F32, F16 or BF16: column by column, the
// 32 rows of each. Rows beyond the last stay zero. F32 is kept as the machine
// has it, so that it need not be converted.
func (m *Matrix) packFloats(p int, data []byte) {
	size := m.typ.BlockBytes()
	rowBytes := m.cols * size
	panel := m.quants[p*m.panelBytes : (p+1)*m.panelBytes]
	for r := 0; r < Unit && p*Unit+r < m.rows; r++ {
		row := data[(p*Unit+r)*rowBytes:][:rowBytes]
		for c := range m.cols {
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
	for r := 0; r < lanes && p*lanes+r < m.rows; r++ {
		row := data[(p*lanes+r)*rowBytes:][:rowBytes]
		for b := range m.cols / n {
			packBlock(m.typ, r, row[b*block:(b+1)*block], q[b*qStep:(b+1)*qStep], s[b*sStep:(b+1)*sStep])
		}
	}
}

// packBlock puts one block of row r of a panel in its places.
func packBlock(t tensor.Type, r int, b, q, s []byte) {
	switch t {
	case tensor.Q8_0:
		copy(s[2*r:2*r+2], b)
		for i := range 8 {
			le.PutUint32(q[(i*lanes+r)*4:], le.Uint32(b[2+4*i:]))
		}
	case tensor.Q4_0:
		copy(s[2*r:2*r+2], b)
		putNibbles(q, r, b[2:])
	case tensor.Q4_1:
		copy(s[2*r:2*r+2], b)
		copy(s[2*(lanes+r):2*(lanes+r)+2], b[2:])
		putNibbles(q, r, b[4:])
	case tensor.Q5_0:
		copy(s[2*r:2*r+2], b)
		putNibbles(q, r, b[6:])
		le.PutUint32(q[256+4*r:], spread(le.Uint32(b[2:])))
	case tensor.Q5_1:
		copy(s[2*r:2*r+2], b)
		copy(s[2*(lanes+r):2*(lanes+r)+2], b[2:])
		putNibbles(q, r, b[8:])
		le.PutUint32(q[256+4*r:], spread(le.Uint32(b[4:])))
	case tensor.Q4_K:
		packScaleMins(r, b, s)
		for g := range 8 {
			putKNibbles(q[g*256:], r, b[16+g/2*32:], g%2*4)
		}
	case tensor.Q5_K:
		packScaleMins(r, b, s)
		for g := range 8 {
			group := q[g*320:]
			putKNibbles(group, r, b[48+g/2*32:], g%2*4)
			var plane uint32
			for i := range 8 {
				plane |= le.Uint32(b[16+4*i:]) >> g & 0x01010101 << i
			}
			le.PutUint32(group[256+4*r:], plane)
		}
	case tensor.Q6_K:
		copy(s[2*r:2*r+2], b[208:])
		for g := range 16 {
			s[2*lanes+g*lanes+r] = b[192+g]
		}
		for g := range 8 {
			// 128 elements share 64 bytes of low halves and 32 of upper bits.
			half, quarter := g/4, g%4
			group := q[g*384:]
			putKNibbles(group, r, b[half*64+quarter%2*32:], quarter/2*4)
			for p := range 2 {
				var plane uint32
				for i := range 4 {
					plane |= le.Uint32(b[128+half*32+4*(4*p+i):]) >> (2 * quarter) & 0x03030303 << (2 * i)
				}
				le.PutUint32(group[256+64*p+4*r:], plane)
			}
		}
	}
}

// putNibbles takes Q4_0's order, which is the panel's: byte i holds columns i
// and i+16.
func putNibbles(q []byte, r int, src []byte) {
	for i := range 4 {
		le.PutUint32(q[(i*lanes+r)*4:], le.Uint32(src[4*i:]))
	}
}

// putKNibbles takes 32 columns of which each has half a byte of its own,
// beginning at bit shift.
func putKNibbles(q []byte, r int, src []byte, shift int) {
	for i := range 4 {
		lo := le.Uint32(src[4*i:]) >> shift & 0x0f0f0f0f
		hi := le.Uint32(src[4*i+16:]) >> shift & 0x0f0f0f0f
		le.PutUint32(q[(i*lanes+r)*4:], lo|hi<<4)
	}
}

// spread takes bits e = 4i+j to bit i of byte j.
func spread(high uint32) uint32 {
	var plane uint32
	for i := range 8 {
		four := bits.RotateLeft32(high, -4*i) & 15
		plane |= four * 0x00204081 & 0x01010101 << i
	}
	return plane
}

// packScaleMins unpacks the 6-bit numbers of a Q4_K or Q5_K block to bytes.
func packScaleMins(r int, b, s []byte) {
	copy(s[2*r:2*r+2], b)
	copy(s[2*(lanes+r):2*(lanes+r)+2], b[2:])
	for g := range 8 {
		at := 4*lanes + g*2*lanes + r
		s[at], s[at+lanes] = quant.ScaleMin(b[4:16], g)
	}
}
