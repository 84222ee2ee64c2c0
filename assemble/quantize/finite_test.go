package quantize

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ggml "mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
)

// TestFinite: infinity and NaN in a tensor, and numbers that the new type turns
// into infinity, are refused with the name of the tensor; nothing is written.
func TestFinite(t *testing.T) {
	dir := t.TempDir()
	wide := filepath.Join(dir, "wide.gguf")
	convert := func(in, out, recipe string) error {
		r, err := quant.ParseRecipe(recipe)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = Rewrite(t.Context(), in, out, Options{Recipe: r}, true)
		return err
	}
	if err := convert(shipped(t), wide, "F32"); err != nil {
		t.Fatal(err)
	}
	f, err := ggml.Open(wide)
	if err != nil {
		t.Fatal(err)
	}
	matrix, _ := f.Tensor("blk.0.ffn_up.weight")
	norm, _ := f.Tensor("output_norm.weight")
	if err := f.Close(); err != nil || matrix.Type != tensor.F32 || norm.Type != tensor.F32 {
		t.Fatalf("got %v and %v, %v, want F32", matrix.Type, norm.Type, err)
	}
	whole, err := os.ReadFile(wide)
	if err != nil {
		t.Fatal(err)
	}
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		tensor ggml.Tensor
		value  float32
		recipe string
		want   string
	}{
		{matrix, 65504, "F16", ""},
		{matrix, 65536, "F16", "tensor blk.0.ffn_up.weight: as F16, from row "},
		{matrix, 65504 * 7, "Q4_0", ""},
		{matrix, 3e38, "Q4_0", "tensor blk.0.ffn_up.weight: as Q4_0, from row "},
		{matrix, -3e38, "Q8_0", "tensor blk.0.ffn_up.weight: as Q8_0, from row "},
		{matrix, 3e38, "Q5_1", "tensor blk.0.ffn_up.weight: as Q5_1, from row "},
		{matrix, inf, "Q4_0", "tensor blk.0.ffn_up.weight: from row "},
		{matrix, -inf, "F32", "tensor blk.0.ffn_up.weight: from row "},
		{norm, float32(math.NaN()), "Q8_0", "tensor output_norm.weight: from row "},
	} {
		bad, out := filepath.Join(dir, "bad.gguf"), filepath.Join(dir, "out.gguf")
		b := append([]byte(nil), whole...)
		binary.LittleEndian.PutUint32(b[c.tensor.Offset+c.tensor.Size-4:], math.Float32bits(c.value))
		if err := os.WriteFile(bad, b, 0o600); err != nil {
			t.Fatal(err)
		}
		err := convert(bad, out, c.recipe)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v as %s: got %v, want %q", c.value, c.recipe, err, c.want)
		}
		if _, err := os.Stat(out); (err == nil) != (c.want == "") {
			t.Errorf("%v as %s: output file: %v", c.value, c.recipe, err)
		}
		os.Remove(out)
	}
}
