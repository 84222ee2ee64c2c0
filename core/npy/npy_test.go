package npy

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// file is a version 1 file with a header.
func file(head string, data ...byte) []byte {
	out := append([]byte(magic+"\x01\x00"), binary.LittleEndian.AppendUint16(nil, uint16(len(head)))...)
	return append(append(out, head...), data...)
}

func TestParse(t *testing.T) {
	got, err := Parse(file("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }   \n", 1, 2, 3, 4, 5, 6, 7, 8))
	if d := cmp.Diff(Array{"<f4", []int{1, 2}, []byte{1, 2, 3, 4, 5, 6, 7, 8}}, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	if got, err := Parse(file("{'descr': '|u1', 'fortran_order': False, 'shape': (), }\n", 9)); err != nil || got.Shape != nil || len(got.Data) != 1 {
		t.Errorf("a number: %+v, %v", got, err)
	}
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"text":          {[]byte("hello, reader"), "no array file"},
		"empty":         {nil, "no array file"},
		"version":       {append([]byte(magic), 9, 0, 0, 0, 0, 0), "version 9"},
		"cut off":       {file("{'descr'")[:12], "cut off"},
		"big endian":    {file("{'descr': '>f4', 'fortran_order': False, 'shape': (), }\n"), "little-endian"},
		"objects":       {file("{'descr': '|O', 'fortran_order': False, 'shape': (), }\n"), "little-endian"},
		"columns first": {file("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }\n", 0, 0, 0, 0), "columns first"},
		"overflow":      {file("{'descr': '<f8', 'fortran_order': False, 'shape': (2147483647, 2147483647, 2147483647), }\n"), "overflows"},
		"too short":     {file("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", 0, 0, 0, 0), "4 bytes for <f4 [2], which needs 8"},
		"too long":      {file("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }\n", 0, 0, 0), "3 bytes"},
	} {
		if _, err := Parse(c.b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, not %q", name, err, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(file("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }\n", 1, 2, 3, 4, 5, 6, 7, 8))
	f.Add(file("{'descr': '|b1', 'fortran_order': False, 'shape': (), }", 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := Parse(b)
		if err == nil && len(a.Data) > len(b) {
			t.Fatal("more elements than bytes")
		}
	})
}
