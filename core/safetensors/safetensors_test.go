package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/internal/testfiles"
)

func f32(vs ...float32) Bytes {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, vs); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// sample returns the tensors that testdata/reference.py writes.
func sample() []Source {
	return []Source{
		{Name: "half", DType: F16, Shape: []int{2}, Data: Bytes{0x00, 0x3e, 0x00, 0xc0}},
		{Name: "w", DType: F32, Shape: []int{3, 4}, Data: f32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)},
		{Name: "ids", DType: I64, Shape: []int{1, 2}, Data: Bytes{7, 0, 0, 0, 0, 0, 0, 0, 0xf9, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
		{Name: "flag", DType: BOOL, Shape: []int{3}, Data: Bytes{1, 0, 1}},
		{Name: "empty", DType: U8, Shape: []int{0, 5}, Data: Bytes{}},
		{Name: "scalar", DType: F64, Shape: nil, Data: Bytes{0, 0, 0, 0, 0, 0, 0x0a, 0x40}},
	}
}

var metadata = map[string]string{"format": "np", `quote " ä <`: "line\nbreak"}

func written(t testing.TB, meta map[string]string, tensors []Source) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := Write(&b, meta, tensors)
	if err != nil {
		t.Fatal(err)
	}
	if n != int64(b.Len()) {
		t.Errorf("Write: returned %d, wrote %d bytes", n, b.Len())
	}
	return b.Bytes()
}

// same compares a file with the sample.
func same(t *testing.T, how string, f *File) {
	t.Helper()
	if diff := cmp.Diff(metadata, f.Metadata); diff != "" {
		t.Errorf("%s: metadata differs:\n%s", how, diff)
	}
	if len(f.Tensors) != len(sample()) {
		t.Errorf("%s: %d tensors", how, len(f.Tensors))
	}
	for _, want := range sample() {
		got, ok := f.Tensor(want.Name)
		if !ok || got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
			t.Errorf("%s: %s: got %v %s %v", how, want.Name, ok, got.DType, got.Shape)
			continue
		}
		data, err := io.ReadAll(f.Section(got))
		if err != nil || !bytes.Equal(data, want.Data.(Bytes)) {
			t.Errorf("%s: data of %s differs: %x (%v)", how, want.Name, data, err)
		}
		if !bytes.Equal(got.Data, data) {
			t.Errorf("%s: Data of %s differs from its section", how, want.Name)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	file := written(t, metadata, sample())
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	mapped, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer mapped.Close()
	same(t, "Open", mapped)
	inMemory, err := Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "Parse", inMemory)
	read, err := Read(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	for i, tensor := range read.Tensors {
		data, err := io.ReadAll(read.Section(tensor))
		if err != nil || !bytes.Equal(data, inMemory.Tensors[i].Data) || tensor.Data != nil {
			t.Errorf("Read: data of %s: %x, %v", tensor.Name, data, err)
		}
	}
	if err := inMemory.Close(); err != nil {
		t.Error(err)
	}
	if _, ok := inMemory.Tensor("absent"); ok {
		t.Error("unknown tensor found")
	}
	for _, tensor := range mapped.Tensors {
		if size := int64(tensor.DType.bits() / 8); tensor.Offset%size != 0 {
			t.Errorf("%s of %s: misaligned offset %d", tensor.Name, tensor.DType, tensor.Offset)
		}
	}
	reversed := sample()
	slices.Reverse(reversed)
	if !bytes.Equal(written(t, metadata, reversed), file) {
		t.Error("output depends on the order of the tensors")
	}
	if f, err := Parse(written(t, nil, nil)); err != nil || f.Metadata != nil || len(f.Tensors) != 0 {
		t.Errorf("an empty file: %+v, %v", f, err)
	}
}

// TestReference exchanges files with the reference implementation.
func TestReference(t *testing.T) {
	python := testfiles.Python(t, "safetensors", "numpy")
	script, path := filepath.Join("testdata", "reference.py"), filepath.Join(t.TempDir(), "m.safetensors")
	if out, err := exec.Command(python, script, "write", path).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	theirs, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	same(t, "reference file", theirs)

	if err := os.WriteFile(path+".ours", written(t, metadata, sample()), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(python, script, "read", path+".ours").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, s := range sample() {
		if line := hex.EncodeToString(s.Data.(Bytes)); !strings.Contains(string(out), line) {
			t.Errorf("reference does not read %s: missing %s in\n%s", s.Name, line, out)
		}
	}
	if !strings.Contains(string(out), `[('format', 'np'), ('quote " ä <', 'line\nbreak')]`) {
		t.Errorf("reference reads different metadata:\n%s", out)
	}
}

// file returns a file with a header and n bytes of data.
func file(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, n)...)
}

func malformed() []struct {
	name string
	file []byte
	want string
} {
	one := func(entry string) []byte { return file(`{"t":`+entry+`}`, 8) }
	return []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "file too short: got 0 bytes"},
		{"git lfs pointer", []byte("version https://git-lfs.github.com/spec/v1\n"), "Git LFS pointer"},
		{"header over the limit", binary.LittleEndian.AppendUint64(nil, maxHeader+1), "header too large: got 100000001 bytes, want at most"},
		{"header beyond the file", append(binary.LittleEndian.AppendUint64(nil, 1000), "{}"...), "header of 1000 bytes, 2 left"},
		{"header of 2^64-1", binary.LittleEndian.AppendUint64(nil, 1<<64-1), "got 18446744073709551615 bytes"},
		{"no header", file("", 0), "does not begin with {"},
		{"space first", file(" {}", 0), "does not begin with {"},
		{"an array", file("[]", 0), "does not begin with {"},
		{"invalid UTF-8", file("{\"\xff\":1}", 0), "header is not valid UTF-8"},
		{"cut short", file(`{"t":{"dtype"`, 0), `tensor "t".dtype: unexpected EOF`},
		{"not JSON", file(`{"t" 1}`, 0), "invalid character '1'"},
		{"trailing data", file(`{}{}`, 0), "trailing data after the header's object"},
		{"tensor is a number", file(`{"t":1}`, 0), `tensor "t": got 1, want {`},
		{"tensor is null", file(`{"t":null}`, 0), `tensor "t": got <nil>, want {`},
		{"no name", file(`{"":{}}`, 0), "empty tensor name"},
		{"metadata not strings", file(`{"__metadata__":{"a":1}}`, 0), "__metadata__.a: got 1, want a string"},
		{"metadata an array", file(`{"__metadata__":[]}`, 0), "__metadata__: got [, want {"},
		{"duplicate metadata key", file(`{"__metadata__":{"a":"1","a":"2"}}`, 0), `__metadata__: duplicate key "a"`},
		{"duplicate tensor", file(`{"t":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"\u0074":{"dtype":"U8","shape":[0],"data_offsets":[8,8]}}`, 8), `header: duplicate key "t"`},
		{"duplicate field", one(`{"dtype":"U8","dtype":"I8","shape":[8],"data_offsets":[0,8]}`), `tensor "t": duplicate key "dtype"`},
		{"field missing", one(`{"dtype":"U8","shape":[8]}`), "missing dtype, shape or data_offsets"},
		{"field unknown", one(`{"dtype":"U8","shape":[8],"data_offsets":[0,8],"x":1}`), `unknown key "x"`},
		{"dtype unknown", one(`{"dtype":"Q8","shape":[8],"data_offsets":[0,8]}`), `unknown dtype "Q8"`},
		{"dtype a number", one(`{"dtype":8,"shape":[8],"data_offsets":[0,8]}`), `tensor "t".dtype: got 8, want a string`},
		{"shape negative", one(`{"dtype":"U8","shape":[-8],"data_offsets":[0,8]}`), "got -8, want an integer"},
		{"shape a fraction", one(`{"dtype":"U8","shape":[8.0],"data_offsets":[0,8]}`), "got 8.0, want an integer"},
		{"shape beyond 2^63", one(`{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,8]}`), "got 9223372036854775808, want"},
		{"shape a string", one(`{"dtype":"U8","shape":["8"],"data_offsets":[0,8]}`), `got "8", want a number`},
		{"shape overflows", one(`{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}`), "exceeds 2^63 bits"},
		{"shape with 0 overflows", one(`{"dtype":"U8","shape":[0,4611686018427387904,4],"data_offsets":[0,0]}`), "[0 4611686018427387904 4] of U8 exceeds 2^63 bits"},
		{"too many dimensions", one(`{"dtype":"U8","shape":[` + strings.Repeat("1,", 32) + `1],"data_offsets":[0,1]}`), "shape: more than 32 numbers"},
		{"half a byte", one(`{"dtype":"F4","shape":[3],"data_offsets":[0,1]}`), "[3] of F4 is not a multiple of 8 bits"},
		{"one offset", one(`{"dtype":"U8","shape":[8],"data_offsets":[8]}`), "data_offsets: got 1 numbers, want 2"},
		{"three offsets", one(`{"dtype":"U8","shape":[8],"data_offsets":[0,8,9]}`), "data_offsets: more than 2 numbers"},
		{"offsets reversed", one(`{"dtype":"U8","shape":[8],"data_offsets":[8,0]}`), "ends at 0 before it begins at 8"},
		{"size differs", one(`{"dtype":"F32","shape":[1],"data_offsets":[0,8]}`), "F32 [1]: got 8 bytes, want 4"},
		{"beyond the file", file(`{"t":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}}`, 8), `tensor "t": 9 bytes at 0 exceed the data of 8 bytes`},
		{"gap", file(`{"t":{"dtype":"U8","shape":[7],"data_offsets":[1,8]}}`, 8), `tensor "t": got offset 1, want 0`},
		{"overlap", file(`{"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}`, 8), `tensor "b": got offset 4, want 5`},
		{"bytes left over", file(`{"t":{"dtype":"U8","shape":[7],"data_offsets":[0,7]}}`, 8), "data size mismatch: tensors take 7 bytes, got 8"},
		{"data without tensors", file(`{}`, 3), "data size mismatch: tensors take 0 bytes, got 3"},
	}
}

// Tensors of a higher rank follow those of their width.
func TestRank(t *testing.T) {
	tensors := []Source{{Name: "a", DType: F32, Data: f32(1), Rank: 1}, {Name: "b", DType: F32, Data: f32(2)}, {Name: "c", DType: U8, Data: Bytes{3}}, {Name: "d", DType: F32, Data: f32(4)}}
	f, err := Parse(written(t, nil, tensors))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tensor := range f.Tensors {
		names = append(names, tensor.Name)
	}
	if want := []string{"b", "d", "a", "c"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

func TestMalformed(t *testing.T) {
	for _, c := range malformed() {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse(c.file)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got error %v, want %q", err, c.want)
			}
			if _, err := Read(bytes.NewReader(c.file), int64(len(c.file))); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Read: got error %v, want %q", err, c.want)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	header := func(n uint64) error {
		_, err := headerSize(binary.LittleEndian.AppendUint64(nil, n), maxHeader+9)
		return err
	}
	dims := func(n int) error {
		_, err := Parse(file(`{"t":{"dtype":"U8","shape":[`+strings.Repeat("1,", n-1)+`1],"data_offsets":[0,1]}}`, 1))
		return err
	}
	tensors := func(n int) error { return (&File{Tensors: make([]Tensor, n-1)}).add(Tensor{}) }
	for _, c := range []struct {
		name     string
		at, over error
	}{
		{"maxHeader", header(maxHeader), header(maxHeader + 1)},
		{"maxTensors", tensors(maxTensors), tensors(maxTensors + 1)},
		{"maxDims", dims(maxDims), dims(maxDims + 1)},
	} {
		if c.at != nil || c.over == nil {
			t.Errorf("%s: %v, one more: %v", c.name, c.at, c.over)
		}
	}
}

func TestType(t *testing.T) {
	for d, want := range map[DType]tensor.Type{F32: tensor.F32, F16: tensor.F16, BF16: tensor.BF16, I8: tensor.I8,
		I16: tensor.I16, I32: tensor.I32, I64: tensor.I64, F64: tensor.F64} {
		got, ok := d.Type()
		if !ok || got != want || got.RowBytes(1)*8 != int(d.bits()) {
			t.Errorf("%s: got %v %v", d, got, ok)
		}
	}
	if _, ok := C64.Type(); ok {
		t.Error("C64 has a type")
	}
}

func TestWriteRefuses(t *testing.T) {
	one := func(change func(*Source)) []Source {
		s := Source{Name: "t", DType: U8, Shape: []int{4}, Data: Bytes("four")}
		change(&s)
		return []Source{s}
	}
	for want, tensors := range map[string][]Source{
		"duplicate":                         append(one(func(*Source) {}), one(func(*Source) {})...),
		`name "" is empty`:                  one(func(s *Source) { s.Name = "" }),
		`"__metadata__" is empty, reserved`: one(func(s *Source) { s.Name = "__metadata__" }),
		`unknown dtype "X"`:                 one(func(s *Source) { s.DType = "X" }),
		"shape [-1] out":                    one(func(s *Source) { s.Shape = []int{-1} }),
		"no data":                           one(func(s *Source) { s.Data = nil }),
		"got 3 bytes":                       one(func(s *Source) { s.Data = Bytes("abc") }),
		"data longer than":                  one(func(s *Source) { s.Data = Bytes("abcde") }),
		"exceeds 2^63 bits":                 one(func(s *Source) { s.Shape = []int{1 << 62} }),
	} {
		if _, err := Write(io.Discard, nil, tensors); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
	if _, err := Write(io.Discard, map[string]string{"k": "\xff"}, nil); err == nil {
		t.Error("metadata of invalid UTF-8 written")
	}
}

type failing struct{ n int }

var errFull = errors.New("disk full")

func (w *failing) Write(p []byte) (int, error) {
	if len(p) > w.n {
		return w.n, errFull
	}
	w.n -= len(p)
	return len(p), nil
}

func TestWriteError(t *testing.T) {
	size := len(written(t, metadata, sample()))
	for n := 0; n < size; n += 31 {
		if _, err := Write(&failing{n}, metadata, sample()); !errors.Is(err, errFull) {
			t.Fatalf("disk of %d bytes: %v", n, err)
		}
	}
}

// For any bytes, the reader does not panic, and an accepted file survives being
// written and read again.
func FuzzParse(f *testing.F) {
	for _, c := range malformed() {
		f.Add(c.file)
	}
	f.Add(written(f, metadata, sample()))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := Parse(b)
		if err != nil {
			return
		}
		sources := make([]Source, len(got.Tensors))
		for i, g := range got.Tensors {
			sources[i] = Source{Name: g.Name, DType: g.DType, Shape: g.Shape, Data: Bytes(g.Data)}
			data, err := io.ReadAll(got.Section(g))
			if err != nil || !bytes.Equal(data, g.Data) {
				t.Fatalf("tensor %s: data of the section differs (%v)", g.Name, err)
			}
		}
		var again bytes.Buffer
		if _, err := Write(&again, got.Metadata, sources); err != nil {
			t.Fatalf("Write: %v", err)
		}
		back, err := Parse(again.Bytes())
		if err != nil {
			t.Fatalf("reading the output: %v", err)
		}
		if diff := cmp.Diff(got.Metadata, back.Metadata); diff != "" || len(back.Tensors) != len(got.Tensors) {
			t.Fatalf("%d tensors became %d; %s", len(got.Tensors), len(back.Tensors), diff)
		}
	})
}

func Example() {
	var b bytes.Buffer
	_, err := Write(&b, map[string]string{"format": "mm"}, []Source{
		{Name: "bias", DType: F32, Shape: []int{2}, Data: Bytes{0, 0, 128, 63, 0, 0, 0, 64}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	f, err := Parse(b.Bytes())
	if err != nil {
		fmt.Println(err)
		return
	}
	t, _ := f.Tensor("bias")
	fmt.Println(t.Name, t.DType, t.Shape, t.Data, f.Metadata)
	// Output: bias F32 [2] [0 0 128 63 0 0 0 64] map[format:mm]
}
