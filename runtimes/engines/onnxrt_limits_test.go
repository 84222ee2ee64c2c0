package engines_test

import (
	"encoding/binary"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// A model that needs more memory than its limit fails with an error, and the next request succeeds.
func TestMemoryLimit(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "windows" {
		t.Skip("skipped: no limit on mapped memory here")
	}
	e := engines.ONNXRuntime{Home: runtimetest.Home(t, native.ONNXRuntime)}
	m := onnx.New("zeros", 17)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("n", onnx.INT64, 1)}
	m.Graph.Add("ConstantOfShape", []string{"n"}, "zeros")
	m.Graph.Add("ReduceSum", []string{"zeros"}, "y")
	m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, 1)}
	path := filepath.Join(t.TempDir(), "m.onnx")
	ortWrite(t, path, m)
	for _, c := range []struct {
		memory int64
		fits   bool
	}{{256 << 20, false}, {6 << 30, true}, {0, true}} {
		open, err := e.Open(t.Context(), ortBundle(path), runtimes.Limits{Threads: 1, Memory: c.memory})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int64{1 << 10, 1 << 29, 1 << 10} { // 2 GiB of numbers
			in := runtimes.Tensor{Type: runtimes.Int64, Shape: []int64{1}, Data: binary.LittleEndian.AppendUint64(nil, uint64(n))}
			_, err := open.(runtimes.Function).Run(t.Context(), map[string]runtimes.Tensor{"n": in})
			if want := c.fits || n < 1<<20; (err == nil) != want {
				t.Errorf("%d numbers in %d bytes: %v", n, c.memory, err)
			} else if err != nil {
				first, _, _ := strings.Cut(err.Error(), "\n")
				t.Logf("%d numbers in %d bytes: %s", n, c.memory, first)
			}
		}
		if err := open.Close(); err != nil {
			t.Error(err)
		}
	}
}
