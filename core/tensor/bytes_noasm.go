//go:build !amd64 || purego

package tensor

// HasBytes reports whether [MulBytes] has a kernel for this processor.
func HasBytes() bool { return false }

func mulBytes(tile *[BytesRows * BytesLanes]int32, w []int8, x []uint8, offs []int32) {
	mulBytesPlain(tile, w, x, offs)
}
