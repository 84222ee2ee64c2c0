package pack

import "mm-abi.org/mm/core/tensor"

// panel is 16 rows of weights as the multi-row kernels take them: signed
// bytes and float32 scales. With r the row and c the column,
//
//	W[r][c] = scale[c/group][r] · quants[c/4][r][c%4] - minimum[c/32][r]
type panel struct {
	quants  []int8    // K/4 × 16 × 4
	scale   []float32 // K/group × 16
	minimum []float32 // K/32 × 16, or empty
	group   int       // 32, or 16 for Q6_K
}

// Scratch is a thread's working memory. The zero value is ready for use.
type Scratch struct {
	p      panel
	buf    []int8
	floats []float32
}

// unpack makes panel p of m ready for the multi-row kernels.
func (m *Matrix) unpack(p int, s *Scratch) *panel {
	q := m.quants[p*m.panelBytes : (p+1)*m.panelBytes]
	sc := m.scales[p*m.scaleBytes : (p+1)*m.scaleBytes]
	w, k := &s.p, m.cols
	w.group = groupLen
	if m.format.scheme == schemeQ6K {
		w.group = 16
	}
	w.scale = grow(w.scale, k/w.group*lanes)
	w.minimum = w.minimum[:0]
	if m.format.scheme == schemeScaleMin || m.format.scheme == schemeK {
		w.minimum = grow(w.minimum, k/groupLen*lanes)
	}
	unpackScales(m.format, k, sc, w)
	if m.format.bits == 8 {
		w.quants = asInt8(q)
		return w
	}
	s.buf = grow(s.buf, k*lanes)
	w.quants = s.buf
	unpackQuants(m.format, w.quants, q)
	return w
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
	case schemeK:
		unpackScaleMins(k, sc, w)
	case schemeQ6K:
		unpackScales6(k, sc, w)
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

func unpackScales6(k int, sc []byte, w *panel) {
	var d [lanes]float32
	for b := range k / 256 {
		s := sc[b*lanes*18 : (b+1)*lanes*18]
		tensor.FromF16(d[:], s[:2*lanes])
		for g := range 16 {
			bytes := s[2*lanes+g*lanes:][:lanes]
			scale := w.scale[(b*16+g)*lanes:][:lanes]
			for r := range lanes {
				scale[r] = d[r] * float32(int8(bytes[r]))
			}
		}
	}
}

// unpackQuantsPlain writes the integers of 4, 5 and 6 bits as signed bytes,
// the offset subtracted.
func unpackQuantsPlain(f format, dst []int8, q []byte) {
	size := f.groupBytes()
	for g := range len(q) / size {
		src, out := q[g*size:(g+1)*size], dst[g*512:(g+1)*512]
		for i := range 8 {
			for j := range 64 {
				v := src[i%4*64+j] >> (i / 4 * 4) & 15
				switch f.bits {
				case 5:
					v |= src[256+j] >> i & 1 << 4
				case 6:
					v |= src[256+i/4*64+j] >> (i % 4 * 2) & 3 << 4
				}
				out[i*64+j] = int8(v) - int8(f.offset)
			}
		}
	}
}

// grow gives s the length n; its contents are undefined.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
