package llamalib

import (
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/core/cpu"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tensor"
)

// Only models of latent attention on processors with AMX do without the buffers.
func TestExtraBuffers(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string {
		path := filepath.Join(dir, name)
		to, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = gguf.Write(to, []gguf.KV{{Key: gguf.KeyArchitecture, Value: "deepseek2"}},
			[]gguf.Source{{Name: "blk.0." + name + ".weight", Type: tensor.F32, Dims: []int{1, 1, 1}, Data: gguf.Bytes{0, 0, 0, 0}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := to.Close(); err != nil {
			t.Fatal(err)
		}
		return path
	}
	latent, usual := file("attn_k_b"), file("attn_k")
	amx := []cpu.Level{cpu.VNNI, cpu.AMX}
	for _, c := range []struct {
		path    string
		machine []cpu.Level
		want    bool
	}{
		{latent, amx, false}, {usual, amx, true}, {latent, amx[:1], true}, {filepath.Join(dir, "absent"), amx, true},
	} {
		if got := extraBuffers(c.path, c.machine); got != c.want {
			t.Errorf("%s on %v: got %v, want %v", filepath.Base(c.path), c.machine, got, c.want)
		}
	}
}
