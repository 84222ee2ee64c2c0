package panel

import "mm-abi.org/mm/core/tensor"

// panel holds 16 rows of weights for the multi-row kernels: signed bytes and
// float32 scales. With r the row and c the column,
//
//	W[r][c] = scale[c/group][r] · quants[c/4][r][c%4] - minimum[c/32][r] + addend[c/16][r]
//
// Some kernels take unsigned bytes: the stored integers if they have fewer than
// 8 bits, otherwise quants + 16·high - 128. The SMMLA kernels find a copy of
// quants in high, in the order K/8 × 16 × 8.
type panel struct {
	quants  []int8    // K/4 × 16 × 4
	high    []int8    // as many, or empty
	bits    int       // of unsigned quants, high included; 0 if signed
	scale   []float32 // K/group × 16
	minimum []float32 // K/32 × 16, or empty
	addend  []float32 // K/16 × 16, or empty; not added by kernels
	group   int       // 32, or 16
}

// Scratch is the working memory of a thread. The zero value is ready for use.
type Scratch struct {
	p      panel
	buf    []int8
	floats []float32
	ones   []int8 // K × 16
	sums   [tileRows * lanes]float32
}

// unpack prepares panel p of m for the multi-row kernels.
func (m *Matrix) unpack(p int, s *Scratch) *panel {
	q := m.quants[p*m.panelBytes : (p+1)*m.panelBytes]
	sc := m.scales[p*m.scaleBytes : (p+1)*m.scaleBytes]
	w, k := &s.p, m.cols
	w.group = groupLen
	if m.format.scheme == schemeSigned16 || m.format.scheme == schemeK2 {
		w.group = halfLen
	}
	w.scale = grow(w.scale, k/w.group*lanes)
	w.minimum, w.addend = w.minimum[:0], w.addend[:0]
	if m.format.scheme == schemeK2 {
		w.addend = grow(w.addend, k/halfLen*lanes)
	}
	if m.format.scheme == schemeScaleMin || m.format.scheme == schemeK {
		w.minimum = grow(w.minimum, k/groupLen*lanes)
	}
	unpackScales(m.format, k, sc, w)
	w.bits, w.high = 0, nil
	unpackPanel(m.format, w, q, s)
	return w
}

// unpackSignedBytes writes signed bytes, or aliases them if they are stored as
// such.
func unpackSignedBytes(f format, w *panel, q []byte, s *Scratch) {
	if f.bits == 8 {
		w.quants = asInt8(q)
		return
	}
	s.buf = grow(s.buf, len(q)/f.groupBytes()*groupLen*lanes)
	w.quants = s.buf
	unpackQuants(f, w.quants, q)
}

// unpackScales fills w.scale and w.minimum for k columns.
func unpackScales(f format, k int, sc []byte, w *panel) {
	switch f.scheme {
	case schemeScale:
		tensor.FromF16(w.scale, sc)
	case schemeScaleMin:
		for g := range k / groupLen {
			at := g * lanes
			tensor.FromF16(w.scale[at:at+lanes], sc[4*at:4*at+2*lanes])
			tensor.FromF16(w.minimum[at:at+lanes], sc[4*at+2*lanes:4*at+4*lanes])
		}
		tensor.Scale(w.minimum, -1) // the format adds it
	case schemePower:
		tensor.FromBF16(w.scale, sc)
	case schemeK:
		unpackScaleMins(k, sc, w)
	case schemeK2:
		unpackPairs(k, sc, w)
	case schemeSigned, schemeSigned16:
		unpackSigned(k, sc, w)
	}
}

// unpackPairs unpacks scales and minima of four bits.
func unpackPairs(k int, sc []byte, w *panel) {
	var d, dmin [lanes]float32
	for b := range k / 256 {
		s := sc[b*lanes*20 : (b+1)*lanes*20]
		tensor.FromF16(d[:], s[:2*lanes])
		tensor.FromF16(dmin[:], s[2*lanes:4*lanes])
		for g := range 16 {
			bytes := s[4*lanes+g*lanes:][:lanes]
			scale := w.scale[(b*16+g)*lanes:][:lanes]
			addend := w.addend[(b*16+g)*lanes:][:lanes]
			for r := range lanes {
				scale[r] = d[r] * float32(bytes[r]&15)
				addend[r] = -(dmin[r] * float32(bytes[r]>>4))
			}
		}
	}
}

func unpackScaleMins(k int, sc []byte, w *panel) {
	var d, dmin [lanes]float32
	for b := range k / 256 {
		s := sc[b*lanes*20 : (b+1)*lanes*20]
		tensor.FromF16(d[:], s[:2*lanes])
		tensor.FromF16(dmin[:], s[2*lanes:4*lanes])
		for g := range 8 {
			bytes := s[4*lanes+g*2*lanes:][:2*lanes]
			scale := w.scale[(b*8+g)*lanes:][:lanes]
			minimum := w.minimum[(b*8+g)*lanes:][:lanes]
			for r := range lanes {
				scale[r] = d[r] * float32(bytes[r])
				minimum[r] = dmin[r] * float32(bytes[lanes+r])
			}
		}
	}
}

// unpackSigned unpacks scales of eight bits, one for each group.
func unpackSigned(k int, sc []byte, w *panel) {
	var d [lanes]float32
	groups := 256 / w.group
	size := (2 + groups) * lanes
	for b := range k / 256 {
		s := sc[b*size : (b+1)*size]
		tensor.FromF16(d[:], s[:2*lanes])
		for g := range groups {
			bytes := s[2*lanes+g*lanes:][:lanes]
			scale := w.scale[(b*groups+g)*lanes:][:lanes]
			for r := range lanes {
				scale[r] = d[r] * float32(int8(bytes[r]))
			}
		}
	}
}

// unpackQuantsPlain writes integers of fewer than 8 bits as signed bytes: with
// the offset subtracted, or from the table.
func unpackQuantsPlain(f format, dst []int8, q []byte) {
	size := f.groupBytes()
	values := f.table.values()
	for g := range len(q) / size {
		src, out := q[g*size:(g+1)*size], dst[g*512:(g+1)*512]
		for i := range 8 {
			for j := range 64 {
				v := bitsOf(f.bits, src, i, j)
				if f.table == noTable {
					out[i*64+j] = int8(v) - int8(f.offset)
				} else {
					out[i*64+j] = values[v]
				}
			}
		}
	}
}

// bitsOf returns byte j of unit i as stored.
func bitsOf(bits int, src []byte, i, j int) byte {
	if bits < 4 {
		v := src[i/4*64+j] >> (i % 4 * 2) & 3
		if bits == 3 {
			v |= src[128+j] >> i & 1 << 2
		}
		return v
	}
	v := src[i%4*64+j] >> (i / 4 * 4) & 15
	switch bits {
	case 5:
		v |= src[256+j] >> i & 1 << 4
	case 6:
		v |= src[256+i/4*64+j] >> (i % 4 * 2) & 3 << 4
	}
	return v
}

// grow returns s with length n; its contents are undefined.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
