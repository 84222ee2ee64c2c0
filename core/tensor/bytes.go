package tensor

// BytesRows and BytesLanes are the sizes of the tile of [MulBytes].
const (
	BytesRows  = 8
	BytesLanes = 32
)

// MulBytes sets tile[i·32 + p] = Σ w[s·32 + i·4 + r] · x[offs[s] + p·4 + r] over the
// steps s of offs and r below 4, for 8 rows i and 32 lanes p. Sums are taken modulo
// 2³². It is fast if [HasBytes] reports so.
func MulBytes(tile *[BytesRows * BytesLanes]int32, w []int8, x []uint8, offs []int32) {
	for _, o := range offs {
		if o < 0 || int(o)+4*BytesLanes > len(x) {
			panic("tensor: offset of bytes out of range")
		}
	}
	if len(w) < 4*BytesRows*len(offs) {
		panic("tensor: too few weights of bytes")
	}
	mulBytes(tile, w, x, offs)
}

func mulBytesPlain(tile *[BytesRows * BytesLanes]int32, w []int8, x []uint8, offs []int32) {
	clear(tile[:])
	for s, o := range offs {
		for i := range BytesRows {
			four := w[(s*BytesRows+i)*4:][:4]
			for p := range BytesLanes {
				v := x[int(o)+4*p:][:4]
				tile[i*BytesLanes+p] += int32(four[0])*int32(v[0]) + int32(four[1])*int32(v[1]) + int32(four[2])*int32(v[2]) + int32(four[3])*int32(v[3])
			}
		}
	}
}
