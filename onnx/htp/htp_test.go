package htp_test

import (
	"testing"

	"mm-abi.org/mm/onnx/htp"
)

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]htp.Version{"2.47": {Major: 2, Minor: 47}, "2.45.41": {Major: 2, Minor: 45, Patch: 41}, "v2.51.0.260929181845": {Major: 2, Minor: 51}} {
		if got, err := htp.ParseVersion(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "2", "2.", "2.-1", "2.x", "2.1.2.3.4", "2.99999", "2.1.0.x", "2.4294967298"} {
		if got, err := htp.ParseVersion(bad); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

func TestDTypes(t *testing.T) {
	for _, tc := range []struct {
		d    htp.DType
		name string
		onnx string
		of9  int64
	}{{0x232, "float32", "float32", 36}, {0x408, "ufixed8", "uint8", 9}, {0x404, "ufixed4", "", 5}, {0x508, "bool8", "bool", 9}, {0x0064, "int64", "int64", 72}} {
		if n, ok := tc.d.Size(9); tc.d.String() != tc.name || tc.d.ONNX() != tc.onnx || !ok || n != tc.of9 {
			t.Errorf("%#x: %s %s %d", uint32(tc.d), tc.d, tc.d.ONNX(), n)
		}
	}
	odd := htp.DType(0x999)
	if _, ok := odd.Size(1); ok || odd.Known() || odd.String() != "0x0999" {
		t.Error(odd)
	}
	if n, ok := htp.Float64.Size(1<<56 + 1); ok {
		t.Errorf("2^56 + 1 numbers have %d bytes", n)
	}
	if n, ok := htp.Float64.Size(1 << 56); !ok || n != 1<<59 {
		t.Errorf("2^56 numbers have %d bytes", n)
	}
}

func TestParseArch(t *testing.T) {
	if a, err := htp.ParseArch("V79"); err != nil || a != 79 || a.String() != "v79" {
		t.Error(a, err)
	}
	for _, bad := range []string{"", "v", "79", "v1", "v790", "vx"} {
		if a, err := htp.ParseArch(bad); err == nil {
			t.Errorf("%q: %v", bad, a)
		}
	}
}
