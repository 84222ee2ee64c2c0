// Package net builds networks other than language models (encoders, projectors,
// decoders) from a description. A [Config] lists inputs, layers and outputs.
// [New] infers every shape, reports all faults and allocates the weights.
//
// Every value is a matrix per sample, [Rows, Cols]: positions and channels.
// Positions are the pixels of an image row by row, frames, tokens, or a single
// one. The layers are those of train/nn, forward beside backward, without
// autograd. New expands composites, such as a transformer block, so that a list
// of [Step] is computed, checked and exported.
//
// [Net.NewPass] allocates a pass over B samples. The caller fills the inputs,
// and [Pass.Forward] computes each sample on any free thread. The caller then
// fills the gradients of the outputs, and [Pass.Backward] propagates them.
// Samples are independent of each other up to the weight gradients, which sum
// over all of them and are split over threads by columns. The result is
// bit-identical for any number of threads.
package net

import (
	"errors"
	"math"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train/nn"
)

// Port is one sample of an input or of a layer's output.
type Port struct {
	Name   string `json:"name"`
	Rows   int    `json:"rows"`             // positions
	Cols   int    `json:"cols"`             // channels
	Height int    `json:"height,omitempty"` // of an image whose pixels are the rows; 0: unknown
}

// Config describes a network.
type Config struct {
	Inputs  []Port   `json:"inputs"`
	Layers  []Layer  `json:"layers"`
	Outputs []string `json:"outputs"` // layers
}

// Net is a network and its weights.
type Net[F tensor.Float] struct {
	config  Config
	steps   []Step
	outputs []string // the step of each output
	params  *nn.Params[F]
	starts  []start
	packed  map[string]packer // weights to pack before a pass, by tensor
}

// packer is a weight of a product.
type packer interface{ Pack(everything bool) }

// New creates a network with zero weights. The error joins all faults of the
// description.
func New[F tensor.Float](cfg Config) (*Net[F], error) {
	b := describe(cfg)
	if err := errors.Join(b.errs...); err != nil {
		return nil, err
	}
	n := &Net[F]{config: cfg, steps: b.steps, outputs: b.outputs, starts: b.starts, packed: map[string]packer{}}
	n.params = nn.NewParams[F](b.specs)
	for i := range n.steps {
		n.bind(&n.steps[i])
	}
	n.Pack(true)
	return n, nil
}

// bind creates the operands of the step's products.
func (n *Net[F]) bind(s *Step) {
	switch s.Kind {
	case "conv1d", "conv2d":
		if !s.Depthwise() {
			n.packed[s.Name] = &nn.Conv[F]{Geometry: s.Geometry(), Out: s.Gives.Cols, Groups: s.Groups, Weight: n.tensor(s.Name + ".weight"), Bias: n.tensor(s.Name + ".bias")}
		}
	case "conv1d_transpose", "conv2d_transpose":
		n.packed[s.Name] = &nn.Transposed[F]{Geometry: s.Geometry(), In: s.Takes[0].Cols, Weight: n.tensor(s.Name + ".weight"), Bias: n.tensor(s.Name + ".bias")}
	default:
		for _, name := range s.products() {
			n.packed[name] = n.params.Linear(name + ".weight")
		}
	}
}

func (n *Net[F]) tensor(name string) *nn.Tensor[F] { return n.params.Tensor(name) }

func (n *Net[F]) linear(name string) *nn.Linear[F] { return n.packed[name].(*nn.Linear[F]) }

// Config returns the description of the network.
func (n *Net[F]) Config() Config { return n.config }

// Steps lists the computed layers, each after its inputs.
func (n *Net[F]) Steps() []Step { return n.steps }

// Output returns the step of an output.
func (n *Net[F]) Output(name string) (step string, ok bool) {
	for i, o := range n.config.Outputs {
		if o == name {
			return n.outputs[i], true
		}
	}
	return "", false
}

// Params returns the weights.
func (n *Net[F]) Params() *nn.Params[F] { return n.params }

// Init draws every weight: the same bits for the same seed and description.
// Matrices follow the normal distribution with Glorot's deviation,
// √(2/(in+out)), kernels of convolutions with He's, √(2/in). The last matrix
// before a residual sum starts at zero, so that every block starts as the
// identity.
func (n *Net[F]) Init(seed uint64) {
	r := nn.NewRandom(seed)
	for i, t := range n.params.Tensors() {
		if i >= len(n.starts) {
			return // adapters draw their own weights
		}
		s := n.starts[i]
		if s.std >= 0 {
			nn.FillNormal(t.Data, r, s.std)
			continue
		}
		for j := range t.Data {
			t.Data[j] = F(s.value)
		}
	}
	n.Pack(true)
}

// Pack packs the weights for the products of the next pass: those that train,
// or all if everything is set. The caller must call it after weights change.
func (n *Net[F]) Pack(everything bool) {
	for i := range n.steps {
		s := &n.steps[i]
		if p := n.packed[s.Name]; p != nil {
			p.Pack(everything)
		}
		for _, name := range s.products() {
			if name != s.Name {
				n.packed[name].Pack(everything)
			}
		}
	}
}

// FLOPs returns the floating-point operations of training on one sample: six
// per multiplication with a weight or between positions, two forward and four
// backward.
func (n *Net[F]) FLOPs() int {
	sum := 0
	for i := range n.steps {
		sum += 6 * n.steps[i].multiplications()
	}
	return sum
}

// start describes how a tensor is drawn: normal numbers with a deviation or, if
// std is negative, one value.
type start struct{ std, value float64 }

func glorot(in, out int) start { return start{std: math.Sqrt(2 / float64(in+out))} }

func constant(v float64) start { return start{-1, v} }
