package compile_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mm-abi.org/mm/assemble/compile"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/runtimes/qnn"
	"mm-abi.org/mm/runtimes/runtimetest"
	"mm-abi.org/mm/train/dataset/scene"
)

// tensor is float32 numbers of a shape.
func tensor(v []float32, shape ...int) engine.Tensor {
	t := engine.Tensor{Type: onnx.FLOAT, Shape: shape}
	for _, f := range v {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(f))
	}
	return t
}

// digits are the ten digits in letters of size pixels, white on black, 28 by 28.
func digits(t *testing.T, size float64) (sets []map[string]engine.Tensor) {
	t.Helper()
	for d := range 10 {
		m, err := png.Decode(bytes.NewReader(testfiles.Line(t, fmt.Sprint(d), size)))
		if err != nil {
			t.Fatal(err)
		}
		v, b := make([]float32, 28*28), m.Bounds()
		for y := range b.Dy() {
			for x := range b.Dx() {
				to := (y+14-b.Dy()/2)*28 + x + 14 - b.Dx()/2
				if r, _, _, _ := m.At(x, y).RGBA(); to >= 0 && to < len(v) {
					v[to] = 255 - float32(r>>8)
				}
			}
		}
		sets = append(sets, map[string]engine.Tensor{"Input3": tensor(v, 1, 1, 28, 28)})
	}
	return sets
}

// pictures are n scenes as SqueezeNet takes them behind its normalisation, which
// our own engine computes.
func pictures(t *testing.T, head *onnx.Model, split string, n int) (sets []map[string]engine.Tensor) {
	t.Helper()
	const side = 227
	p, err := engine.Compile(t.Context(), head, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	from, err := scene.New(scene.Options{Split: split, Size: side, Kinds: []string{scene.Shapes, scene.Charts}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		s := from.Make(i)
		v := make([]float32, 3*side*side)
		for at := range side * side {
			for c := range 3 {
				v[c*side*side+at] = float32(s.RGB[3*at+c])
			}
		}
		out, err := p.Run(t.Context(), map[string]engine.Tensor{"data": tensor(v, 1, 3, side, side)})
		if err != nil {
			t.Fatal(err)
		}
		sets = append(sets, out)
	}
	return sets
}

// Models of others, quantised and compiled for three chips: near what our engine
// computes of the floats, on what the ranges were taken from and on what they were
// not. make qnn-compile prints the figures.
func TestQuantised(t *testing.T) {
	libs := os.Getenv("MM_QNN_LIB")
	if libs == "" {
		t.Skip("skipped: MM_QNN_LIB names no folder with Qualcomm's libraries")
	}
	mnist, whole := testfiles.Shared(t, "onnx", "mnist.onnx"), testfiles.Shared(t, "onnx", "squeezenet_tensor_input.onnx")
	runtimetest.Program(t)
	e := &qnn.Engine{Library: libs}
	head, squeezenet := squeezed(t, whole)
	for _, c := range []struct {
		name, path    string
		seen, another []map[string]engine.Tensor
	}{
		{"mnist", mnist, append(digits(t, 18), digits(t, 22)...), digits(t, 20)},
		{"SqueezeNet", squeezenet, pictures(t, head, scene.Train, 8), pictures(t, head, scene.Held, 3)},
	} {
		for _, p := range []compile.Precision{compile.W8A8, compile.W8A16} {
			for _, chip := range []string{"SM8550", "SM8650", "SM8750"} {
				opt := compile.Options{Model: c.path, Precision: p, Inputs: c.seen, MinCosine: 0.98, Out: filepath.Join(t.TempDir(), "out.bin")}
				opt.Chip, _ = htp.KnownChips().Named(chip)
				began := time.Now()
				made, err := compile.Compile(t.Context(), e, opt)
				if err != nil {
					t.Errorf("%s for %s, %s: %v", c.name, chip, p, err)
					continue
				}
				r := made.Record
				t.Logf("%-10s %s %s %-5s %7d bytes, cosine %.5f (%.5f before compiling), on other inputs %.5f, %.1f s", c.name, chip, r.Arch, p, r.Bytes, r.Cosine, r.Rounded, unseen(t, e, made.Context, c.path, c.another), time.Since(began).Seconds())
			}
		}
	}
}

// squeezed is SqueezeNet in two parts: what makes a picture's numbers alike, which
// no chip takes, and all behind it up to the scores, which goes into a file.
func squeezed(t *testing.T, path string) (head *onnx.Model, file string) {
	t.Helper()
	m, err := onnx.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	if head, err = m.Cut("data_bn"); err != nil {
		t.Fatal(err)
	}
	rest, err := m.Between([]onnx.Value{{Name: "data_bn"}}, []onnx.Value{{Name: "fc"}})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "squeezenet.onnx")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	_, err = onnx.Write(f, rest)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return head, file
}

// unseen is the least cosine of a context's outputs to our own engine's, on inputs
// that its ranges were not taken from.
func unseen(t *testing.T, e compile.Engine, context, source string, inputs []map[string]engine.Tensor) float64 {
	t.Helper()
	m, err := onnx.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	out, err := compile.Emulated(t.Context(), e, context, m, inputs)
	if err != nil {
		t.Fatal(err)
	}
	least := 1.0
	for _, o := range out {
		least = min(least, o.Cosine)
	}
	if !(least >= 0.98) {
		t.Errorf("%s on other inputs: cosine %.5f", source, least)
	}
	return least
}
