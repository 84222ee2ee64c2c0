package device_test

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/qnn"
	"mm-abi.org/mm/core/qnn/context"
	"mm-abi.org/mm/device"
)

func TestParseProperties(t *testing.T) {
	got := device.ParseProperties("[ro.a]: [1]\r\n[ro.b]: []\n[ro.c]: [two\nlines]\nnonsense\n[ro.d]: [x]: [y]\n[open]: [never")
	want := map[string]string{"ro.a": "1", "ro.b": "", "ro.c": "two\nlines", "ro.d": "x]: [y"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestParseBattery(t *testing.T) {
	for text, want := range map[string]device.Battery{
		"Current Battery Service state:\n  AC powered: false\n  USB powered: true\n  level: 40\n  scale: 200\n  temperature: 287\n": {Known: true, Level: 20, Powered: true, Celsius: 28.7},
		"  level: 40\n": {Known: true, Level: 40}, "": {}, "  level: 400\n": {}, "  level: -1\n": {}, "  scale: 0\n  level: 0\n": {}, "Can't find service: battery": {},
	} {
		if d := cmp.Diff(want, device.ParseBattery(text)); d != "" {
			t.Errorf("%q: %s", text, d)
		}
	}
}

func TestParseThermal(t *testing.T) {
	got := device.ParseThermal("/s/thermal_zone0/type:cpu\n/s/thermal_zone1/type:npu\n/s/thermal_zone2/type:off\n/s/thermal_zone0/temp:38200\n/s/thermal_zone1/temp:41\n/s/thermal_zone2/temp:-274000\n/s/thermal_zone3/temp:1\nx\n")
	if d := cmp.Diff([]device.Zone{{Name: "cpu", Celsius: 38.2}, {Name: "npu", Celsius: 41}}, got); d != "" {
		t.Error(d)
	}
}

func TestParseSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"Filesystem 1K-blocks Used Available Use% Mounted on\n/dev/block/dm-8 100 40 60 40% /data\n":   60 << 10,
		"Filesystem 1K-blocks Used Available Use% Mounted on\n/dev/a/very/long/name\n 100 40 60 40% /": 60 << 10,
		"df: none": -1, "": -1, "a b c -5 40%": -1,
	} {
		if got := device.ParseFree(text); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
	for text, want := range map[string]int64{"MemTotal: 9 kB\nMemAvailable:    12 kB\n": 12 << 10, "MemAvailable: x kB": 0, "MemAvailable: -4 kB": 0, "": 0} {
		if got := device.ParseMemory(text); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
}

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
		b, err := device.Encode(x, values)
		if err != nil {
			t.Fatal(err)
		}
		back, err := device.Decode(x, b)
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
		if _, err := device.Encode(x, values); err == nil {
			t.Errorf("%+v was written", x)
		}
		if _, err := device.Decode(x, []byte{1}); err == nil {
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
		b, err := device.Encode(x, want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := device.Decode(x, b); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", dtype, got, err)
		}
		for _, bad := range []float32{0.5, 1 << 25, float32(math.NaN()), float32(math.Inf(1)), map[bool]float32{true: 256, false: -1 << 20}[dtype == qnn.Int8 || dtype == qnn.Int16]} {
			if dtype == qnn.Int16 && bad == 256 || dtype == qnn.Int32 && bad == -1<<20 || dtype == qnn.Int64 && bad == -1<<20 {
				continue
			}
			if _, err := device.Encode(x, []float32{bad}); err == nil {
				t.Errorf("%g was written as %s", bad, dtype)
			}
		}
	}
	if _, err := device.Decode(context.Tensor{DType: qnn.Int64}, []byte{0, 0, 0, 0, 1, 0, 0, 0}); err == nil {
		t.Error("2^32 was read into a 32-bit float")
	}
}

func TestCosine(t *testing.T) {
	if c := device.Cosine([]float32{1, 0}, []float32{2, 0}); c != 1 {
		t.Error(c)
	}
	if c := device.Cosine([]float32{1, 0}, []float32{0, 3}); c != 0 {
		t.Error(c)
	}
	for _, b := range [][]float32{{0, 0}, {1}} {
		if c := device.Cosine([]float32{1, 0}, b); c == c {
			t.Error(c)
		}
	}
}

func FuzzProperties(f *testing.F) {
	f.Add("[ro.a]: [1]\n[b]: [two\nlines]\n")
	f.Fuzz(func(t *testing.T, s string) {
		for k, v := range device.ParseProperties(s) {
			if len(k)+len(v) > len(s) {
				t.Fatalf("%q: %q", k, v)
			}
		}
	})
}

func FuzzState(f *testing.F) {
	f.Add("  AC powered: true\n  level: 7\n  scale: 100\n  temperature: 478\n")
	f.Add("/s/thermal_zone0/type:cpu\n/s/thermal_zone0/temp:38200\n")
	f.Add("a b 100 40 60 40% /data\nMemAvailable: 12 kB\n")
	f.Fuzz(func(t *testing.T, s string) {
		if b := device.ParseBattery(s); b.Level < 0 || b.Level > 100 {
			t.Fatalf("%+v", b)
		}
		for _, z := range device.ParseThermal(s) {
			if z.Celsius < -60 || z.Celsius > 200 {
				t.Fatalf("%+v", z)
			}
		}
		if device.ParseFree(s) < -1 || device.ParseMemory(s) < 0 {
			t.Fatalf("%d, %d", device.ParseFree(s), device.ParseMemory(s))
		}
	})
}
