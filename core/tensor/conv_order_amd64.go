//go:build amd64 && !purego

package tensor

// interleave transposes blocks of 8 channels by 8 pixels.
func interleave(dst []float32, lanes int, x []float32, ld, channels, n int) {
	if !hasAVX2 {
		interleavePlain(dst, lanes, x, ld, channels, n)
		return
	}
	c, full := 0, n&^7
	for ; full > 0 && c+8 <= channels; c += 8 {
		packTransposed8(full/8, &x[c*ld], uintptr(ld)*4, &dst[c], uintptr(lanes)*4)
		if full < n {
			interleavePlain(dst[full*lanes+c:], lanes, x[c*ld+full:], ld, 8, n-full)
		}
	}
	if c < channels {
		interleavePlain(dst[c:], lanes, x[c*ld:], ld, channels-c, n)
	}
}

func deinterleave(dst []float32, ld int, x []float32, lanes, channels, n int) {
	if !hasAVX2 {
		deinterleavePlain(dst, ld, x, lanes, channels, n)
		return
	}
	c, full := 0, n&^7
	for ; full > 0 && c+8 <= channels; c += 8 {
		for p := 0; p < full; p += 8 {
			packTransposed8(1, &x[p*lanes+c], uintptr(lanes)*4, &dst[c*ld+p], uintptr(ld)*4)
		}
		if full < n {
			deinterleavePlain(dst[c*ld+full:], ld, x[full*lanes+c:], lanes, 8, n-full)
		}
	}
	if c < channels {
		deinterleavePlain(dst[c*ld:], ld, x[c:], lanes, channels-c, n)
	}
}
