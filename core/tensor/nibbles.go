package tensor

// NibbleGroup is the unit of the lengths of [DotNibbles].
const NibbleGroup = 32

// OrderNibbles sets dst to the numbers of x in the order that [DotNibbles] takes: in
// each group of 32, those at even places, then those at odd places.
func OrderNibbles(dst, x []float32) {
	dst = dst[:len(x)]
	for ; len(x) >= NibbleGroup; dst, x = dst[NibbleGroup:], x[NibbleGroup:] {
		for i := range NibbleGroup / 2 {
			dst[i], dst[NibbleGroup/2+i] = x[2*i], x[2*i+1]
		}
	}
}

// DotNibbles returns Σ scales[b]·Σ x[i]·w[i] over blocks b of per groups of 32
// integers of 4 bits, of which w holds two a byte, the first in the low half. x is in
// the order of [OrderNibbles].
func DotNibbles(x []float32, w []byte, scales []float32, per int) float32 {
	n := len(scales) * per * NibbleGroup
	if per < 1 || len(x) < n || len(w) < n/2 {
		panic("tensor: product of nibbles out of range")
	}
	if n == 0 {
		return 0
	}
	return dotNibbles(x, w, scales, per)
}

// DotNibbles4 computes [DotNibbles] for four rows of x, ldx numbers apart.
func DotNibbles4(dst *[4]float32, x []float32, ldx int, w []byte, scales []float32, per int) {
	n := len(scales) * per * NibbleGroup
	if per < 1 || ldx < n || len(x) < 3*ldx+n || len(w) < n/2 {
		panic("tensor: product of nibbles out of range")
	}
	if n == 0 {
		*dst = [4]float32{}
		return
	}
	dotNibbles4(dst, x, ldx, w, scales, per)
}

// UnpackNibbles sets dst, groups of 32, to (w[i] - zero)·by in the order of
// [OrderNibbles].
func UnpackNibbles(dst []float32, w []byte, zero, by float32) {
	if len(dst)%NibbleGroup != 0 || len(w) < len(dst)/2 {
		panic("tensor: nibbles out of range")
	}
	unpackNibbles(dst, w, zero, by)
}

func unpackNibblesPlain(dst []float32, w []byte, zero, by float32) {
	for ; len(dst) > 0; dst, w = dst[NibbleGroup:], w[NibbleGroup/2:] {
		for i, v := range w[:NibbleGroup/2] {
			dst[i], dst[NibbleGroup/2+i] = (float32(v&15)-zero)*by, (float32(v>>4)-zero)*by
		}
	}
}

func dotNibblesPlain(x []float32, w []byte, scales []float32, per int) float32 {
	var sum float32
	for _, by := range scales {
		var block float32
		for range per {
			for i, v := range w[:NibbleGroup/2] {
				block += x[i]*float32(v&15) + x[NibbleGroup/2+i]*float32(v>>4)
			}
			x, w = x[NibbleGroup:], w[NibbleGroup/2:]
		}
		sum += by * block
	}
	return sum
}
