package convert_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/convert"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/onnx/htp/htptest"
)

// described is the manifest of a context binary.
func described(t *testing.T, change func(c *htp.Context)) (modules.Manifest, error) {
	t.Helper()
	c := htptest.Sample()
	c.BlobSize = 64
	change(&c)
	path := filepath.Join(t.TempDir(), "c.bin")
	if err := os.WriteFile(path, htptest.Context(c), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := qnnfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return convert.DescribeContext(f)
}

// Ports are the graph's inputs and outputs as the backend accepts and returns them:
// integers with a scale are numbers, others themselves.
func TestDescribeContext(t *testing.T) {
	m, err := described(t, func(c *htp.Context) {
		g := &c.Graphs[0]
		x := g.Inputs[0]
		x.Name, x.DType, x.Dims = "q", htp.UFixed16, []uint32{1, 3}
		x.Quant = htp.Quantization{Encoding: htp.ScaleOffset, Scales: []float32{0.5}, Offsets: []int32{-3}}
		y := g.Inputs[0]
		y.Name, y.DType, y.Dims = "ids", htp.Int32, []uint32{7}
		g.Inputs = append(g.Inputs, x, y)
	})
	if err != nil {
		t.Fatal(err)
	}
	fixed := func(sizes ...int64) (s abi.Shape) {
		for _, n := range sizes {
			s = append(s, abi.Dim{Size: n})
		}
		return s
	}
	want := []abi.Port{{Name: "x", Shape: fixed(4, 16), DType: abi.FP32}, {Name: "q", Shape: fixed(1, 3), DType: abi.FP32}, {Name: "ids", Shape: fixed(7), DType: abi.Int32}}
	if d := cmp.Diff(want, m.Inputs); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]abi.Port{{Name: "y", Shape: fixed(4, 8), DType: abi.FP32}}, m.Outputs); d != "" {
		t.Error(d)
	}
}

func TestDescribeContextRefused(t *testing.T) {
	for want, change := range map[string]func(c *htp.Context){
		"2 graphs (main, other), want 1": func(c *htp.Context) {
			other := c.Graphs[0]
			other.Name = "other"
			c.Graphs = append(c.Graphs, other)
		},
		`"x": unsupported element type uint32`: func(c *htp.Context) { c.Graphs[0].Inputs[0].DType = htp.Uint32 },
	} {
		if _, err := described(t, change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
