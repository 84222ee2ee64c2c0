package wire_test

import (
	"bytes"
	"testing"

	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/worker/wire"
)

// The cost of a request and its reply without a pipe.
func BenchmarkFrames(b *testing.B) {
	in := map[string]runtimes.Tensor{"input": {Type: runtimes.Float32, Shape: []int64{1, 1, 28, 28}, Data: make([]byte, 4*28*28)}}
	var buf bytes.Buffer
	w := wire.NewWriter(&buf)
	for b.Loop() {
		for range 2 {
			list, payload, err := wire.Tensors(in, nil, 0, nil)
			if err == nil {
				err = w.Write(wire.KindRun, 1, &wire.Call{Tensors: list}, payload...)
			}
			if err != nil {
				b.Fatal(err)
			}
			f, err := wire.Read(&buf, 0)
			if err != nil {
				b.Fatal(err)
			}
			var req wire.Call
			if err := f.Decode(&req); err != nil {
				b.Fatal(err)
			}
			if _, err := wire.Unpacked(req.Tensors, f.Payload, nil, nil); err != nil {
				b.Fatal(err)
			}
		}
	}
}
