package hf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/core/tensor"
)

// kept converts a folder and returns the GGUF file and the kept files.
func kept(t *testing.T, dir string) (*gguf.File, map[string][]byte, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if _, err := Convert(t.Context(), dir, path, Options{Name: "model"}); err != nil {
		t.Fatal(err)
	}
	m, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	files, err := m.Keep(dir)
	f, errOpen := gguf.Open(path)
	if errOpen != nil {
		t.Fatal(errOpen)
	}
	t.Cleanup(func() { f.Close() })
	return f, files, err
}

// restored writes a folder again and compares every file of it.
func restored(t *testing.T, dir string) {
	t.Helper()
	f, files, err := kept(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	notes, err := Restore(t.Context(), out, files, f)
	if err != nil || len(notes) != 0 {
		t.Fatalf("%v, notes %v", err, notes)
	}
	if err := CompareFolders(dir, out); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		want, err := os.ReadFile(filepath.Join(dir, e.Name()))
		got, errGot := os.ReadFile(filepath.Join(out, e.Name()))
		if err != nil || errGot != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs, or %v, %v", e.Name(), err, errGot)
		}
	}
}

// A folder is written again with the same bytes.
func TestRestore(t *testing.T) {
	for _, dtype := range []safetensors.DType{safetensors.F32, safetensors.F16, safetensors.BF16} {
		t.Run(string(dtype), func(t *testing.T) { restored(t, folder(t, llama(), tensors(), dtype)) })
	}
	t.Run("tied", func(t *testing.T) {
		config := llama()
		config["tie_word_embeddings"] = true
		for _, head := range []float32{3, 4} { // the embedding once more, and another matrix
			dir := t.TempDir()
			put(t, dir, "config.json", config)
			var names []string
			for name := range tensors() {
				names = append(names, name)
			}
			slices.Sort(names)
			weigh(t, dir, "model.safetensors", names, func(name string) float32 { return map[string]float32{embedName: 3, headName: head}[name] })
			restored(t, dir)
		}
	})
}

// Gains that the conversion rounds are written again with the same bytes, unless the GGUF
// file has others.
func TestRestoreGains(t *testing.T) {
	dir, config := t.TempDir(), llama()
	config["architectures"], config["tie_word_embeddings"] = []string{"GemmaForCausalLM"}, true
	config["hidden_activation"], config["head_dim"] = "gelu_pytorch_tanh", 4
	put(t, dir, "config.json", config)
	var names []string
	for name := range tensors() {
		if name != headName {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	weigh(t, dir, "model.safetensors", names, func(string) float32 { return 1e-9 })
	restored(t, dir)
	f, files, err := kept(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range f.Tensors {
		if strings.HasSuffix(x.Name, "norm.weight") {
			f.Tensors[i].Data = bytes.Repeat([]byte{0, 0, 0, 0x40}, x.Dims[0]) // 2
		}
	}
	out := t.TempDir()
	if _, err := Restore(t.Context(), out, files, f); err != nil {
		t.Fatal(err)
	}
	m, err := Open(out, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if got := m.Tensors()["model.norm.weight"].Data[:4]; !bytes.Equal(got, []byte{0, 0, 0x80, 0x3F}) {
		t.Errorf("got %v, want 1", got)
	}
	files[exactFile] = files[exactFile][:20]
	if _, err := Restore(t.Context(), t.TempDir(), files, f); err == nil || !strings.Contains(err.Error(), exactFile) {
		t.Errorf("cut gains: %v", err)
	}
}

// Every architecture in MM_HF_DIR (make hf) is written again with the same bytes.
func TestRestoreTransformers(t *testing.T) {
	dir := os.Getenv("MM_HF_DIR")
	if dir == "" {
		t.Skip("skipped: MM_HF_DIR names no folder of models (make hf makes one)")
	}
	configs, err := filepath.Glob(filepath.Join(dir, "*", "config.json"))
	if err != nil || len(configs) == 0 {
		t.Fatalf("%s holds no models: %v", dir, err)
	}
	for _, config := range configs {
		path := filepath.Dir(config)
		t.Run(filepath.Base(path), func(t *testing.T) {
			if strings.Contains(path, "mxfp4") {
				if _, _, err := kept(t, path); err == nil || !strings.Contains(err.Error(), "blocks in another format") {
					t.Errorf("blocks: %v", err)
				}
				return
			}
			restored(t, path)
		})
	}
}

// Quantized weights are rounded, and a note names them.
func TestRestoreRounded(t *testing.T) {
	dir := folder(t, llama(), tensors(), safetensors.F32)
	f, files, err := kept(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	var sources []gguf.Source
	for _, x := range f.Tensors {
		s := gguf.Source{Name: x.Name, Type: x.Type, Dims: x.Dims, Data: gguf.Bytes(x.Data)}
		if x.Type == tensor.F32 && len(x.Dims) == 2 {
			numbers := make([]float32, x.Dims[0]*x.Dims[1])
			quant.Dequantize(numbers, x.Data, x.Type)
			data := make([]byte, tensor.F16.RowBytes(len(numbers)))
			quant.Quantize(data, numbers, tensor.F16)
			s.Type, s.Data = tensor.F16, gguf.Bytes(data)
		}
		sources = append(sources, s)
	}
	var b bytes.Buffer
	if _, err := gguf.Write(&b, f.KVs, sources); err != nil {
		t.Fatal(err)
	}
	small, err := gguf.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	notes, err := Restore(t.Context(), out, files, small)
	if err != nil || len(notes) != 1 || !strings.Contains(notes[0], "F16: their weights are rounded") {
		t.Fatalf("%v, notes %v", err, notes)
	}
	if err := CompareFolders(dir, out); err == nil || !strings.Contains(err.Error(), "differs") {
		t.Errorf("rounded weights are the same: %v", err)
	}
}

func TestRestoreRefuses(t *testing.T) {
	dir := folder(t, llama(), tensors(), safetensors.F32)
	f, files, err := kept(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	with := func(name string, data []byte) map[string][]byte {
		all := map[string][]byte{name: data}
		for k, v := range files {
			if _, ok := all[k]; !ok {
				all[k] = v
			}
		}
		return all
	}
	head := files["model.safetensors.header"]
	var b bytes.Buffer
	last := f.Tensors[len(f.Tensors)-1]
	if _, err := gguf.Write(&b, f.KVs, []gguf.Source{{Name: last.Name, Type: last.Type, Dims: last.Dims, Data: gguf.Bytes(last.Data)}}); err != nil {
		t.Fatal(err)
	}
	missing, err := gguf.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for name, c := range map[string]struct {
		ctx   context.Context
		files map[string][]byte
		f     *gguf.File
		want  string
	}{
		"a path":           {t.Context(), with("../x", nil), f, "bad name"},
		"a hidden file":    {t.Context(), with(".x", nil), f, "bad name"},
		"a cut header":     {t.Context(), with("model.safetensors.header", head[:len(head)-1]), f, "header"},
		"a short header":   {t.Context(), with("model.safetensors.header", head[:4]), f, "too short"},
		"other dimensions": {t.Context(), with("config.json", bytes.Replace(files["config.json"], []byte(`"intermediate_size":`), []byte(`"intermediate_size":1`), 1)), f, "shape mismatch"},
		"no configuration": {t.Context(), map[string][]byte{"model.safetensors.header": head}, f, "config.json"},
		"a missing tensor": {t.Context(), files, missing, "want ["},
		"canceled":         {ended, files, f, "canceled"},
	} {
		if _, err := Restore(c.ctx, t.TempDir(), c.files, c.f); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	out := t.TempDir()
	if err := os.WriteFile(filepath.Join(out, "model.safetensors"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), out, files, f); err == nil {
		t.Error("existing weights are replaced")
	}
	if err := CompareFolders(dir, folder(t, llama(), tensors(), safetensors.F16)); err == nil || fmt.Sprint(err) == "" {
		t.Error("weights of another type are the same")
	}
}

// CompareFolders reports whether two folders have the same weights by name, type, shape and bytes;
// the error names the first difference.
func CompareFolders(a, b string) (err error) {
	x, err := openShards(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.close()) }()
	y, err := openShards(b)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, y.close()) }()
	left, right := (&Model{shards: x}).Tensors(), (&Model{shards: y}).Tensors()
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if t, ok := right[name]; !ok || !same(left[name], t) {
			return fmt.Errorf("tensor %s differs", name)
		}
	}
	if len(left) != len(right) {
		return fmt.Errorf("%d tensors, want %d", len(right), len(left))
	}
	return nil
}
