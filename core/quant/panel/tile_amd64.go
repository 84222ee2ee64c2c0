//go:build amd64 && !purego

package panel

//go:noescape
func tileQ8AVX2(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)

//go:noescape
func tileQ4AVX2(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)

//go:noescape
func tileQ4MinAVX2(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)

//go:noescape
func tileQ5AVX2(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)

//go:noescape
func tileQ5MinAVX2(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)

//go:noescape
func tileQ6AVX2(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)

//go:noescape
func tileQ3AVX2(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)

//go:noescape
func tileQ2AVX2(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)

//go:noescape
func tileQ8AVXVNNI(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)

//go:noescape
func tileQ4AVXVNNI(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)

//go:noescape
func tileQ4MinAVXVNNI(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)

//go:noescape
func tileQ5AVXVNNI(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)

//go:noescape
func tileQ6AVXVNNI(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)

//go:noescape
func tileQ3AVXVNNI(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)

//go:noescape
func tileQ2AVXVNNI(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)

// tileKernel multiplies a panel with 4 rows of a tile of 8; minimum may be nil.
type tileKernel func(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)

// tileAVX2 returns the kernel for unsigned weights of the given bits.
func tileAVX2(bits int, minimum bool) tileKernel {
	switch {
	case bits == 8:
		return tileQ8AVX2
	case bits == 6:
		return tileQ6AVX2
	case bits == 5 && minimum:
		return tileQ5MinAVX2
	case bits == 5:
		return tileQ5AVX2
	case bits == 4 && minimum:
		return tileQ4MinAVX2
	case bits == 4:
		return tileQ4AVX2
	case bits == 3:
		return tileQ3AVX2
	}
	return tileQ2AVX2
}

// tileAVXVNNI is tileAVX2 for AVX-VNNI; its 32-bit sums treat 5 bits like 4.
func tileAVXVNNI(bits int, minimum bool) tileKernel {
	switch {
	case bits == 8:
		return tileQ8AVXVNNI
	case bits == 6:
		return tileQ6AVXVNNI
	case bits >= 4 && minimum:
		return tileQ4MinAVXVNNI
	case bits == 5:
		return tileQ5AVXVNNI
	case bits == 4:
		return tileQ4AVXVNNI
	case bits == 3:
		return tileQ3AVXVNNI
	}
	return tileQ2AVXVNNI
}
