package hf_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/hf"
	"mm-abi.org/mm/core/infer"
)

// variation is what testdata/keys.py writes of a model.
type variation struct {
	Folder   string
	Tokens   []int32
	Every    int
	Variants []struct {
		What    string
		Config  json.RawMessage
		Outcome string
		Logits  string
	}
}

// TestTransformersKeys changes every key of config.json of the models in MM_HF_KEYS, one
// at a time: the logits are those of transformers, or the key is refused.
func TestTransformersKeys(t *testing.T) {
	dir := os.Getenv("MM_HF_KEYS")
	if dir == "" {
		t.Skip("skipped: MM_HF_KEYS names no folder of variants (make hf-keys makes one)")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s holds no variants: %v", dir, err)
	}
	counts := map[string]int{}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			var v variation
			b, err := os.ReadFile(file)
			if err == nil {
				err = json.Unmarshal(b, &v)
			}
			if err != nil {
				t.Fatal(err)
			}
			for i := range v.Variants {
				counts[v.try(t, dir, i)]++
			}
		})
	}
	for _, kind := range slices.Sorted(func(yield func(string) bool) {
		for k := range counts {
			if !yield(k) {
				return
			}
		}
	}) {
		fmt.Printf("%6d %s\n", counts[kind], kind)
	}
}

// try compares a variant, and returns what both programs did.
func (v *variation) try(t *testing.T, dir string, i int) string {
	t.Helper()
	c := v.Variants[i]
	at := t.TempDir()
	files, err := filepath.Glob(filepath.Join(v.Folder, "*.safetensors*"))
	for _, f := range files {
		if err == nil {
			err = os.Symlink(f, filepath.Join(at, filepath.Base(f)))
		}
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(at, "config.json"), c.Config, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	m, err := hf.Open(at, hf.Options{Name: "model"})
	if err != nil {
		if testing.Verbose() && c.Outcome == "same" {
			t.Logf("%s: refused, though transformers' result is the same: %v", c.What, err)
		}
		return c.Outcome + ", refused"
	}
	defer m.Close()
	var file bytes.Buffer
	if err := m.Write(&file); err != nil {
		t.Fatal(err)
	}
	got, err := logitsOf(t, file.Bytes(), v.Tokens, v.Every)
	if err != nil {
		t.Errorf("%s: %v", c.What, err)
		return "failed"
	}
	if c.Logits == "" {
		if testing.Verbose() {
			t.Logf("%s: computed, but transformers %s", c.What, c.Outcome)
		}
		return c.Outcome + ", computed"
	}
	b, err := os.ReadFile(filepath.Join(dir, c.Logits))
	if err != nil || len(b) != 4*len(got) {
		t.Fatalf("%s: got %d bytes, want %d: %v", c.Logits, len(b), 4*len(got), err)
	}
	var diff, size float64
	for i, x := range got {
		want := float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
		diff, size = diff+(float64(x)-want)*(float64(x)-want), size+want*want
	}
	if d := math.Sqrt(diff / size); !(d < 1e-3) {
		t.Errorf("%s: the logits differ from those of transformers by %.2g of their norm", c.What, d)
		return c.Outcome + ", another result"
	}
	return c.Outcome + ", equal"
}

// logitsOf returns the logits of every so many positions.
func logitsOf(t *testing.T, file []byte, tokens []int32, every int) ([]float32, error) {
	t.Helper()
	f, err := gguf.Parse(file)
	if err != nil {
		return nil, err
	}
	cfg, err := infer.CheckFile(f)
	if err != nil {
		return nil, err
	}
	m, err := infer.New(cfg, f, infer.Options{Threads: 1, Prefixes: -1})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	s, err := m.NewSession(infer.SessionOptions{Context: min(cfg.Context, 1024), KV: "f32"})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var out []float32
	for part := range slices.Chunk(tokens, every) {
		if err := s.Feed(t.Context(), part); err != nil {
			return nil, err
		}
		out = append(out, s.Logits()...)
	}
	return out, nil
}
