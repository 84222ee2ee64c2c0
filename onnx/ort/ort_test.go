package ort

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
)

// branch is a model that ONNX Runtime 1.32 wrote: x·[[0 1 2] [3 4 5]], then y+y or y·y.
func branch(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/branch.ort")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A model with branches computes the results of its ONNX model.
func TestOpen(t *testing.T) {
	m, err := Open(branch(t))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := onnx.Write(&b, m); err != nil {
		t.Fatal(err)
	}
	if m, err = onnx.Parse(b.Bytes()); err != nil {
		t.Fatal(err)
	}
	p, err := engine.Compile(t.Context(), m, engine.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	x := engine.Tensor{Type: onnx.FLOAT, Shape: []int{1, 2}}
	for _, v := range []float32{1, 2} { // y is 6, 9, 12
		x.Data = binary.LittleEndian.AppendUint32(x.Data, math.Float32bits(v))
	}
	for choice, want := range map[byte]float32{0: 36 + 81 + 144, 1: 54} {
		out, err := p.Run(t.Context(), map[string]engine.Tensor{"x": x, "c": {Type: onnx.BOOL, Data: []byte{choice}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := math.Float32frombits(binary.LittleEndian.Uint32(out["s"].Data)); got != want {
			t.Errorf("%d: got %v, want %v", choice, got, want)
		}
	}
}

// Files cut short are refused.
func TestMalformed(t *testing.T) {
	data := branch(t)
	if _, err := Parse([]byte("none")); err == nil || !strings.Contains(err.Error(), "ORTM") {
		t.Error(err)
	}
	for n := 8; n < 200; n++ {
		if _, err := Parse(data[:n]); !errors.Is(err, errMalformed) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// A file unfolds to at most budget entries.
func TestBudget(t *testing.T) {
	for n, ok := range map[int]bool{budget: true, budget + 1: false} {
		b := &buffer{left: budget}
		if got := b.spend(n); got != ok || (b.err == nil) != ok {
			t.Errorf("%d: %t, %v", n, got, b.err)
		}
	}
}

// Graphs nest at most maxDepth times.
func TestDepth(t *testing.T) {
	for depth, ok := range map[int]bool{maxDepth: true, maxDepth + 1: false} {
		r := &reader{b: &buffer{left: budget}, domains: map[string]bool{}}
		r.graph(table{}, "g", depth)
		if (r.b.err == nil) != ok {
			t.Errorf("%d: %v", depth, r.b.err)
		}
	}
}

// Tensors have at most maxDims dimensions.
func TestDims(t *testing.T) {
	for n, ok := range map[int]bool{maxDims: true, maxDims + 1: false} {
		data := make([]byte, 256+8*n) // a table at 100 whose field 2 is a vector at 200
		put := func(at, v int) { binary.LittleEndian.PutUint32(data[at:], uint32(v)) }
		put(0, 100)
		put(100, 100-40)
		binary.LittleEndian.PutUint16(data[40:], 10)
		binary.LittleEndian.PutUint16(data[48:], 4)
		put(104, 96)
		put(200, n)
		r := &reader{b: &buffer{data: data, left: budget}}
		if x := r.tensor(r.b.table(0)); (r.b.err == nil) != ok || len(x.Dims) != n {
			t.Errorf("%d: %d dimensions, %v", n, len(x.Dims), r.b.err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(branch(f))
	f.Add([]byte("\x08\x00\x00\x00ORTM\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Open(data)
		if err != nil {
			return
		}
		if _, err := onnx.Write(&bytes.Buffer{}, m); err != nil {
			t.Fatal(err)
		}
	})
}
