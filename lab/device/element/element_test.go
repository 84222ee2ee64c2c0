package element_test

import (
	"math"
	"slices"
	"testing"

	"mm-abi.org/mm/core/qnn"
	"mm-abi.org/mm/core/qnn/context"
	"mm-abi.org/mm/lab/device/element"
)

// Numbers of every element type come back within its step.
func TestElements(t *testing.T) {
	values := []float32{-1, -0.5, 0, 0.25, 1, 3}
	for dtype, step := range map[qnn.DType]float32{qnn.Float32: 0, qnn.Float16: 0.001, qnn.UFixed8: 0.02, qnn.SFixed8: 0.02, qnn.UFixed16: 0.0002, qnn.SFixed16: 0.0002} {
		x := context.Tensor{Name: "x", DType: dtype}
		switch dtype {
		case qnn.UFixed8:
			x.Quant = context.Quantisation{Encoding: context.ScaleOffset, Scales: []float32{0.02}, Offsets: []int32{-60}}
		case qnn.SFixed8:
			x.Quant = context.Quantisation{Encoding: context.ScaleOffset, Scales: []float32{0.02}, Offsets: []int32{60}}
		case qnn.UFixed16:
			x.Quant = context.Quantisation{Encoding: context.ScaleOffset, Scales: []float32{0.0002}, Offsets: []int32{-30000}}
		case qnn.SFixed16:
			x.Quant = context.Quantisation{Encoding: context.ScaleOffset, Scales: []float32{0.0002}, Offsets: []int32{0}}
		}
		b, err := element.Encode(x, values)
		if err != nil {
			t.Fatal(err)
		}
		back, err := element.Decode(x, b)
		if err != nil || len(back) != len(values) {
			t.Fatalf("%s: %v, %v", dtype, back, err)
		}
		for i, v := range back {
			if d := v - values[i]; d > step || -d > step {
				t.Errorf("%s: %g came back as %g", dtype, values[i], v)
			}
		}
	}
	for _, x := range []context.Tensor{{DType: qnn.Int64}, {DType: qnn.UFixed8}, {DType: 0x777}} {
		if _, err := element.Encode(x, values); err == nil {
			t.Errorf("%+v was written", x)
		}
		if _, err := element.Decode(x, []byte{1}); err == nil {
			t.Errorf("%+v was read", x)
		}
	}
}

// Integers are those that were written, and nothing else is.
func TestIntegers(t *testing.T) {
	for dtype, want := range map[qnn.DType][]float32{
		qnn.Int8: {-128, 0, 127}, qnn.Uint8: {0, 255}, qnn.Int16: {-32768, 5}, qnn.Uint16: {65535}, qnn.Int32: {-1 << 24, 1 << 24}, qnn.Uint32: {7}, qnn.Int64: {-3, 9}, qnn.Bool8: {0, 1},
	} {
		x := context.Tensor{Name: "x", DType: dtype}
		b, err := element.Encode(x, want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := element.Decode(x, b); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", dtype, got, err)
		}
		for _, bad := range []float32{0.5, 1 << 25, float32(math.NaN()), float32(math.Inf(1)), map[bool]float32{true: 256, false: -1 << 20}[dtype == qnn.Int8 || dtype == qnn.Int16]} {
			if dtype == qnn.Int16 && bad == 256 || dtype == qnn.Int32 && bad == -1<<20 || dtype == qnn.Int64 && bad == -1<<20 {
				continue
			}
			if _, err := element.Encode(x, []float32{bad}); err == nil {
				t.Errorf("%g was written as %s", bad, dtype)
			}
		}
	}
	if _, err := element.Decode(context.Tensor{DType: qnn.Int64}, []byte{0, 0, 0, 0, 1, 0, 0, 0}); err == nil {
		t.Error("2^32 was read into a 32-bit float")
	}
}

// Integers are told from numbers that are written as integers.
func TestKinds(t *testing.T) {
	for dtype, want := range map[qnn.DType]bool{qnn.Int8: true, qnn.Uint64: true, qnn.Bool8: true, qnn.UFixed8: false, qnn.SFixed16: false, qnn.Float16: false, 0x777: false} {
		if got := element.Integers(dtype); got != want {
			t.Errorf("%s: %v", dtype, got)
		}
	}
}
