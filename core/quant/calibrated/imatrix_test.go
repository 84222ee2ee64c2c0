package calibrated

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tensor"
)

// sample returns entries of a plain matrix and of two experts, one without rows.
func sample() *Imatrix {
	return &Imatrix{
		Entries: map[string]Entry{
			"blk.0.attn_q.weight":        {Sums: []float32{8, 0, 2, 16}, Counts: []float32{8}},
			"blk.0.ffn_down_exps.weight": {Sums: []float32{3, 6, 0, 0}, Counts: []float32{3, 0}},
		},
		Datasets: []string{"one.txt", "two.txt"}, Chunks: 2, Size: 4,
	}
}

func read(b []byte) (*Imatrix, error) { return ReadImatrix(bytes.NewReader(b), int64(len(b))) }

func TestGGUF(t *testing.T) {
	var b, again bytes.Buffer
	if err := sample().Write(&b); err != nil {
		t.Fatal(err)
	}
	got, err := read(b.Bytes())
	if d := cmp.Diff(sample(), got); err != nil || d != "" {
		t.Fatalf("%v (-want +got)\n%s", err, d)
	}
	if err := got.Write(&again); err != nil || !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Error("output differs the second time", err)
	}
}

// The older format, byte by byte, and back.
func TestPlain(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WritePlain(&b); err != nil {
		t.Fatal(err)
	}
	var want []byte
	num := func(n uint32) { want = binary.LittleEndian.AppendUint32(want, n) }
	floats := func(v ...float32) {
		for _, f := range v {
			num(math.Float32bits(f))
		}
	}
	num(2)
	num(19)
	want = append(want, "blk.0.attn_q.weight"...)
	num(2) // 8 rows are 2 calls of 4
	num(4)
	floats(2, 0, 0.5, 4) // means times calls
	num(26)
	want = append(want, "blk.0.ffn_down_exps.weight"...)
	num(1)
	num(4)
	floats(1, 2, 1, 1) // 1 for the expert without rows
	num(2)
	num(7)
	want = append(want, "two.txt"...)
	if d := cmp.Diff(want, b.Bytes()); d != "" {
		t.Fatalf("(-want +got)\n%s", d)
	}
	got, err := read(want)
	if err != nil || got.Chunks != 2 || !cmp.Equal(got.Datasets, []string{"two.txt"}) {
		t.Fatal(got, err)
	}
	for name, want := range map[string][]float32{"blk.0.attn_q.weight": {1, 0, 0.25, 2}, "blk.0.ffn_down_exps.weight": {1, 2, 1, 1}} {
		means, err := got.Means(name, len(want), 1)
		if d := cmp.Diff(want, means); err != nil || d != "" {
			t.Errorf("%s: %v %s", name, err, d)
		}
	}
	// The fields after the entries are optional: the oldest files lack them.
	if _, err := read(want[:len(want)-15]); err != nil {
		t.Error(err)
	}
}

func TestMeans(t *testing.T) {
	m := sample()
	means, err := m.Means("blk.0.ffn_down_exps.weight", 2, 2)
	if d := cmp.Diff([]float32{1, 2, 1, 1}, means); err != nil || d != "" {
		t.Error(err, d)
	}
	if means, err := m.Means("blk.9.attn_q.weight", 4, 1); means != nil || err != nil {
		t.Error("means of a tensor without an entry", err)
	}
	if _, err := m.Means("blk.0.attn_q.weight", 5, 1); err == nil {
		t.Error("matrix of another model accepted")
	}
}

// hostile returns files that must be refused, by a part of the error.
func hostile(t testing.TB) map[string][]byte {
	num := func(n ...int32) []byte {
		var b []byte
		for _, v := range n {
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		}
		return b
	}
	nan, neg := int32(math.Float32bits(float32(math.NaN()))), int32(-1<<31|0x3f80<<16)
	entry := func(calls int32, values ...int32) []byte {
		b := append(num(1), 'w')
		return append(append(b, num(calls, int32(len(values)))...), num(values...)...)
	}
	files := map[string][]byte{
		"4 bytes missing":          nil,
		"-1 entries exceed":        num(-1),
		"entries exceed 4":         num(1<<30, 0),
		"no entries":               num(0),
		"name bytes exceed":        num(1, 1<<20, 0, 0),
		"entry name: got 0 bytes":  append(num(1), num(0, 1, 1, 0)...),
		"values exceed":            append(append(num(1), append(num(1), 'w')...), num(1, 1<<29)...),
		"bad sum of squares NaN":   append(num(1), entry(1, nan)...),
		"bad sum of squares -1":    append(num(1), entry(1, neg)...),
		"negative call count -3":   append(num(1), entry(-3, 0)...),
		"duplicate entry":          append(append(num(2), entry(1, 0)...), entry(1, 0)...),
		"trailing bytes":           append(append(num(1), entry(1, 0)...), num(1, 0, 7)...),
		"dataset name bytes":       append(append(num(1), entry(1, 0)...), num(1, 99)...),
		"file truncated":           append(append(num(1), entry(1, 0)...), 1, 2),
		"not an importance matrix": nil,
		"sums without counts":      nil,
		"counts without sums":      nil,
		"want F32":                 nil,
		"3 values for 2 counts":    nil,
	}
	kind := gguf.KV{Key: "general.type", Value: "imatrix"}
	f32 := func(name string, n int) gguf.Source {
		return gguf.Source{Name: name, Type: tensor.F32, Dims: []int{n}, Data: gguf.Bytes(make([]byte, 4*n))}
	}
	for name, c := range map[string]struct {
		kvs     []gguf.KV
		tensors []gguf.Source
	}{
		"not an importance matrix": {[]gguf.KV{{Key: "general.architecture", Value: "llama"}}, nil},
		"sums without counts":      {[]gguf.KV{kind}, []gguf.Source{f32("w.in_sum2", 4)}},
		"counts without sums":      {[]gguf.KV{kind}, []gguf.Source{f32("w.counts", 4)}},
		"want F32":                 {[]gguf.KV{kind}, []gguf.Source{{Name: "w.in_sum2", Type: tensor.F16, Dims: []int{2}, Data: gguf.Bytes(make([]byte, 4))}, f32("w.counts", 1)}},
		"3 values for 2 counts":    {[]gguf.KV{kind}, []gguf.Source{f32("w.in_sum2", 3), f32("w.counts", 2)}},
	} {
		var b bytes.Buffer
		if _, err := gguf.Write(&b, c.kvs, c.tensors); err != nil {
			t.Fatal(err)
		}
		files[name] = b.Bytes()
	}
	return files
}

func TestHostile(t *testing.T) {
	for want, b := range hostile(t) {
		if _, err := read(b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	for name, m := range map[string]*Imatrix{
		"no sum":     {Entries: map[string]Entry{"w": {Sums: []float32{float32(math.NaN())}, Counts: []float32{1}}}},
		"no count":   {Entries: map[string]Entry{"w": {Sums: []float32{1}}}},
		"below zero": {Entries: map[string]Entry{"w": {Sums: []float32{1}, Counts: []float32{-1}}}},
	} {
		if m.Write(&bytes.Buffer{}) == nil || m.WritePlain(&bytes.Buffer{}) == nil {
			t.Errorf("%s: written", name)
		}
	}
}

func TestLimits(t *testing.T) {
	header := func(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }
	entry := func(name, counts int) error {
		return Entry{Sums: make([]float32, counts), Counts: make([]float32, counts)}.check(strings.Repeat("n", name))
	}
	size := func(n int64) error { _, err := ReadImatrix(bytes.NewReader(nil), n); return err }
	count := func(n uint32) error { _, err := ReadImatrix(bytes.NewReader(header(n)), 12*maxEntries+16); return err }
	for _, c := range []struct {
		name     string
		at, over error
		refusal  string
	}{
		{"maxFile", size(maxFile), size(maxFile + 1), "exceeds"},
		{"maxEntries", count(maxEntries), count(maxEntries + 1), "exceed"},
		{"maxName", entry(maxName, 1), entry(maxName+1, 1), "entry name"},
		{"maxExperts", entry(1, maxExperts), entry(1, maxExperts+1), "counts"},
	} {
		if c.at != nil && strings.Contains(c.at.Error(), c.refusal) {
			t.Errorf("%s: %v", c.name, c.at)
		}
		if c.over == nil || !strings.Contains(c.over.Error(), c.refusal) {
			t.Errorf("%s + 1: %v", c.name, c.over)
		}
	}
}

// A matrix that can be read survives being written.
func FuzzRead(f *testing.F) {
	for _, b := range hostile(f) {
		f.Add(b)
	}
	var a, b bytes.Buffer
	if err := sample().Write(&a); err != nil {
		f.Fatal(err)
	}
	if err := sample().WritePlain(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(a.Bytes())
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, file []byte) {
		m, err := read(file)
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := m.Write(&out); err != nil {
			return // a name that GGUF cannot hold
		}
		again, err := read(out.Bytes())
		if err != nil || len(again.Entries) != len(m.Entries) {
			t.Fatalf("%d entries became %v, %v", len(m.Entries), again, err)
		}
	})
}
