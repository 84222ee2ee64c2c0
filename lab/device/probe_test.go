package device_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/lab/device"
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
