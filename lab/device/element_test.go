package device_test

import (
	"math"
	"slices"
	"testing"

	"mm-abi.org/mm/lab/device"
	"mm-abi.org/mm/onnx/htp"
)

// Numbers of each element type survive within the type's precision.
func TestElements(t *testing.T) {
	values := []float32{-1, -0.5, 0, 0.25, 1, 3}
	for dtype, step := range map[htp.DType]float32{htp.Float32: 0, htp.Float16: 0.001, htp.UFixed8: 0.02, htp.SFixed8: 0.02, htp.UFixed16: 0.0002, htp.SFixed16: 0.0002} {
		x := htp.Tensor{Name: "x", DType: dtype}
		switch dtype {
		case htp.UFixed8:
			x.Quant = htp.Quantization{Encoding: htp.ScaleOffset, Scales: []float32{0.02}, Offsets: []int32{-60}}
		case htp.SFixed8:
			x.Quant = htp.Quantization{Encoding: htp.ScaleOffset, Scales: []float32{0.02}, Offsets: []int32{60}}
		case htp.UFixed16:
			x.Quant = htp.Quantization{Encoding: htp.ScaleOffset, Scales: []float32{0.0002}, Offsets: []int32{-30000}}
		case htp.SFixed16:
			x.Quant = htp.Quantization{Encoding: htp.ScaleOffset, Scales: []float32{0.0002}, Offsets: []int32{0}}
		}
		b, err := device.EncodeElements(x, values)
		if err != nil {
			t.Fatal(err)
		}
		back, err := device.DecodeElements(x, b)
		if err != nil || len(back) != len(values) {
			t.Fatalf("%s: %v, %v", dtype, back, err)
		}
		for i, v := range back {
			if d := v - values[i]; d > step || -d > step {
				t.Errorf("%s: %g came back as %g", dtype, values[i], v)
			}
		}
	}
	for _, x := range []htp.Tensor{{DType: htp.Int64}, {DType: htp.UFixed8}, {DType: 0x777}} {
		if _, err := device.EncodeElements(x, values); err == nil {
			t.Errorf("encoded %+v", x)
		}
		if _, err := device.DecodeElements(x, []byte{1}); err == nil {
			t.Errorf("decoded %+v", x)
		}
	}
}

// Integers survive unchanged; other values are refused.
func TestIntegers(t *testing.T) {
	for dtype, want := range map[htp.DType][]float32{
		htp.Int8: {-128, 0, 127}, htp.Uint8: {0, 255}, htp.Int16: {-32768, 5}, htp.Uint16: {65535}, htp.Int32: {-1 << 24, 1 << 24}, htp.Uint32: {7}, htp.Int64: {-3, 9}, htp.Bool8: {0, 1},
	} {
		x := htp.Tensor{Name: "x", DType: dtype}
		b, err := device.EncodeElements(x, want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := device.DecodeElements(x, b); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", dtype, got, err)
		}
		for _, bad := range []float32{0.5, 1 << 25, float32(math.NaN()), float32(math.Inf(1)), map[bool]float32{true: 256, false: -1 << 20}[dtype == htp.Int8 || dtype == htp.Int16]} {
			if dtype == htp.Int16 && bad == 256 || dtype == htp.Int32 && bad == -1<<20 || dtype == htp.Int64 && bad == -1<<20 {
				continue
			}
			if _, err := device.EncodeElements(x, []float32{bad}); err == nil {
				t.Errorf("encoded %g as %s", bad, dtype)
			}
		}
	}
	if _, err := device.DecodeElements(htp.Tensor{DType: htp.Int64}, []byte{0, 0, 0, 0, 1, 0, 0, 0}); err == nil {
		t.Error("decoded 2^32")
	}
}

// Integer types differ from scaled integers.
func TestKinds(t *testing.T) {
	for dtype, want := range map[htp.DType]bool{htp.Int8: true, htp.Uint64: true, htp.Bool8: true, htp.UFixed8: false, htp.SFixed16: false, htp.Float16: false, 0x777: false} {
		if got := device.IsInteger(dtype); got != want {
			t.Errorf("%s: %v", dtype, got)
		}
	}
}
