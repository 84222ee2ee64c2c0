package nn

import (
	"slices"
	"sync"

	"mm-abi.org/mm/core/tensor"
)

// Tensor is a named weight and its gradient.
type Tensor[F tensor.Float] struct {
	Name  string
	Shape []int // outermost first: [outputs, inputs] for a matrix
	Layer int   // its block, -1 outside the blocks
	Data  []F
	Grad  []F // nil when frozen
	// Stored holds the rows of a frozen matrix without Data, see [Spec].
	Stored Rows

	vector     bool
	at         int // offset of a vector in a sequence's gradients
	offset     int // in Params.data, for stacked matrices
	gradOffset int // in Params.grads, when Grad is set
}

// Matrix reports whether t is multiplied as a matrix. Weight decay and Muon
// apply to these. Other tensors are applied element by element, their gradients
// are summed over sequences separately, and they do not decay.
func (t *Tensor[F]) Matrix() bool { return !t.vector }

// Size returns the number of elements.
func (t *Tensor[F]) Size() int { return Spec{Shape: t.Shape}.Size() }

// In returns t's part of a sequence's vector gradients.
func (t *Tensor[F]) In(spread []F) []F { return spread[t.at : t.at+len(t.Data)] }

// Spec describes a tensor to allocate.
type Spec struct {
	Name   string
	Layer  int  // its block, -1 outside the blocks
	Vector bool // applied element by element, whatever its shape
	Shape  []int
	Stored Rows // of a matrix that never trains; it has no Data
}

// Size returns the number of elements.
func (s Spec) Size() int {
	n := 1
	for _, d := range s.Shape {
		n *= d
	}
	return n
}

// Params holds the weights of a network.
type Params[F tensor.Float] struct {
	// BF16 makes the products of linear layers read bfloat16, in forward,
	// backward and weight gradients, see [tensor.NewPanelsBF16]. Weights,
	// activations and gradients keep their type. It applies from the next
	// [Linear.Pack] and to passes created after it is set.
	BF16 bool

	tensors  []*Tensor[F]
	adapters []*Tensor[F] // LoRA matrices, if any
	byName   map[string]*Tensor[F]
	spreads  int // elements of all vectors
	data     []F // the weights in order
	grads    []F // the gradients of what trains, in the same order

	scratch map[int]*sync.Pool // of stored matrices, by columns
}

// NewParams allocates the tensors in the given order, zero and not frozen.
// Adjacent matrices with the same input are adjacent in memory, so that one
// product serves them, see [Params.Linear].
func NewParams[F tensor.Float](specs []Spec) *Params[F] {
	n := 0
	for _, s := range specs {
		if s.Stored == nil {
			n += s.Size()
		}
	}
	p := &Params[F]{data: make([]F, n), byName: map[string]*Tensor[F]{}}
	end := 0
	for _, s := range specs {
		t := &Tensor[F]{Name: s.Name, Shape: s.Shape, Layer: s.Layer, Stored: s.Stored, vector: s.Vector, offset: end}
		if s.Stored == nil {
			end += s.Size()
			t.Data = p.data[t.offset:end:end]
		}
		if t.vector {
			t.at = p.spreads
			p.spreads += len(t.Data)
		}
		p.tensors = append(p.tensors, t)
		p.byName[t.Name] = t
	}
	p.Freeze(func(string) bool { return false })
	return p
}

// Tensors lists the weights in the order of memory, then the LoRA matrices.
func (p *Params[F]) Tensors() []*Tensor[F] { return slices.Concat(p.tensors, p.adapters) }

// Tensor returns a weight by name, or nil.
func (p *Params[F]) Tensor(name string) *Tensor[F] { return p.byName[name] }

// Freeze sets which tensors train. A frozen tensor has no gradient and costs no
// gradient product. Stored tensors are always frozen. Passes created before
// Freeze are invalid after it.
func (p *Params[F]) Freeze(frozen func(name string) bool) {
	n := 0
	all := p.Tensors()
	trains := func(t *Tensor[F]) bool { return t.Stored == nil && !frozen(t.Name) }
	for _, t := range all {
		t.Grad = nil
		if trains(t) {
			n += len(t.Data)
		}
	}
	// One block of memory, in the order of the weights: gradients of stacked
	// matrices are adjacent like the matrices.
	p.grads = make([]F, n)
	end := 0
	for _, t := range all {
		if trains(t) {
			t.gradOffset = end
			end += len(t.Data)
			t.Grad = p.grads[t.gradOffset:end:end]
		}
	}
}

// panels allocates a K×N factor of a linear layer's product.
func (p *Params[F]) panels(k, n int) *tensor.Panels[F] {
	if p.BF16 {
		return tensor.NewPanelsBF16[F](k, n)
	}
	return tensor.NewPanels[F](k, n)
}

// GradientScratch allocates the scratch of one thread for [Gradients.Compute].
func (p *Params[F]) GradientScratch() *tensor.Panels[F] { return p.panels(1, 1) }

// Spread allocates the gradients of all vectors for one sequence, to which
// backward passes add, see [Tensor.In].
func (p *Params[F]) Spread() []F { return make([]F, p.spreads) }

// ClearVectors zeroes the gradients of all vectors, for Reduce to add to.
func (p *Params[F]) ClearVectors() {
	for _, t := range p.tensors {
		if t.vector {
			clear(t.Grad)
		}
	}
}

// Reduce adds the sequences' gradients of the vectors, in the order of the
// sequences.
func (p *Params[F]) Reduce(spreads [][]F) {
	for _, t := range p.tensors {
		if !t.vector || t.Grad == nil {
			continue
		}
		for _, s := range spreads {
			tensor.AddScaled(t.Grad, 1, t.In(s))
		}
	}
}
