//go:build amd64 && !purego

package tensor

import "mm-abi.org/mm/core/cpu"

var hasVNNI = cpu.Has(cpu.VNNI)

// HasBytes reports whether [MulBytes] has a kernel for this processor.
func HasBytes() bool { return hasVNNI }

// bytesVNNI computes MulBytes; steps is positive.
//
//go:noescape
func bytesVNNI(tile *int32, w *int8, x *uint8, offs *int32, steps int)

func mulBytes(tile *[BytesRows * BytesLanes]int32, w []int8, x []uint8, offs []int32) {
	if !hasVNNI || len(offs) == 0 {
		mulBytesPlain(tile, w, x, offs)
		return
	}
	bytesVNNI(&tile[0], &w[0], &x[0], &offs[0], len(offs))
}
