package llm

import (
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/core/tensor"
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

// adapter is the pair of matrices beside one tensor of a linear layer.
type adapter[F tensor.Float] struct {
	a, b      *Tensor[F] // [rank, in], [out, rank]
	base      *Tensor[F]
	rank, out int
	from      int // first column of the tensor in the layer's output
	scale     F

	fwdA, bwdA, fwdB, bwdB *tensor.Panels[F]
}

func (a *adapter[F]) pack() {
	in := a.a.Shape[1]
	if a.fwdA == nil {
		a.fwdA, a.bwdA = tensor.NewPanels[F](in, a.rank), tensor.NewPanels[F](a.rank, in)
		a.fwdB, a.bwdB = tensor.NewPanels[F](a.rank, a.out), tensor.NewPanels[F](a.out, a.rank)
	}
	a.fwdA.PackTransposed(a.a.Data, in)
	a.bwdA.Pack(a.a.Data, in)
	a.fwdB.PackTransposed(a.b.Data, a.rank)
	a.bwdB.Pack(a.b.Data, a.rank)
}

// Adapt adds LoRA matrices beside the targeted tensors, named as the tensor
// with ".lora_a" and ".lora_b" appended, A drawn from seed with deviation
// 1/√in and B zero, and freezes every other tensor.
func (m *Model[F]) Adapt(opt LoRA, seed uint64) error {
	if opt.Rank < 1 || opt.Rank > m.Config.Dim {
		return fmt.Errorf("lora: rank %d must lie in 1..%d", opt.Rank, m.Config.Dim)
	}
	if len(m.adapters) > 0 {
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
	r := newRandom(seed)
	for _, l := range m.linears() {
		from := 0
		for _, t := range l.parts {
			if kind := blockKind(t); kind != "" && (len(opt.Targets) == 0 || slices.Contains(opt.Targets, kind)) {
				delete(unused, kind)
				l.lora = append(l.lora, m.adapter(t, from, opt.Rank, alpha, r))
			}
			from += t.Shape[0]
		}
	}
	for _, t := range opt.Targets {
		if unused[t] {
			return fmt.Errorf("lora: the model has no matrix %q", t)
		}
	}
	own := map[string]bool{}
	for _, t := range m.adapters {
		own[t.Name] = true
	}
	m.Freeze(func(name string) bool { return !own[name] })
	m.Stale()
	return nil
}

func (m *Model[F]) adapter(base *Tensor[F], from, rank int, alpha float64, r *random) *adapter[F] {
	out, in := base.Shape[0], base.Shape[1]
	a := &Tensor[F]{Name: base.Name + ".lora_a", Shape: []int{rank, in}, Layer: base.Layer, Data: make([]F, rank*in)}
	b := &Tensor[F]{Name: base.Name + ".lora_b", Shape: []int{out, rank}, Layer: base.Layer, Data: make([]F, out*rank)}
	fillNormal(a.Data, r, invSqrt(in))
	m.adapters = append(m.adapters, a, b)
	return &adapter[F]{a: a, b: b, base: base, rank: rank, out: out, from: from, scale: F(alpha / float64(rank))}
}

// Merge adds every adapter to its tensor, W += Alpha/Rank·B·A, and removes it.
// All tensors are left unfrozen.
func (m *Model[F]) Merge() {
	var mul tensor.Multiplier[F]
	for _, l := range m.linears() {
		for _, a := range l.lora {
			in := l.in
			mul.Do(tensor.Product[F]{M: a.out, N: in, K: a.rank, Alpha: a.scale, Beta: 1,
				A: tensor.Rows(a.b.Data, a.rank), B: a.a.Data, LDB: in, C: a.base.Data, LDC: in})
		}
		l.lora = nil
	}
	m.adapters = nil
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
