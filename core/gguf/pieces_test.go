package gguf

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/tensor"
)

// inPieces writes the sample model in pieces of at most limit bytes and returns
// their paths.
func inPieces(t *testing.T, kvs []KV, limit int64) []string {
	t.Helper()
	outs, err := Split(kvs, sample(), limit)
	if err != nil {
		t.Fatal(err)
	}
	prefix, paths := filepath.Join(t.TempDir(), "m"), []string(nil)
	for i, o := range outs {
		paths = append(paths, PieceName(prefix, i, len(outs)))
		if err := os.WriteFile(paths[i], written(t, o.KVs, o.Tensors), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

// TestPieces reads a model in pieces as the whole file.
func TestPieces(t *testing.T) {
	one, err := Parse(written(t, allKVs, sample()))
	if err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int64]int{1: 5, 256: 4, 288: 3, 1 << 20: 1} {
		paths := inPieces(t, allKVs, limit)
		if len(paths) != want {
			t.Errorf("limit %d: got %d pieces, want %d", limit, len(paths), want)
		}
		mapped, err := Open(paths[0])
		if err != nil {
			t.Fatal(err)
		}
		var pieces []Piece
		size := int64(0)
		for _, path := range paths {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			pieces = append(pieces, Piece{path, bytes.NewReader(b), int64(len(b))})
			size += int64(len(b))
		}
		read, err := ReadPieces(pieces...)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []*File{mapped, read} {
			if !reflect.DeepEqual(one.KVs, f.KVs) || !slices.Equal(f.Names(), one.Names()) || f.Size() != size || f.Pieces() != want {
				t.Errorf("limit %d: metadata, tensors %v, %d bytes in %d pieces", limit, f.Names(), f.Size(), f.Pieces())
			}
			for _, w := range one.Tensors {
				g, ok := f.Tensor(w.Name)
				data, err := io.ReadAll(f.Section(g))
				if !ok || err != nil || !bytes.Equal(data, w.Data) || f == mapped && !bytes.Equal(g.Data, w.Data) {
					t.Errorf("limit %d: tensor %s differs (%v)", limit, w.Name, err)
				}
			}
			if f.Has(KeySplitCount) || !f.Has("a.u8") {
				t.Errorf("limit %d: keys %v", limit, f.KVs)
			}
		}
		mapped.WillNeed()
		mapped.Release(mapped.Tensors[4].Data)
		if err := mapped.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestPiecesRefuses names missing, foreign, duplicated and exchanged pieces.
func TestPiecesRefuses(t *testing.T) {
	move := func(t *testing.T, from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	edit := func(change func(o []Output)) func(*testing.T, []string) string {
		return func(t *testing.T, paths []string) string {
			outs, err := Split(allKVs, sample(), 288)
			if err != nil {
				t.Fatal(err)
			}
			change(outs)
			for i, o := range outs {
				if err := os.WriteFile(paths[i], written(t, o.KVs, o.Tensors), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			return paths[0]
		}
	}
	put := func(o *Output, key string, value any) {
		o.KVs = slices.DeleteFunc(slices.Clone(o.KVs), func(kv KV) bool { return kv.Key == key })
		o.KVs = append(o.KVs, KV{key, value})
	}
	for _, c := range []struct {
		name string
		path func(t *testing.T, paths []string) string
		want string
	}{
		{"second", func(_ *testing.T, p []string) string { return p[1] }, "got piece 2 of 3, want the first: "},
		{"missing", func(t *testing.T, p []string) string { move(t, p[2], p[2]+"~"); return p[0] }, "missing pieces: m-00003-of-00003.gguf"},
		{"renamed", func(t *testing.T, p []string) string { move(t, p[0], p[0]+".gguf"); return p[0] + ".gguf" }, "want NAME-00001-of-00003.gguf"},
		{"renamed second", func(t *testing.T, p []string) string { move(t, p[1], p[1]+".gguf"); return p[1] + ".gguf" }, "got piece 2 of 3, want the first"},
		{"exchanged", func(t *testing.T, p []string) string {
			move(t, p[1], p[1]+"~")
			move(t, p[2], p[1])
			move(t, p[1]+"~", p[2])
			return p[0]
		}, "m-00002-of-00003.gguf: gguf: piece of another model: got piece 3 of 3"},
		{"a whole file", func(t *testing.T, p []string) string {
			if err := os.WriteFile(p[1], written(t, allKVs, nil), 0o600); err != nil {
				t.Fatal(err)
			}
			return p[0]
		}, "m-00002-of-00003.gguf: gguf: got a whole model, want piece 2 of 3"},
		{"no GGUF", func(t *testing.T, p []string) string {
			if err := os.WriteFile(p[1], []byte("text"), 0o600); err != nil {
				t.Fatal(err)
			}
			return p[0]
		}, "m-00002-of-00003.gguf: gguf: "},
		{"other metadata", edit(func(o []Output) { put(&o[1], "a.u8", uint8(1)) }), "key a.u8 differs"},
		{"twice", edit(func(o []Output) { o[2].Tensors = o[0].Tensors }), `duplicate tensor "token_embd.weight"`},
		{"fewer", edit(func(o []Output) { o[2].Tensors = o[2].Tensors[:0] }), "tensor count of 3 pieces: got 3"},
		{"other count", edit(func(o []Output) { put(&o[2], KeySplitTensors, int32(6)) }), "with 6 tensors in all"},
		{"number", edit(func(o []Output) { put(&o[0], KeySplitNo, uint16(3)) }), "want less than the 3 pieces"},
		{"no number", edit(func(o []Output) { put(&o[0], KeySplitNo, "x") }), KeySplitNo},
		{"count", edit(func(o []Output) { put(&o[0], KeySplitCount, int8(2)) }), KeySplitCount},
		{"too many", edit(func(o []Output) { put(&o[0], KeySplitCount, uint16(maxPieces+1)) }), "too many pieces"},
		{"at the limit", edit(func(o []Output) { put(&o[0], KeySplitCount, uint16(maxPieces)) }), "want NAME-00001-of-04096.gguf"},
	} {
		f, err := Open(c.path(t, inPieces(t, allKVs, 288)))
		if err == nil {
			f.Close()
		}
		if !strings.Contains(errText(err), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	one := written(t, []KV{{KeySplitCount, uint16(2)}, {KeySplitNo, uint16(0)}, {KeySplitTensors, int32(1)}}, sample()[:1])
	if _, err := Parse(one); !errors.Is(err, ErrPiece) {
		t.Errorf("Parse: got %v, want ErrPiece", err)
	}
	if _, err := Read(bytes.NewReader(one), int64(len(one))); !errors.Is(err, ErrPiece) {
		t.Errorf("Read: got %v, want ErrPiece", err)
	}
	if _, err := ReadPieces(Piece{"one", bytes.NewReader(one), int64(len(one))}); !errors.Is(err, ErrPiece) {
		t.Errorf("ReadPieces: got %v, want ErrPiece", err)
	}
	if _, err := ReadPieces(); err == nil {
		t.Error("ReadPieces of nothing succeeded")
	}
}

// TestSplitRefuses has models that cannot be divided.
func TestSplitRefuses(t *testing.T) {
	many := make([]Source, maxPieces+1)
	for i := range many {
		many[i] = Source{"t", tensor.F32, []int{8}, make(Bytes, 32)}
	}
	if out, err := Split(nil, many[1:], 1); err != nil || len(out) != maxPieces {
		t.Errorf("maxPieces: got %d pieces, %v", len(out), err)
	}
	if _, err := Split(nil, many, 1); !strings.Contains(errText(err), "too many pieces") {
		t.Errorf("maxPieces + 1: %v", err)
	}
	if _, err := Split(nil, sample(), 0); !strings.Contains(errText(err), "at least 1") {
		t.Errorf("limit 0: %v", err)
	}
	if out, err := Split([]KV{{KeyAlignment, uint32(64)}}, sample(), math.MaxInt64); err != nil || len(out) != 1 || len(out[0].KVs) != 1 {
		t.Errorf("no limit: got %v, %v", out, err)
	}
	paths := inPieces(t, []KV{{KeyAlignment, uint32(256)}}, 1)
	if f, err := Open(paths[0]); err != nil || f.Alignment != 256 {
		t.Errorf("alignment of pieces: %v, %v", f, err)
	} else if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func TestPieceName(t *testing.T) {
	for path, want := range map[string]string{
		"m-00001-of-00003.gguf": "m", "a/b-c-00003-of-00003.gguf": "a/b-c", "m-00004-of-00003.gguf": "", "m-00000-of-00003.gguf": "",
		"m-1-of-3.gguf": "", "m-00001-of-00003.bin": "", "-00001-of-00003.gguf": "", "m.gguf": "", "m-00001-of-00003": "", "": "",
	} {
		if prefix, _, _, ok := ParsePieceName(path); prefix != want && ok || ok != (want != "") {
			t.Errorf("%s: got %q, %v, want %q", path, prefix, ok, want)
		}
	}
	for path, want := range map[string]string{"x/m-00001-of-00003.gguf": "m", "x/m.gguf": "m", "x/m": "m"} {
		if got := Stem(path); got != want {
			t.Errorf("Stem(%s): got %q, want %q", path, got, want)
		}
	}
}

// TestSplitInto divides into at most n pieces of similar size.
func TestSplitInto(t *testing.T) {
	for n, want := range map[int]int{1: 1, 2: 2, 3: 3, 5: 5, 9: 5, maxPieces: 5} {
		out, err := SplitInto(nil, sample(), n)
		if err != nil || len(out) != want {
			t.Errorf("%d: got %d pieces, want %d (%v)", n, len(out), want, err)
		}
	}
	for _, n := range []int{0, -1, maxPieces + 1} {
		if _, err := SplitInto(nil, sample(), n); !strings.Contains(errText(err), "number of pieces") {
			t.Errorf("%d: %v", n, err)
		}
	}
	if got := PiecePaths("a-00001-of-00002.gguf"); !slices.Equal(got, []string{"a-00001-of-00002.gguf", "a-00002-of-00002.gguf"}) {
		t.Errorf("paths: %v", got)
	}
	if got := PiecePaths("a-00002-of-00002.gguf"); len(got) != 1 {
		t.Errorf("paths of the second: %v", got)
	}
}

// Piece is a file of a model in pieces, to read.
type Piece struct {
	Name string // in messages
	R    io.ReaderAt
	Size int64
}

// ReadPieces is [Read] for a model in one or more pieces, in order.
func ReadPieces(pieces ...Piece) (*File, error) {
	var files []*File
	var names []string
	for i, p := range pieces {
		f, err := readOne(p.R, p.Size)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		files, names = append(files, f), append(names, p.Name)
		if s, err := f.split(); i == 0 && (err != nil || max(1, s.count) != len(pieces) || s.no != 0) {
			return nil, cmp.Or(err, fmt.Errorf("%s: gguf: %w: got piece %d of %d and %d files, want the first and all", p.Name, ErrPiece, s.no+1, max(1, s.count), len(pieces)))
		}
	}
	if len(files) == 0 {
		return nil, errors.New("gguf: no pieces")
	}
	if err := files[0].join(names, files[1:]); err != nil {
		return nil, err
	}
	return files[0], nil
}
