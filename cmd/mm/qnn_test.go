package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/assemble/compile"
	"mm-abi.org/mm/cmd/console"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/onnx/htp/htptest"
)

// qnnFiles are a file of each format for QNN: q.bin, q.tflite with two contexts
// and an operator for the processor, whole.tflite with one, q.dlc.
func qnnFiles() map[string][]byte {
	c := htptest.Sample()
	c.BlobSize = 512
	quantised := htptest.Sample()
	quantised.BlobSize = 100
	x := &quantised.Graphs[0].Inputs[0]
	x.DType, x.Quant = htp.UFixed8, htp.Quantization{Encoding: htp.ScaleOffset, Scales: []float32{0.5}, Offsets: []int32{-3}}
	x.Dynamic = []bool{false, false}
	quantised.Tensors = []htp.Tensor{quantised.Graphs[0].Outputs[0]}
	plain, second := htptest.Context(c), htptest.Context(quantised)
	return map[string][]byte{
		"q.bin":        plain,
		"q.tflite":     htptest.LiteRT{Stamp: "SM8750", Left: []uint32{156}, Parts: []htptest.Part{{Graph: "main", Context: plain}, {Graph: "main", Context: second}}}.Bytes(),
		"whole.tflite": htptest.LiteRT{Stamp: "SM8750", Parts: []htptest.Part{{Graph: "main", Context: plain}}}.Bytes(),
		"q.dlc":        htptest.DLC("net", nil),
	}
}

// qnnCommand writes them.
func qnnCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: qnn")
	}
	for name, data := range qnnFiles() {
		ts.Check(os.WriteFile(ts.MkAbs(name), data, 0o644))
	}
}

// scaled is a context whose input has the scales and offsets of an encoding.
func scaled(q htp.Quantization) []byte {
	c := htptest.Sample()
	c.BlobSize = 512
	c.Graphs[0].Inputs[0].DType, c.Graphs[0].Inputs[0].Quant = htp.UFixed8, q
	return htptest.Context(c)
}

// Where nobody says a least cosine, the precision does; 0 is any where it is
// written.
func TestLeastCosine(t *testing.T) {
	for _, c := range []struct {
		model     string
		precision compile.Precision
		given     []string
		want      float64 // -1: refused
	}{
		{"m.onnx", compile.FP16, nil, 0.99},
		{"m.onnx", compile.W8A16, nil, 0.99},
		{"m.onnx", compile.W8A8, nil, 0.98},
		{"m.gguf", compile.FP16, nil, 0.9},
		{"m.onnx", compile.W8A8, []string{"--min-cosine", "0"}, 0},
		{"m.gguf", compile.FP16, []string{"--min-cosine", "0.5"}, 0.5},
		{"m.onnx", compile.FP16, []string{"--min-cosine", "NaN"}, -1},
		{"m.onnx", compile.FP16, []string{"--min-cosine", "1.5"}, -1},
	} {
		set := flag.NewFlagSet("compile", flag.ContinueOnError)
		set.Float64("min-cosine", 0, "")
		if err := set.Parse(c.given); err != nil {
			t.Fatal(err)
		}
		got, err := cosineOptions(cli.NewContext(cli.NewApp(), set, nil), compile.Options{Model: c.model, Precision: c.precision})
		if err != nil {
			got = -1
		}
		if got != c.want {
			t.Errorf("%s, %s, %v: %v, want %v", c.model, c.precision, c.given, got, c.want)
		}
	}
}

// Whatever the reader takes is printed: scales without offsets, and files that
// are damaged.
func TestQNNPrinted(t *testing.T) {
	files, read := qnnFiles(), 0
	files["bare.bin"] = scaled(htp.Quantization{Encoding: htp.PerAxisBits, Bits: 4, Scales: []float32{0.5}})
	files["offset.bin"] = scaled(htp.Quantization{Encoding: htp.PerAxisBits, Bits: 4, Scales: []float32{0.5}, Offsets: []int32{-3}})
	files["axis.bin"] = scaled(htp.Quantization{Encoding: htp.PerAxis, Scales: []float32{0.5, 1}, Offsets: []int32{-3, 4}})
	dir := t.TempDir()
	printed := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		v, err := qnnfile.Inspect(path, htp.KnownChips())
		if err != nil {
			return ""
		}
		read++
		var out bytes.Buffer
		p := program{Printer: console.Printer{Stdout: &out}}
		v.WriteText(p.Stdout)
		return out.String()
	}
	for name, want := range map[string]string{"bare.bin": "axis-bits q * 0.5\n", "offset.bin": "axis-bits (q + -3) * 0.5\n", "axis.bin": "axis\n"} {
		if got := printed(name, files[name]); !strings.Contains(got, want) {
			t.Errorf("%s: %q lacks %q", name, got, want)
		}
	}
	const each = 200
	for name, whole := range files {
		for seed := range each {
			printed(name, htptest.Mutate(whole, 3000, uint64(seed)))
		}
	}
	if all := each * len(files); read < all/10 || read >= all {
		t.Errorf("%d of %d files are read: the test is blind", read, all)
	}
}
