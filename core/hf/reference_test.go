package hf_test

import (
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
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/core/tokenizer"
)

// reference is the output of testdata/models.py for a model.
type reference struct {
	Vocabulary int
	Cases      []struct {
		Context        int
		Tokens, Greedy []int32
		Logits         string
	}
	Texts []struct {
		Text string
		IDs  []int32
	}
}

// row is a row of the table in docs/MODELS.md.
type row struct {
	name, arch string
	tokens     []string
	cosine     float64
	greedy     bool
}

// TestTransformers compares every model in MM_HF_DIR with transformers: the
// logits at every position, the greedy continuation, and the ids of a text.
func TestTransformers(t *testing.T) {
	dir := os.Getenv("MM_HF_DIR")
	if dir == "" {
		t.Skip("skipped: MM_HF_DIR names no folder of models (make hf makes one)")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s holds no models: %v", dir, err)
	}
	slices.Sort(files)
	var table []row
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			var ref reference
			b, err := os.ReadFile(file)
			if err == nil {
				err = json.Unmarshal(b, &ref)
			}
			if err != nil {
				t.Fatal(err)
			}
			r := row{name: name, cosine: 1, greedy: true}
			path := filepath.Join(t.TempDir(), "model.gguf")
			m, err := hf.Convert(t.Context(), filepath.Join(dir, name), path, hf.Options{Name: "model"}) // a name with phi-3 would select its tokenizer
			if err != nil {
				t.Fatal(err)
			}
			r.arch = m.Shape.Arch
			compare(t, &r, ref, dir, path)
			table = append(table, r)
			if r.cosine < 0.9999 || !r.greedy {
				t.Errorf("cosine %.7f, greedy text equal: %v", r.cosine, r.greedy)
			}
		})
	}
	fmt.Println("| model | architecture | tokens | 1 - least cosine | greedy text equal |\n|---|---|---|---|---|")
	for _, r := range table {
		fmt.Printf("| %s | %s | %s | %.0e | %v |\n", r.name, r.arch, strings.Join(r.tokens, ", "), 1-r.cosine, r.greedy)
	}
}

// compare fills the row.
func compare(t *testing.T, r *row, ref reference, dir, path string) {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := tokenizer.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	model, err := infer.Load(path, infer.Options{Threads: 2})
	if strings.HasSuffix(r.name, "mxfp4") { // products with 4 bits round their inputs
		var cfg infer.Config
		if cfg, err = infer.ReadConfig(f); err == nil {
			model, err = infer.New(cfg, wide{f}, infer.Options{Threads: 2})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	for _, c := range ref.Texts {
		if got := tok.Encode(c.Text, tokenizer.Options{Add: true, Special: true}); !slices.Equal(got, c.IDs) {
			t.Errorf("%q is %v, with transformers %v", c.Text, got, c.IDs)
		}
	}
	for _, c := range ref.Cases {
		s, err := model.NewSession(infer.SessionOptions{Context: c.Context, KV: "f32"})
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(dir, c.Logits))
		if err != nil {
			t.Fatal(err)
		}
		if len(want) != 4*len(c.Tokens)*ref.Vocabulary {
			t.Fatalf("%s has %d bytes", c.Logits, len(want))
		}
		// One by one at the start, then batched with logits for each.
		least, at := 1.0, 0
		for i := range c.Tokens {
			if err := s.Feed(t.Context(), c.Tokens[i:i+1]); err != nil {
				t.Fatal(err)
			}
			cos := cosine(s.Logits(), want[4*i*ref.Vocabulary:])
			if !(cos >= least) {
				least, at = cos, i
			}
		}
		if least < 0.9999 {
			t.Errorf("%d tokens: cosine %.7f at position %d", len(c.Tokens), least, at)
		}
		// A single batch computes the same bits.
		alone := slices.Clone(s.Logits())
		s.Truncate(0)
		if err := s.Feed(t.Context(), c.Tokens); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(alone, s.Logits()) {
			t.Errorf("%d tokens: the logits differ when they are fed together", len(c.Tokens))
		}
		var greedy []int32
		if _, err := s.Generate(t.Context(), infer.GenerateOptions{MaxTokens: len(c.Greedy)}, func(k infer.Token) error {
			greedy = append(greedy, k.ID)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		r.greedy = r.greedy && slices.Equal(greedy, c.Greedy)
		r.cosine = min(r.cosine, least)
		r.tokens = append(r.tokens, about(len(c.Tokens), c.Context, model))
	}
}

// wide is a file whose tensors are read as float32.
type wide struct{ *gguf.File }

// Tensor implements infer.Tensors.
func (w wide) Tensor(name string) (gguf.Tensor, bool) {
	t, ok := w.File.Tensor(name)
	if !ok || t.Type == tensor.F32 {
		return t, ok
	}
	n := 1
	for _, d := range t.Dims {
		n *= d
	}
	x := make([]float32, n)
	quant.Dequantize(x, t.Data, t.Type)
	t.Type, t.Data = tensor.F32, make([]byte, 4*n)
	quant.Quantize(t.Data, x, tensor.F32)
	return t, true
}

// about describes a text's length relative to the model's window and context.
func about(n, context int, m *infer.Model) string {
	c := m.Config()
	switch {
	case c.Window > 0:
		return fmt.Sprintf("%d (%d)", n, c.Window)
	case c.Rope.OriginalContext != c.Context && c.Rope.OriginalContext != 0:
		return fmt.Sprintf("%d (%d)", n, c.Rope.OriginalContext)
	}
	return fmt.Sprint(n)
}

// cosine returns the cosine of logits and the little endian float32 in want,
// about their means.
func cosine(x []float32, want []byte) float64 {
	y := make([]float64, len(x))
	var mx, my float64
	for i, v := range x {
		y[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(want[4*i:])))
		mx, my = mx+float64(v)/float64(len(x)), my+y[i]/float64(len(x))
	}
	var xy, xx, yy float64
	for i, v := range x {
		a, b := float64(v)-mx, y[i]-my
		xy, xx, yy = xy+a*b, xx+a*a, yy+b*b
	}
	if cos := xy / math.Sqrt(xx*yy); cos == cos {
		return cos
	}
	return -1 // NaN
}
