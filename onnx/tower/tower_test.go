package tower

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
)

// example is a tiny model of scripts/towers.py.
func example(t *testing.T, name string) (Config, Weights) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := ReadConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(filepath.Join("testdata", name+".safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	all := map[string]safetensors.Tensor{}
	for _, x := range f.Tensors {
		all[x.Name] = x
	}
	return c, Safetensors(all)
}

func examples(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	for i := range files {
		files[i] = strings.TrimSuffix(filepath.Base(files[i]), ".json")
	}
	return files
}

// run computes a model of one input.
func run(t *testing.T, m *onnx.Model, in []float32, dims ...int) []float32 {
	t.Helper()
	p, err := engine.Compile(t.Context(), m, engine.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	v := p.Inputs()[0]
	x := engine.Tensor{Type: onnx.FLOAT}
	for i, d := range v.Type.Dims {
		if n := int(d.Value); d.Param == "" {
			x.Shape = append(x.Shape, n)
		} else {
			x.Shape = append(x.Shape, dims[i])
		}
	}
	for _, f := range in {
		x.Data = binary.LittleEndian.AppendUint32(x.Data, math.Float32bits(f))
	}
	out, err := p.Run(t.Context(), map[string]engine.Tensor{v.Name: x})
	if err != nil {
		t.Fatal(err)
	}
	y := out[p.Outputs()[0]]
	floats := make([]float32, len(y.Data)/4)
	for i := range floats {
		floats[i] = math.Float32frombits(binary.LittleEndian.Uint32(y.Data[4*i:]))
	}
	return floats
}

// compare returns the largest difference and the cosine.
func compare(t *testing.T, got, want []float32) (most, cosine float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d numbers, want %d", len(got), len(want))
	}
	var dot, a, b float64
	for i := range got {
		x, y := float64(got[i]), float64(want[i])
		dot, a, b = dot+x*y, a+x*x, b+y*y
		most = max(most, math.Abs(x-y))
	}
	return most, dot / math.Sqrt(a*b)
}

// TestTransformers: tower and projector of every family compute what
// transformers computes.
func TestTransformers(t *testing.T) {
	for _, name := range examples(t) {
		t.Run(name, func(t *testing.T) {
			c, w := example(t, name)
			read := func(name string) []float32 {
				x, err := w.floats(name, w[name].Shape...)
				if err != nil {
					t.Fatal(err)
				}
				return x
			}
			encoder, err := c.Encoder(w)
			if err != nil {
				t.Fatal(err)
			}
			projector, err := c.Projector(w)
			if err != nil {
				t.Fatal(err)
			}
			features := run(t, encoder, read("test.in"), w["test.in"].Shape...)
			// There the projector's input is shuffled, in the order of windows, or of further layers.
			if c.Family != "mistral3" && c.Family != "internvl" && c.Family != "qwen2_5_vl" && c.Family != "qwen3_vl" {
				if most, cosine := compare(t, features, read("test.features")); !(cosine > 1-1e-9) {
					t.Errorf("features: cosine 1 - %.1e, largest difference %.1e", 1-cosine, most)
				}
			}
			wide := (1 + c.Deep()) * c.Width
			got, want := run(t, projector, features, 1, len(features)/wide, wide), read("test.out")
			most, cosine := compare(t, got, want)
			t.Logf("cosine 1 - %.1e, largest difference %.1e", 1-cosine, most)
			if !(cosine > 1-1e-9) || c.grid == nil && c.sound == nil && len(got) != c.Count()*c.Into {
				t.Errorf("vectors: cosine 1 - %.1e, largest difference %.1e", 1-cosine, most)
			}
		})
	}
}
