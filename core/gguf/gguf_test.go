package gguf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/tensor"
)

// allKVs has every value type, scalar and array.
var allKVs = []KV{
	{KeyArchitecture, "llama"},
	{"a.u8", uint8(200)}, {"a.i8", int8(-7)}, {"a.u16", uint16(65535)}, {"a.i16", int16(-30000)},
	{"a.u32", uint32(math.MaxUint32)}, {"a.i32", int32(math.MinInt32)},
	{"a.u64", uint64(math.MaxUint64)}, {"a.i64", int64(math.MinInt64)},
	{"a.f32", float32(1.5)}, {"a.f64", -2.25}, {"a.true", true}, {"a.false", false}, {"a.empty", ""},
	{"l.u8", []uint8{1, 2}}, {"l.i8", []int8{-1, 2}}, {"l.u16", []uint16{1, 2}}, {"l.i16", []int16{-1, 2}},
	{"l.u32", []uint32{1, 2}}, {"l.i32", []int32{-1, 2}}, {"l.u64", []uint64{1, 2}}, {"l.i64", []int64{-1, 2}},
	{"l.f32", []float32{1, -2}}, {"l.f64", []float64{1, -2}}, {"l.bool", []bool{true, false, true}},
	{"l.str", []string{"", "Καλημέρα", "\xff\xfe"}}, {"l.none", []string{}},
}

func written(t *testing.T, kvs []KV, tensors []Source) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := Write(&b, kvs, tensors)
	if err != nil {
		t.Fatal(err)
	}
	if n != int64(b.Len()) {
		t.Errorf("Write returned %d bytes, wrote %d", n, b.Len())
	}
	return b.Bytes()
}

func sample() []Source {
	ramp := func(n int) Bytes {
		b := make(Bytes, n)
		for i := range b {
			b[i] = byte(i*7 + n)
		}
		return b
	}
	return []Source{
		{"token_embd.weight", tensor.Q8_0, []int{64, 3}, ramp(6 * 34)},
		{"blk.0.attn_norm.weight", tensor.F32, []int{5}, ramp(20)},
		{"blk.0.cube", tensor.F16, []int{2, 3, 4, 5}, ramp(240)},
		{"blk.0.foreign", tensor.Type(39), []int{32, 2}, ramp(34)},
		{"output.weight", tensor.Q6_K, []int{256, 1}, ramp(210)},
	}
}

func TestRoundTrip(t *testing.T) {
	tensors := sample()
	file := written(t, allKVs, tensors)
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	mapped, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer mapped.Close()
	inMemory, err := Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	read, err := Read(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	for how, f := range map[string]*File{"Open": mapped, "Parse": inMemory, "Read": read} {
		if f.Version != 3 || f.Alignment != 32 {
			t.Errorf("%s: version %d, alignment %d", how, f.Version, f.Alignment)
		}
		var got []KV
		for _, kv := range f.KVs {
			if lazy, ok := kv.Value.(Strings); ok {
				kv.Value = lazy.Slice()
			}
			got = append(got, kv)
		}
		if diff := cmp.Diff(allKVs, got); diff != "" {
			t.Errorf("%s: metadata differs:\n%s", how, diff)
		}
		if len(f.Tensors) != len(tensors) {
			t.Fatalf("%s: %d tensors", how, len(f.Tensors))
		}
		for _, want := range tensors {
			got, ok := f.Tensor(want.Name)
			if !ok || got.Type != want.Type || !cmp.Equal(got.Dims, want.Dims) {
				t.Errorf("%s: %s is %v %v %v", how, want.Name, ok, got.Type, got.Dims)
			}
			if got.Offset%32 != 0 {
				t.Errorf("%s: %s is at %d", how, want.Name, got.Offset)
			}
			data, err := io.ReadAll(f.Section(got))
			if err != nil || !bytes.Equal(data, want.Data.(Bytes)) {
				t.Errorf("%s: the data of %s differ (%v)", how, want.Name, err)
			}
			if how != "Read" && !bytes.Equal(got.Data, data) {
				t.Errorf("%s: Data of %s differ from its section", how, want.Name)
			}
		}
	}
	if _, ok := mapped.Tensor("absent"); ok {
		t.Error("an absent tensor was found")
	}
	if got := written(t, allKVs, sample()); !bytes.Equal(got, file) {
		t.Error("the same input gave different bytes")
	}
}

func TestShapes(t *testing.T) {
	f, err := Parse(written(t, nil, sample()))
	if err != nil {
		t.Fatal(err)
	}
	cube, _ := f.Tensor("blk.0.cube")
	if cube.Elements() != 120 || cube.Rows() != 60 {
		t.Errorf("%v has %d elements in %d rows", cube.Dims, cube.Elements(), cube.Rows())
	}
	// A tensor without dimensions is a scalar.
	scalar, err := Parse(head(1, 0).info("s", 0, 0).align().raw(1, 2, 3, 4).b)
	if err != nil {
		t.Fatal(err)
	}
	if s := scalar.Tensors[0]; !cmp.Equal(s.Dims, []int{1}) || s.Size != 4 {
		t.Errorf("a scalar has dimensions %v, %d bytes", s.Dims, s.Size)
	}
}

func TestAlignment(t *testing.T) {
	kvs := []KV{{KeyAlignment, uint32(64)}}
	f, err := Parse(written(t, kvs, sample()))
	if err != nil {
		t.Fatal(err)
	}
	for _, tensor := range f.Tensors {
		if tensor.Offset%64 != 0 {
			t.Errorf("%s is at %d", tensor.Name, tensor.Offset)
		}
	}
}

// TestUnpadded reads files without padding at the end, as some writers leave
// it, and version 2.
func TestUnpadded(t *testing.T) {
	r := head(1, 0).info("t", 0, 0, 3).align().raw([]byte("twelve bytes")...)
	f, err := Parse(r.b)
	if err != nil || string(f.Tensors[0].Data) != "twelve bytes" {
		t.Errorf("%v, %v", f, err)
	}
	r.b[4] = 2
	if f, err := Parse(r.b); err != nil || f.Version != 2 {
		t.Errorf("version 2: %v", err)
	}
}

func TestGet(t *testing.T) {
	f, err := Parse(written(t, allKVs, nil))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := Get[uint32](f, "a.u32"); err != nil || v != math.MaxUint32 {
		t.Errorf("%v, %v", v, err)
	}
	if v, err := Get[[]string](f, "l.str"); err != nil || v[1] != "Καλημέρα" {
		t.Errorf("%q, %v", v, err)
	}
	if _, err := Get[int32](f, "a.u32"); err == nil || !strings.Contains(err.Error(), "a.u32: got type u32, want i32") {
		t.Errorf("u32 as i32: %v", err)
	}
	if _, err := Get[[]float32](f, "l.str"); err == nil || !strings.Contains(err.Error(), "type arr[str], want arr[f32]") {
		t.Errorf("strings as floats: %v", err)
	}
	if _, err := Get[string](f, "absent"); !errors.Is(err, ErrNoKey) {
		t.Errorf("absent: %v", err)
	}
	if v, err := GetOr(f, "absent", float32(10000)); err != nil || v != 10000 {
		t.Errorf("%v, %v", v, err)
	}
	if _, err := GetOr(f, "a.u32", float32(1)); err == nil {
		t.Error("a wrong type was treated as absent")
	}
}

func TestPerLayer(t *testing.T) {
	f, err := Parse(written(t, []KV{
		{"one", uint32(8)}, {"each", []uint32{8, 4, 2}}, {"signed", []int32{8, 4, 2}},
		{"negative", []int32{8, -4, 2}}, {"text", "8"},
	}, nil))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string][]uint32{"one": {8, 8, 8}, "each": {8, 4, 2}, "signed": {8, 4, 2}} {
		if got, err := f.PerLayer(key, 3); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: %v, %v", key, got, err)
		}
	}
	for key, want := range map[string]string{
		"each": "got 3 entries, want 2", "negative": "-4 in layer 1", "text": "type str", "absent": "no such key",
	} {
		if _, err := f.PerLayer(key, 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	one := func(change func(*Source)) []Source {
		s := Source{"t", tensor.F32, []int{4}, Bytes("sixteen bytes...")}
		change(&s)
		return []Source{s}
	}
	for _, c := range []struct {
		name    string
		kvs     []KV
		tensors []Source
		want    string
	}{
		{"no GGUF type", []KV{{"k", 1}}, nil, "no GGUF type for the Go type int"},
		{"empty key", []KV{{"", "v"}}, nil, "key: empty key"},
		{"key twice", []KV{{"k", "v"}, {"k", "v"}}, nil, "duplicate key k"},
		{"alignment", []KV{{KeyAlignment, uint32(5)}}, nil, "not a power of two"},
		{"tensor twice", nil, append(one(func(*Source) {}), one(func(*Source) {})...), "duplicate tensor t"},
		{"name", nil, one(func(s *Source) { s.Name = strings.Repeat("x", 64) }), "1 to 63 bytes"},
		{"no dimensions", nil, one(func(s *Source) { s.Dims = nil }), "0 dimensions"},
		{"dimension", nil, one(func(s *Source) { s.Dims = []int{-1} }), "dimension 0 is -1"},
		{"type", nil, one(func(s *Source) { s.Type = 77 }), "unknown element type 77"},
		{"block", nil, one(func(s *Source) { s.Type = tensor.Q4_K }), "not a multiple of"},
		{"no data", nil, one(func(s *Source) { s.Data = nil }), "has no data"},
		{"too little", nil, one(func(s *Source) { s.Data = Bytes("short") }), "got 5 bytes, want 16"},
		{"too much", nil, one(func(s *Source) { s.Data = Bytes("seventeen bytes..") }), "more bytes than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Write(io.Discard, c.kvs, c.tensors); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, should hold %q", err, c.want)
			}
		})
	}
}

// failing accepts n bytes.
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
	size := len(written(t, allKVs, sample()))
	for n := 0; n < size; n += 97 {
		if _, err := Write(&failing{n}, allKVs, sample()); !errors.Is(err, errFull) {
			t.Fatalf("a disk of %d bytes gave %v", n, err)
		}
	}
}

// TestReadError reads from a reader shorter than the declared size.
func TestReadError(t *testing.T) {
	file := written(t, allKVs, nil)
	_, err := Read(bytes.NewReader(file[:50]), int64(len(file)))
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
}

func Example() {
	var file bytes.Buffer
	_, err := Write(&file,
		[]KV{{KeyArchitecture, "llama"}, {KeyBlockCount.In("llama"), uint32(5)}},
		[]Source{{Name: "output_norm.weight", Type: tensor.F32, Dims: []int{2}, Data: Bytes{0, 0, 128, 63, 0, 0, 0, 64}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	f, err := Parse(file.Bytes())
	if err != nil {
		fmt.Println(err)
		return
	}
	blocks, err := Get[uint32](f, KeyBlockCount.In("llama"))
	fmt.Println(blocks, err)
	t, _ := f.Tensor("output_norm.weight")
	fmt.Println(t.Name, t.Type, t.Dims, t.Data)
	// Output:
	// 5 <nil>
	// output_norm.weight F32 [2] [0 0 128 63 0 0 0 64]
}
