package compile_test

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mm-abi.org/mm/assemble/compile"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/onnx/window"
	"mm-abi.org/mm/runtimes/qnn"
	"mm-abi.org/mm/runtimes/runtimetest"
	"mm-abi.org/mm/train/dataset/scene"
)

// positions of the window that a layer of the core is compiled for.
const positions = 32

// layer writes the first layer of the shipped core as ONNX, and what it reads of
// three texts of token ids.
func layer(t *testing.T) (path string, sets []map[string]engine.Tensor) {
	t.Helper()
	f, err := gguf.Open(filepath.FromSlash("../../catalog/core-llm/core-llm.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := window.Layers(f, window.Options{Count: 1, Positions: positions})
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "layer.onnx")
	w, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = onnx.Write(w, m)
	e, ok := f.Tensor(arch.TokenEmbedding)
	if err := errors.Join(err, w.Close()); err != nil || !ok {
		t.Fatal(err, ok)
	}
	all := make([]float32, e.Elements())
	quant.Dequantize(all, e.Data, e.Type)
	for set := range 3 {
		in := engine.Tensor{Type: onnx.FLOAT, Shape: []int{1, positions, e.Dims[0]}}
		for i := range positions {
			id := (20 + i*i*7 + set*131) % e.Rows()
			for _, v := range all[id*e.Dims[0] : (id+1)*e.Dims[0]] {
				in.Data = binary.LittleEndian.AppendUint32(in.Data, math.Float32bits(v))
			}
		}
		sets = append(sets, map[string]engine.Tensor{"hidden": in})
	}
	return path, sets
}

// drawn are inputs of the vision encoder: pictures it did not learn from, as its
// manifest has them prepared.
func drawn(t *testing.T, n int) (sets []map[string]engine.Tensor) {
	t.Helper()
	source, err := scene.New(scene.Options{Split: scene.Held})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		rgb := source.Make(i).RGB
		in := engine.Tensor{Type: onnx.FLOAT, Shape: []int{1, 128, 128, 3}}
		for _, v := range rgb {
			in.Data = binary.LittleEndian.AppendUint32(in.Data, math.Float32bits((float32(v)/255-0.5)/0.25))
		}
		sets = append(sets, map[string]engine.Tensor{"image": in})
	}
	return sets
}

// Real models compiled for three chips are near what our own engine computes,
// on inputs that their ranges were not taken from as well, and the same bytes
// twice. The emulation runs them; make qnn-compile prints the figures.
func TestNPU(t *testing.T) {
	libs := os.Getenv("MM_QNN_LIB")
	if libs == "" {
		t.Skip("skipped: MM_QNN_LIB names no folder with Qualcomm's libraries")
	}
	runtimetest.Program(t)
	e := &qnn.Engine{Library: libs}
	block, hidden := layer(t)
	encoder := filepath.FromSlash("../../catalog/vision-enc/vision_enc.onnx")
	images, err := compile.Samples(encoder, []string{filepath.FromSlash("../../catalog/vision-enc/golden")})
	if err != nil {
		t.Fatal(err)
	}
	least := map[compile.Precision]float64{compile.FP16: 0.99, compile.W8A8: 0.98, compile.W8A16: 0.99}
	for _, c := range []struct {
		name, path   string
		sets, unseen []map[string]engine.Tensor
		precisions   []compile.Precision
	}{
		{"core-llm layer 0", block, hidden[:2], hidden[2:], []compile.Precision{compile.FP16, compile.W8A8, compile.W8A16}},
		{"vision-enc", encoder, images, drawn(t, 4), []compile.Precision{compile.FP16, compile.W8A8}},
	} {
		for _, chip := range []string{"SM8550", "SM8650", "SM8750"} {
			for _, p := range c.precisions {
				twice(t, e, compile.Options{Model: c.path, Precision: p, Inputs: c.sets, MinCosine: least[p]}, c.unseen, c.name, chip)
			}
		}
	}
}

// twice compiles a model two times, and runs it on inputs it was not calibrated
// on.
func twice(t *testing.T, e *qnn.Engine, opt compile.Options, unseen []map[string]engine.Tensor, name, chip string) {
	t.Helper()
	var ok bool
	if opt.Chip, ok = htp.KnownChips().Named(chip); !ok {
		t.Fatal(chip)
	}
	var digests []string
	for range 2 {
		opt.Out = filepath.Join(t.TempDir(), "out.bin")
		began := time.Now()
		made, err := compile.Compile(t.Context(), e, opt)
		if err != nil {
			t.Errorf("%s for %s, %s: %v", name, chip, opt.Precision, err)
			return
		}
		r := made.Record
		if len(digests) == 0 {
			took := time.Since(began).Seconds()
			other := elsewhere(t, e, opt, unseen)
			t.Logf("%-17s %s %s %-5s %8d bytes, %d of %d nodes integers, cosine %.5f, on other inputs %.5f, largest difference %-8.3g %4.1f s, %s",
				name, chip, r.Arch, r.Precision, r.Bytes, r.Integers, r.Nodes, r.Cosine, other, r.MaxAbs, took, r.Context[:19])
			if other < opt.MinCosine {
				t.Errorf("%s for %s, %s: on other inputs the cosine is %.5f", name, chip, opt.Precision, other)
			}
		}
		if digests = append(digests, r.Context); r.SoCModel != opt.Chip.Model || !r.Simulated {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if digests[0] != digests[1] {
		t.Errorf("%s for %s, %s: twice the same gives %s and %s", name, chip, opt.Precision, digests[0], digests[1])
	}
}

// elsewhere is the least cosine of a compiled model's outputs on inputs.
func elsewhere(t *testing.T, e *qnn.Engine, opt compile.Options, sets []map[string]engine.Tensor) float64 {
	t.Helper()
	m, err := onnx.Admit(opt.Model, onnx.AdmitOptions{CheckOptions: engine.Checks()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	outputs, err := compile.Emulated(t.Context(), e, opt.Out, m, sets)
	if err != nil {
		t.Fatal(err)
	}
	least := 1.0
	for _, o := range outputs {
		least = min(least, o.Cosine)
	}
	return least
}

// The vision encoder compiles to the same bytes each time. One of its products has a
// constant as its first factor, whose rows of 24 numbers the compiler would pad
// with one thing now and with another then (turn).
func TestSameBytes(t *testing.T) {
	libs := os.Getenv("MM_QNN_LIB")
	if libs == "" {
		t.Skip("skipped: MM_QNN_LIB names no folder with Qualcomm's libraries")
	}
	runtimetest.Program(t)
	e := &qnn.Engine{Library: libs}
	path := filepath.FromSlash("../../catalog/vision-enc/vision_enc.onnx")
	sets, err := compile.Samples(path, []string{filepath.FromSlash("../../catalog/vision-enc/golden")})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		chip      string
		precision compile.Precision
	}{{"SM8550", compile.FP16}, {"SM8650", compile.FP16}, {"SM8750", compile.FP16}, {"SM8750", compile.W8A8}, {"SM8750", compile.W8A16}} {
		chip, _ := htp.KnownChips().Named(c.chip)
		var first string
		for i := range 4 {
			dir := t.TempDir()
			got, err := compile.Digest(t.Context(), e, compile.Options{Model: path, Chip: chip, Precision: c.precision, Inputs: sets, Out: filepath.Join(dir, "out.bin")}, dir)
			if err != nil {
				t.Fatal(err)
			}
			if first == "" {
				first = got
			} else if got != first {
				t.Errorf("%s, %s: compilation %d gives %s, the first %s", c.chip, c.precision, i+1, got[:19], first[:19])
			}
		}
		t.Logf("%s, %-5s four times %s", c.chip, c.precision, first[:19])
	}
}
