package llm

import (
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train/nn"
)

// LoRA configures low-rank adaptation (Hu et al., arXiv 2106.09685): with A
// [rank, in] and B [out, rank], a matrix W [out, in] acts as W +
// Alpha/Rank·B·A. B starts at zero, so that adaptation starts at the model.
type LoRA struct {
	Rank  int     `json:"rank"`
	Alpha float64 `json:"alpha,omitempty"` // 0 means Rank: a factor of 1
	// Targets are the matrices to adapt, by the part of their name between
	// block and ".weight", such as "attn_q"; empty means every matrix in the
	// blocks.
	Targets []string `json:"targets,omitempty"`
	// Quantized keeps the matrices of the base, a GGUF file, in the form of the
	// file and frozen (QLoRA: Dettmers et al., arXiv 2305.14314).
	Quantized bool `json:"quantized,omitempty"`
}

// Adapt adds LoRA matrices to the targeted tensors, named like the tensor with
// ".lora_a" and ".lora_b" appended, with A drawn from seed with deviation 1/√in
// and B zero, and freezes every other tensor.
func (m *Model[F]) Adapt(opt LoRA, seed uint64) error {
	if opt.Rank < 1 || opt.Rank > m.Config.Dim {
		return fmt.Errorf("lora: rank out of range: got %d, want 1 to %d", opt.Rank, m.Config.Dim)
	}
	if len(m.Adapters()) > 0 {
		return fmt.Errorf("lora: model already has adapters")
	}
	alpha := opt.Alpha
	if alpha == 0 {
		alpha = float64(opt.Rank)
	}
	unused := map[string]bool{}
	for _, t := range opt.Targets {
		unused[t] = true
	}
	r := nn.NewRandom(seed)
	for _, l := range m.linears() {
		l.Adapt(func(t *Tensor[F]) bool {
			kind := blockKind(t)
			delete(unused, kind)
			return kind != "" && (len(opt.Targets) == 0 || slices.Contains(opt.Targets, kind))
		}, opt.Rank, alpha/float64(opt.Rank), r)
	}
	for _, t := range opt.Targets {
		if unused[t] {
			return fmt.Errorf("lora: unknown matrix %q", t)
		}
	}
	adapters := map[string]bool{}
	for _, t := range m.Adapters() {
		adapters[t.Name] = true
	}
	m.Freeze(func(name string) bool { return !adapters[name] })
	m.Stale()
	return nil
}

// Merge adds every adapter to its tensor, W += Alpha/Rank·B·A, and removes it.
// It unfreezes all tensors.
func (m *Model[F]) Merge() {
	for _, l := range m.linears() {
		l.Merge()
	}
	m.Freeze(func(string) bool { return false })
	m.Stale()
}

// blockKind returns the middle of a block tensor's name, "attn_q" of
// "blk.0.attn_q.weight", or "" outside the blocks.
func blockKind[F tensor.Float](t *Tensor[F]) string {
	if t.Layer < 0 {
		return ""
	}
	return strings.Split(t.Name, ".")[2]
}
