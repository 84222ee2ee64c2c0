package llm

import (
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train/nn"
)

// LoRA describes low-rank adaptation (Hu et al., arXiv 2106.09685): beside a
// matrix W [out, in] stand A [rank, in] and B [out, rank], and W acts as
// W + Alpha/Rank·B·A. B starts at zero, so that adaptation starts at the model.
type LoRA struct {
	Rank  int     `json:"rank"`
	Alpha float64 `json:"alpha,omitempty"` // 0 means Rank: a factor of one
	// Targets are the matrices adapted, by the part of their name between block
	// and ".weight", such as "attn_q"; empty means every matrix in the blocks.
	Targets []string `json:"targets,omitempty"`
}

// Adapt adds LoRA matrices beside the targeted tensors, named as the tensor
// with ".lora_a" and ".lora_b" appended, A drawn from seed with deviation
// 1/√in and B zero, and freezes every other tensor.
func (m *Model[F]) Adapt(opt LoRA, seed uint64) error {
	if opt.Rank < 1 || opt.Rank > m.Config.Dim {
		return fmt.Errorf("lora: rank %d must lie in 1..%d", opt.Rank, m.Config.Dim)
	}
	if len(m.Adapters()) > 0 {
		return fmt.Errorf("lora: the model has adapters already")
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
			return fmt.Errorf("lora: the model has no matrix %q", t)
		}
	}
	own := map[string]bool{}
	for _, t := range m.Adapters() {
		own[t.Name] = true
	}
	m.Freeze(func(name string) bool { return !own[name] })
	m.Stale()
	return nil
}

// Merge adds every adapter to its tensor, W += Alpha/Rank·B·A, and removes it.
// All tensors are left unfrozen.
func (m *Model[F]) Merge() {
	for _, l := range m.linears() {
		l.Merge()
	}
	m.Freeze(func(string) bool { return false })
	m.Stale()
}

// blockKind is the middle of a block tensor's name, "attn_q" of
// "blk.0.attn_q.weight"; empty outside the blocks.
func blockKind[F tensor.Float](t *Tensor[F]) string {
	if t.Layer < 0 {
		return ""
	}
	return strings.Split(t.Name, ".")[2]
}
