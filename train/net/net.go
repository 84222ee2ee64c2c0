// Package net is networks that are not language models, made of a description:
// encoders, projectors, decoders. A [Config] names what goes in, the layers and
// what comes out; [New] infers every shape, says everything that is wrong with
// it, and makes the weights.
//
// Every value is a matrix a sample, [Rows, Cols]: positions and channels.
// Positions are the pixels of a picture row by row, frames, tokens, or one. The
// layers are those of train/nn and train/nn/conv, forward beside backward, without
// an autograd library; a layer made of others, such as a transformer's block, is
// taken apart by New, so that what is computed, checked and exported is a list
// of [Step].
//
// The way of a pass: [Net.NewPass] makes room for B samples. The caller fills
// the inputs, [Pass.Forward] takes every sample on whichever thread is free
// through all layers; the caller fills the gradients of the outputs, and
// [Pass.Backward] takes them back. No sample meets another there. Then the
// weight gradients, which sum over all of them, are split over the threads by
// columns. The same bits come out for any number of threads.
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
	Height int    `json:"height,omitempty"` // of a picture, whose pixels the rows are; 0: none is known
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
	outputs []string // the steps that they are
	params  *nn.Params[F]
	starts  []start
	packed  map[string]packer // what products want before a pass, by tensor
}

// packer is a weight that products multiply.
type packer interface{ Pack(everything bool) }

// New makes a network, its weights zero until they are drawn or loaded. The
// error joins every fault of the description.
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

// bind makes what the step's products multiply.
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

// Config is the description that the network was made of.
func (n *Net[F]) Config() Config { return n.config }

// Steps lists the layers as they are computed, each after those it takes.
func (n *Net[F]) Steps() []Step { return n.steps }

// Output is the step that gives an output.
func (n *Net[F]) Output(name string) (step string, ok bool) {
	for i, o := range n.config.Outputs {
		if o == name {
			return n.outputs[i], true
		}
	}
	return "", false
}

// Params is the weights.
func (n *Net[F]) Params() *nn.Params[F] { return n.params }

// Init draws every weight anew: the same bits for the same seed and description.
// Matrices follow the normal distribution with Glorot's deviation,
// √(2/(in+out)), kernels of convolutions with He's, √(2/in). What a residual
// layer adds starts at zero, so that every block starts as the identity.
func (n *Net[F]) Init(seed uint64) {
	r := nn.NewRandom(seed)
	for i, t := range n.params.Tensors() {
		if i >= len(n.starts) {
			return // adapters draw their own
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

// Pack lays the weights out for the products of the next pass: what trains, or
// everything. It must be called after weights change.
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

// FLOPs is the number of floating-point operations that training spends on one
// sample: six a multiplication with a weight or between positions, two forward
// and four backward.
func (n *Net[F]) FLOPs() int {
	sum := 0
	for i := range n.steps {
		sum += 6 * n.steps[i].multiplications()
	}
	return sum
}

// start is how a tensor's weights are drawn: normal numbers of a deviation, or
// one value where std is negative.
type start struct{ std, value float64 }

func glorot(in, out int) start { return start{std: math.Sqrt(2 / float64(in+out))} }

func constant(v float64) start { return start{-1, v} }
