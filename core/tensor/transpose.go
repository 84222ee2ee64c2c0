package tensor

// Transpose sets dst[c·ldd + r] = src[r·lds + c] for the given rows and columns
// of src, eight by eight in vectors where possible.
func Transpose(dst []float32, ldd int, src []float32, lds, rows, cols int) {
	if rows <= 0 || cols <= 0 {
		return
	}
	if ldd < rows && cols > 1 || lds < cols && rows > 1 || len(dst) < (cols-1)*ldd+rows || len(src) < (rows-1)*lds+cols {
		panic("tensor: transposition out of range")
	}
	r8, c8 := transposeBlocks(dst, ldd, src, lds, rows, cols)
	for r := range r8 {
		for c := c8; c < cols; c++ {
			dst[c*ldd+r] = src[r*lds+c]
		}
	}
	if r8 < rows { // the slice may end before another row would begin
		transposePlain(dst[r8:], ldd, src[r8*lds:], lds, rows-r8, cols)
	}
}

// transposePlain processes parts of columns, so that the output stays in the
// cache. Pixels of three colors are the most common case.
func transposePlain(dst []float32, ldd int, src []float32, lds, rows, cols int) {
	if rows <= 0 {
		return
	}
	if cols == 3 && lds == 3 {
		a, b, c := dst[:rows], dst[ldd:][:rows], dst[2*ldd:][:rows]
		from := src[:3*rows]
		for i := range a {
			f := from[3*i : 3*i+3 : 3*i+3]
			a[i], b[i], c[i] = f[0], f[1], f[2]
		}
		return
	}
	if cols < 8 {
		for c := range cols {
			at := c
			to := dst[c*ldd:][:rows]
			for r := range to {
				to[r] = src[at]
				at += lds
			}
		}
		return
	}
	if rows == 3 && ldd == 3 {
		a, b, c := src[:cols], src[lds:][:cols], src[2*lds:][:cols]
		to := dst[:3*cols]
		for i := range a {
			t := to[3*i : 3*i+3 : 3*i+3]
			t[0], t[1], t[2] = a[i], b[i], c[i]
		}
		return
	}
	const part = 64
	for c0 := 0; c0 < cols; c0 += part {
		n := min(part, cols-c0)
		for r := range rows {
			to := dst[c0*ldd+r:]
			for c, v := range src[r*lds+c0:][:n] {
				to[c*ldd] = v
			}
		}
	}
}
