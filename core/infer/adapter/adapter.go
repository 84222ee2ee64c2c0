// Package adapter reads low-rank changes of a model's matrices: LoRA (Hu et
// al., arXiv 2106.09685), W + s·B·A with A of r rows and B of r columns, and
// DoRA (Liu et al., arXiv 2402.09353), which then scales each row to a
// magnitude.
//
// [Open] reads a GGUF adapter in llama.cpp's format, or a folder of Hugging
// Face PEFT (adapter_config.json, adapter_model.safetensors), and converts
// names and the order of query and key rows to GGUF. A [Change] is applied next
// to its matrix (core/infer) or merged into it by [Change.Merge].
package adapter

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
)

// Change is the change of a matrix of N rows and K columns.
type Change struct {
	Rank int // r
	In   int // K
	Out  int // N
	// A is r × K, B is N × r, row by row.
	A, B []float32
	// Scale multiplies B·A: alpha over rank.
	Scale float32
	// Magnitude is the length of each row of the changed matrix (DoRA); nil for
	// LoRA.
	Magnitude []float32
}

// Adapter maps the GGUF names of matrices, such as "blk.0.attn_q.weight", to
// changes.
type Adapter map[string]Change

// Limits of an adapter.
const (
	maxRank   = 1 << 12
	maxDim    = 1 << 24
	maxConfig = 1 << 20 // bytes of adapter_config.json

	maxPattern = 1 << 10 // bytes of a key of alpha_pattern
)

// Model describes the model that adapters are read for.
type Model struct {
	Arch                    string // GGUF's name of the architecture; "" for any
	Heads, KVHeads, HeadDim int
	// Interleaved is set if the model rotates pairs of neighboring dimensions
	// (architecture llama), for which GGUF reorders the rows of queries and
	// keys.
	Interleaved bool
	// Same compares a copy of the model's matrix in the adapter's file, row by
	// row, with the model. PEFT copies the head if it is adapted. If nil, such a
	// file is refused.
	Same func(name string, rows, cols int, data []float32) error
}

// Open reads the adapter at path: a GGUF file or a PEFT folder.
func Open(path string, m Model) (Adapter, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading an adapter: %w", err)
	}
	var a Adapter
	if info.IsDir() {
		a, err = openPEFT(path, m)
	} else {
		a, err = openGGUF(path, m)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the adapter %s: %w", path, err)
	}
	return a, nil
}

// check validates a change's sizes against each other.
func (c Change) check() error {
	switch {
	case c.Rank < 1 || c.Rank > maxRank || c.In < 1 || c.In > maxDim || c.Out < 1 || c.Out > maxDim:
		return fmt.Errorf("bad factors A of %d × %d and B of %d × %d", c.Rank, c.In, c.Out, c.Rank)
	case len(c.A) != c.Rank*c.In || len(c.B) != c.Out*c.Rank:
		return fmt.Errorf("size mismatch of factors A and B: got %d and %d elements, want %d × %d and %d × %d", len(c.A), len(c.B), c.Rank, c.In, c.Out, c.Rank)
	case c.Magnitude != nil && len(c.Magnitude) != c.Out:
		return fmt.Errorf("magnitude count mismatch: got %d, want %d", len(c.Magnitude), c.Out)
	case math.IsNaN(float64(c.Scale)) || math.IsInf(float64(c.Scale), 0):
		return fmt.Errorf("bad scale %v", c.Scale)
	}
	return nil
}

// Row adds the change to row n of the matrix, as LoRA does.
func (c Change) Row(row []float32, n int) {
	for r := range c.Rank {
		tensor.Axpy(row, c.Scale*c.B[n*c.Rank+r], c.A[r*c.In:(r+1)*c.In])
	}
}

// RowScale returns DoRA's factor of row n, given the row changed by Row; 1 for
// LoRA.
func (c Change) RowScale(row []float32, n int) float32 {
	if c.Magnitude == nil {
		return 1
	}
	var sum float64
	for _, v := range row {
		sum += float64(v) * float64(v)
	}
	if sum == 0 {
		return 0
	}
	return float32(float64(c.Magnitude[n]) / math.Sqrt(sum))
}

// Merge changes a matrix of N × K in place.
func (c Change) Merge(w []float32) {
	for n := range c.Out {
		row := w[n*c.In : (n+1)*c.In]
		c.Row(row, n)
		if c.Magnitude != nil {
			tensor.Scale(row, c.RowScale(row, n))
		}
	}
}

// Scaled returns the change at the given strength. DoRA does not support one:
// it is an error unless strength is 1.
func (c Change) Scaled(strength float32) (Change, error) {
	if c.Magnitude != nil && strength != 1 {
		return c, errors.New("DoRA adapters support only strength 1")
	}
	c.Scale *= strength
	return c, c.check()
}

// Suffixes of the tensors of a GGUF adapter; the first two are llama.cpp's.
const (
	suffixA         = ".lora_a"
	suffixB         = ".lora_b"
	suffixMagnitude = ".lora_magnitude"
)

// openGGUF reads a GGUF adapter: general.type "adapter", adapter.type "lora",
// adapter.lora.alpha, and for each matrix NAME the tensors NAME.lora_a (K, r)
// and NAME.lora_b (r, N), dimensions in GGUF's order. NAME.lora_magnitude (N)
// makes it DoRA.
func openGGUF(path string, m Model) (Adapter, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	a, err := FromGGUF(f, m)
	return a, errors.Join(err, f.Close())
}

// FromGGUF reads the adapter in an open file, without retaining the file. It
// refuses an architecture other than m's, whose rows may be ordered
// differently.
func FromGGUF(f *gguf.File, m Model) (Adapter, error) {
	for _, want := range []gguf.KV{{Key: "general.type", Value: "adapter"}, {Key: "adapter.type", Value: "lora"}} {
		if got, err := gguf.Get[string](f, want.Key); err != nil {
			return nil, err
		} else if got != want.Value {
			return nil, fmt.Errorf("bad %s: got %q, want %q", want.Key, got, want.Value)
		}
	}
	arch, err := gguf.GetOr(f, gguf.KeyArchitecture, m.Arch)
	if err != nil {
		return nil, err
	}
	if m.Arch != "" && arch != m.Arch {
		return nil, fmt.Errorf("architecture mismatch: adapter has %q, model %q", arch, m.Arch)
	}
	if f.Has("adapter.alora.invocation_tokens") {
		return nil, errors.New("activated LoRA is not supported")
	}
	alpha, err := gguf.Get[float32](f, "adapter.lora.alpha")
	if err != nil {
		return nil, err
	}
	p := parts{}
	for _, t := range f.Tensors {
		if !quant.CanDequantize(t.Type) {
			return nil, fmt.Errorf("tensor %s: unsupported type %v", t.Name, t.Type)
		}
		v := make([]float32, t.Elements())
		quant.Dequantize(v, t.Data, t.Type)
		shape := make([]int, len(t.Dims)) // outermost first
		for i, d := range t.Dims {
			shape[len(shape)-1-i] = d
		}
		for len(shape) > 2 && shape[0] == 1 {
			shape = shape[1:]
		}
		if err := p.add(t.Name, shape, v); err != nil {
			return nil, err
		}
	}
	return p.join(func(_ string, rank int) (float32, error) {
		if alpha == 0 { // as llama.cpp: without alpha there is no division by the rank
			return 1, nil
		}
		return alpha / float32(rank), nil
	})
}

// The files of a PEFT folder.
const (
	ConfigFile  = "adapter_config.json"
	WeightsFile = "adapter_model.safetensors"
)

// configPath and weightsPath return the files of a PEFT folder.
func configPath(dir string) string  { return filepath.Join(dir, ConfigFile) }
func weightsPath(dir string) string { return filepath.Join(dir, WeightsFile) }
