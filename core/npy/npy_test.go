package npy_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/internal/testfiles"
)

// file returns an .npy file of version 1 with the header and body.
func file(header string, body ...byte) []byte {
	b := append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), byte(len(header)>>8))
	return append(append(b, header...), body...)
}

func TestDecode(t *testing.T) {
	for _, c := range []struct {
		name string
		data []byte
		want npy.Array
	}{
		{"plain", file("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 1), }  \n", 1, 0, 2, 0), npy.Array{Type: "i2", Shape: []int{2, 1}, Data: []byte{1, 0, 2, 0}}},
		{"big endian", file("{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }\n", 0, 1, 0, 2), npy.Array{Type: "i2", Shape: []int{2}, Data: []byte{1, 0, 2, 0}}},
		{"Fortran order", file("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n", 1, 4, 2, 5, 3, 6), npy.Array{Type: "u1", Shape: []int{2, 3}, Data: []byte{1, 2, 3, 4, 5, 6}}},
		{"a number", file(`{"shape": (), "descr": "<f4", "fortran_order": False}`, 0, 0, 128, 63), npy.Array{Type: "f4", Data: []byte{0, 0, 128, 63}}},
		{"nothing", file("{'descr': '<f8', 'fortran_order': True, 'shape': (0, 9223372036854775807), }\n"), npy.Array{Type: "f8", Shape: []int{0, 1<<63 - 1}}},
		{"truth", file("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }\n", 1, 0), npy.Array{Type: "b1", Shape: []int{2}, Data: []byte{1, 0}}},
	} {
		got, err := npy.Decode(c.data)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if d := cmp.Diff(c.want.Data, got.Data, cmp.Transformer("len", func(b []byte) string { return string(b) })); d != "" || got.Type != c.want.Type || !cmp.Equal(got.Shape, c.want.Shape) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestRefused(t *testing.T) {
	const ok = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }"
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":             {nil, "not an .npy"},
		"cut in the header": {file(ok)[:20], "header of"},
		"too short":         {file(ok, 1, 2, 3), "3 bytes"},
		"too long":          {file(ok, 1, 2, 3, 4, 5), "5 bytes"},
		"overflow":          {file(strings.Replace(ok, "(1,)", "(4611686018427387904, 4)", 1), 0, 0, 0, 0), "4 bytes"},
		"objects":           {file(strings.Replace(ok, "<f4", "|O", 1), 0), "element type"},
		"text":              {file(strings.Replace(ok, "<f4", "<U3", 1), 0), "element type"},
		"a structure":       {file(strings.Replace(ok, "'<f4'", "[('a', '<f4')]", 1), 0), "element type"},
		"negative":          {file(strings.Replace(ok, "(1,)", "(-1,)", 1)), "invalid shape (-1,)"},
		"not a list":        {file(strings.Replace(ok, "(1,)", "(1)", 1)), "comma"},
		"twice":             {file("{'shape': (), 'shape': (), 'descr': '<f4', 'fortran_order': False}"), "duplicate"},
		"key missing":       {file("{'shape': (), 'descr': '<f4'}"), "2 of the keys"},
		"unknown key":       {file("{'code': 1}"), "code"},
		"many dimensions":   {file(strings.Replace(ok, "(1,)", "("+strings.Repeat("1,", 33)+")", 1)), "33 dimensions"},
		"invalid bool":      {file("{'descr': '|b1', 'fortran_order': False, 'shape': (1,), }", 2), "neither"},
		"unknown version":   {append([]byte("\x93NUMPY\x09\x00\x00\x00\x00\x00"), 0), "got 9"},
		"words":             {file("hello"), "dictionary"},
		"no comma":          {file("{'shape': () 'descr': '<f4'}"), "comma"},
	} {
		if _, err := npy.Decode(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for _, a := range []npy.Array{{Type: "c8"}, {Type: "f4", Shape: []int{2}, Data: make([]byte, 4)}} {
		if _, err := npy.Encode(&a); err == nil {
			t.Errorf("encoded %+v", a)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	for _, shape := range [][]int{nil, {3}, {2, 3}, {0, 4}, {1, 1, 1}} {
		for _, typ := range []string{"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"} {
			n := int(typ[1] - '0')
			for _, d := range shape {
				n *= d
			}
			want := &npy.Array{Type: typ, Shape: shape, Data: bytes.Repeat([]byte{1}, n)}
			data, err := npy.Encode(want)
			if err != nil {
				t.Fatal(err)
			}
			if body := len(data) - n; body%64 != 0 {
				t.Errorf("%s %v: elements begin at %d", typ, shape, body)
			}
			got, err := npy.Decode(data)
			if err != nil || got.Type != typ || !cmp.Equal(got.Shape, shape) || !bytes.Equal(got.Data, want.Data) {
				t.Errorf("%s %v: %+v, %v", typ, shape, got, err)
			}
		}
	}
}

func TestLimits(t *testing.T) {
	const dict = "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }"
	header := func(n int) error {
		head := binary.LittleEndian.AppendUint32([]byte("\x93NUMPY\x02\x00"), uint32(n))
		_, err := npy.Decode(append(head, dict+strings.Repeat(" ", n-len(dict))+"\x00"...))
		return err
	}
	rank := func(n int) error {
		_, err := npy.Decode(file(strings.Replace(dict, "(1,)", "("+strings.Repeat("1,", n)+")", 1), 0))
		return err
	}
	entries := func(n int) error {
		arrays := make(map[string]*npy.Array, n)
		for i := range n {
			arrays[strconv.Itoa(i)] = &npy.Array{Type: "u1", Data: []byte{1}}
		}
		data, err := npy.EncodeArchive(arrays)
		if err != nil {
			return err
		}
		_, err = npy.ReadArchive(bytes.NewReader(data), int64(len(data)), 1<<20)
		return err
	}
	for _, c := range []struct {
		name     string
		at, over error
	}{
		{"MaxHeader", header(npy.MaxHeader), header(npy.MaxHeader + 1)},
		{"MaxRank", rank(npy.MaxRank), rank(npy.MaxRank + 1)},
		{"MaxEntries", entries(npy.MaxEntries), entries(npy.MaxEntries + 1)},
	} {
		if c.at != nil || c.over == nil {
			t.Errorf("%s: %v, one more: %v", c.name, c.at, c.over)
		}
	}
}

// NumPy reads the output of Encode, and Decode reads the output of NumPy.
func TestNumPy(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: starts NumPy")
	}
	python := testfiles.Python(t, "numpy")
	const script = `
import base64, io, json, sys, numpy as np
a = np.load(io.BytesIO(sys.stdin.buffer.read()))
out = []
for b in (a, np.asfortranarray(a), a.astype('>f8'), a.astype('<f2'), a > 2, a[0, 0]):
    f = io.BytesIO(); np.save(f, b)
    out.append({"file": base64.b64encode(f.getvalue()).decode(), "type": b.dtype.newbyteorder('<').str[1:], "shape": list(b.shape),
                "data": base64.b64encode(np.ascontiguousarray(b).astype(b.dtype.newbyteorder('<')).tobytes()).decode()})
print(json.dumps(out))`
	first := &npy.Array{Type: "u1", Shape: []int{2, 3, 2}, Data: []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}
	data, err := npy.Encode(first)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-c", script)
	cmd.Stdin = bytes.NewReader(data)
	printed, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		File, Type, Data string
		Shape            []int
	}
	if err := json.Unmarshal(printed, &all); err != nil || len(all) != 6 {
		t.Fatalf("%d arrays: %v", len(all), err)
	}
	for _, c := range all {
		raw, _ := base64.StdEncoding.DecodeString(c.File)
		want, _ := base64.StdEncoding.DecodeString(c.Data)
		got, err := npy.Decode(raw)
		if err != nil || got.Type != c.Type || len(got.Shape) != len(c.Shape) || !bytes.Equal(got.Data, want) {
			t.Errorf("%s %v: %+v, %v", c.Type, c.Shape, got, err)
		}
	}
}

// An array that can be decoded can be encoded and decoded again.
func FuzzDecode(f *testing.F) {
	f.Add(file("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 1), }\n", 1, 0, 2, 0))
	f.Add(file("{'descr': '>u4', 'fortran_order': True, 'shape': (1, 1), }\n", 1, 0, 2, 0))
	f.Add(file("{'descr': '|b1', 'fortran_order': False, 'shape': (), }\n", 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := npy.Decode(data)
		if err != nil || len(a.Data) == 0 {
			return
		}
		out, err := npy.Encode(a)
		if err != nil {
			t.Fatal(err)
		}
		b, err := npy.Decode(out)
		if err != nil || b.Type != a.Type || !cmp.Equal(a.Shape, b.Shape) || !bytes.Equal(a.Data, b.Data) {
			t.Fatalf("%+v became %+v, %v", a, b, err)
		}
	})
}
