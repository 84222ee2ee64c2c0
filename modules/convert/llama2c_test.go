package convert_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/modules/convert"
)

// checkpoint writes a header and the numbers 0, 1, 2, …
func checkpoint(head [7]int32, numbers int) []byte {
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, head[:])
	for i := range numbers {
		binary.Write(&b, binary.LittleEndian, float32(i))
	}
	return b.Bytes()
}

// A model of dim 4, hidden 6, 2 layers, 2 heads, 1 KV head, vocabulary 3,
// context 5.
var tiny = [7]int32{4, 6, 2, 2, 1, 3, 5}

const tinyNumbers = 3*4 + 2*4 + 2*16 + 2*8 + 2*8 + 2*16 + 2*4 + 3*2*24 + 4 + 2*5*1

func read(t *testing.T, b []byte) (*convert.File, error) {
	t.Helper()
	return convert.Read(bytes.NewReader(b), int64(len(b)))
}

func TestTensorsComeFromTheirPlaces(t *testing.T) {
	f, err := read(t, checkpoint(tiny, tinyNumbers))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := gguf.Write(&out, f.Metadata("tiny"), f.Tensors()); err != nil {
		t.Fatal(err)
	}
	g, err := gguf.Parse(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for name, first := range map[string]float32{
		"token_embd.weight": 0, "blk.0.attn_norm.weight": 12, "blk.1.attn_norm.weight": 16, "blk.0.attn_q.weight": 20,
		"blk.1.attn_k.weight": 52 + 8, "blk.0.attn_v.weight": 68, "blk.1.attn_output.weight": 84 + 16, "blk.0.ffn_norm.weight": 116,
		"blk.0.ffn_gate.weight": 124, "blk.1.ffn_down.weight": 172 + 24, "blk.0.ffn_up.weight": 220, "output_norm.weight": 268,
	} {
		tensor, ok := g.Tensor(name)
		if !ok {
			t.Errorf("no %s", name)
			continue
		}
		if got := math.Float32frombits(binary.LittleEndian.Uint32(tensor.Data)); got != first {
			t.Errorf("%s begins with %g, want %g", name, got, first)
		}
	}
	if _, ok := g.Tensor("output.weight"); ok {
		t.Error("a tied model has an output head")
	}
}

func TestReadRefuses(t *testing.T) {
	change := func(i int, v int32) [7]int32 { h := tiny; h[i] = v; return h }
	for _, tc := range []struct {
		name string
		in   []byte
		want string
	}{
		{"empty", nil, "header"},
		{"short", checkpoint(tiny, tinyNumbers-1), "size mismatch"},
		{"long", checkpoint(tiny, tinyNumbers+1), "size mismatch"},
		{"huge", checkpoint(change(0, math.MaxInt32), 0), "bad dim: got 2147483647, want 1 to 32768"},
		{"negative layers", checkpoint(change(2, -1), 0), "bad n_layers: got -1, want 1 to 512"},
		{"most negative vocabulary", checkpoint(change(5, math.MinInt32), 0), "bad vocab_size: got 2147483648, want 1 to 1048576"},
		{"odd head", checkpoint(change(3, 4), 0), "dim 4 is not an even multiple of n_heads 4"},
		{"kv heads", checkpoint([7]int32{8, 6, 2, 4, 3, 3, 5}, 0), "n_heads 4 is not a multiple of n_kv_heads 3"},
		{"all at their bounds", checkpoint([7]int32{1 << 15, 1 << 17, 512, 1 << 10, 1 << 10, 1 << 20, 1 << 20}, 0), "size mismatch"},
	} {
		if _, err := read(t, tc.in); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestStories260K(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "data", "models", "stories260K.bin"))
	if err != nil {
		t.Skip("skipped: no ../shared/data")
	}
	f, err := read(t, data)
	if err != nil {
		t.Fatal(err)
	}
	want := convert.Config{Dim: 64, Hidden: 172, Layers: 5, Heads: 8, KVHeads: 4, Vocab: 512, Context: 512, Tied: true}
	if f.Config != want {
		t.Errorf("%+v, want %+v", f.Config, want)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(checkpoint(tiny, tinyNumbers))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := read(t, b)
		if err != nil {
			return
		}
		if _, err := gguf.Write(&bytes.Buffer{}, m.Metadata("x"), m.Tensors()); err != nil {
			t.Fatal(err)
		}
	})
}
