//go:build unix

package worker_test

import (
	"fmt"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/worker"
	"mm-abi.org/mm/runtimes/worker/wire"
)

// The cost of sending a tensor to a child and back, through the pipe and through shared memory:
// shareFrom is where they cross.
func BenchmarkEcho(b *testing.B) {
	for _, size := range []int{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20} {
		for way, share := range map[string]int{"pipe": -1, "shared": 1} {
			b.Run(fmt.Sprintf("%dKiB/%s", size>>10, way), func(b *testing.B) {
				opt := options("echo", "")
				opt.Share = share
				m, err := worker.Open(b.Context(), opt, wire.Open{Name: "x", Type: abi.Encoder})
				if err != nil {
					b.Fatal(err)
				}
				defer m.Close()
				in := map[string]runtimes.Tensor{"x": {Type: runtimes.Uint8, Shape: []int64{int64(size)}, Data: make([]byte, size)}}
				b.SetBytes(int64(2 * size))
				for b.Loop() {
					if _, err := m.(runtimes.Function).Run(b.Context(), in); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
