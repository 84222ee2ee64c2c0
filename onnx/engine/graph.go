// Package graph runs ONNX models in pure Go, on any machine.
//
// [Compile] turns a checked model into a [Program]: it refuses by name what
// package onnx/engine/op does not claim, drops nodes that no result needs,
// computes what follows from constants alone, joins to convolutions and products
// what follows them, makes one step of chains that stand for one operator, packs
// weights, and finds for each value the node that uses it last. [Program.Run]
// then goes through the nodes in their order. Shapes are known only then, so
// each kernel works its own out; a value's memory is used again once its last
// reader is done, in this run and in the next.
//
// A model comes from anybody. Its structure has been read within limits by
// package onnx, and here every size is computed with checked arithmetic
// and counted against [Options].Memory before anything is allocated: a hostile
// model ends in an error.
//
// Results do not depend on the number of threads.
package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/array"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// ErrClosed says that a program was used after its Close.
var ErrClosed = errors.New("the program is closed")

// ErrMemory says that a model does not fit into Options.Memory.
var ErrMemory = array.ErrMemory

// ErrInternal says that an operator failed in a way that is no model's fault.
var ErrInternal = errors.New("a fault of the engine")

// Options bound what a program may take. The zero value is ready.
type Options struct {
	Threads int   // 0: the physical cores at hand
	Memory  int64 // bytes of constants and values alive at a time; 0: 4 GiB
	Nodes   int   // of the model with its subgraphs; 0: 100,000
	Steps   int   // rounds of one loop; 0: 1,048,576
}

// Tensor is an input or a result: elements in row-major order, little endian.
type Tensor struct {
	Type  onnx.DType
	Shape []int
	Data  []byte
}

// Program is a model ready to run. It is safe for concurrent use: runs go one
// after the other, each on all threads.
type Program struct {
	main  *body
	opt   Options
	turn  chan struct{} // holds one token: the right to run
	pool  *pool.Pool
	arena array.Arena
	lanes []kernel.Lane
	rows  []tensor.Row
	opset int64
	close sync.Once
	done  bool
}

// Compile makes a program of a model. The model may be closed afterwards.
func Compile(ctx context.Context, m *onnx.Model, opt Options) (*Program, error) {
	if opt.Memory <= 0 {
		opt.Memory = 4 << 30
	}
	if opt.Nodes <= 0 {
		opt.Nodes = 100_000
	}
	if opt.Steps <= 0 {
		opt.Steps = 1 << 20
	}
	for _, p := range m.Check(Checks()) {
		if !p.Warning {
			return nil, fmt.Errorf("graph: %v", p)
		}
	}
	p := &Program{opt: opt, turn: make(chan struct{}, 1), pool: pool.New(opt.Threads)}
	p.turn <- struct{}{}
	p.arena.Limit = opt.Memory
	p.lanes, p.rows = make([]kernel.Lane, p.pool.Threads()), make([]tensor.Row, p.pool.Threads())
	if err := p.plan(ctx, m); err != nil {
		p.pool.Close()
		return nil, fmt.Errorf("graph: %w", err)
	}
	return p, nil
}

// Checks are what a model has to pass before it is compiled: the opsets of
// ai.onnx that operators are written for. Operators of other domains are
// refused by their own names.
func Checks() onnx.CheckOptions {
	return onnx.CheckOptions{MinOpset: 6, MaxOpset: 27, AnyDomain: true}
}

// Inputs are what Run wants.
func (p *Program) Inputs() []onnx.Value { return p.main.inputs }

// Outputs are the names of what Run gives.
func (p *Program) Outputs() []string { return slices.Clone(p.main.results) }

// Peak is the most bytes that constants and values have taken at a time.
func (p *Program) Peak() int64 { return p.arena.Peak() }

// Run computes the results. An input that is missing, unknown, or of another
// type or shape than the model says is an error that names it.
func (p *Program) Run(ctx context.Context, in map[string]Tensor) (map[string]Tensor, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.turn:
	}
	defer func() { p.turn <- struct{}{} }()
	if p.done {
		return nil, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	live := p.arena.Live()
	defer p.arena.Rewind(live)
	given, err := p.given(in)
	if err != nil {
		return nil, err
	}
	results, err := p.main.run(ctx, p, given, nil)
	if err != nil {
		return nil, err
	}
	out := make(map[string]Tensor, len(results))
	for i, a := range results {
		out[p.main.results[i]] = Tensor{a.Type, slices.Clone(a.Shape), slices.Clone(a.Bytes())}
		p.arena.Release(a)
	}
	return out, nil
}

// given copies the inputs, in the order of the graph.
func (p *Program) given(in map[string]Tensor) ([]*array.Array, error) {
	for _, name := range p.strange(in) {
		if !slices.ContainsFunc(p.main.inputs, func(v onnx.Value) bool { return v.Name == name }) {
			return nil, fmt.Errorf("input %q: the model has none of that name", name)
		}
	}
	symbols := make(map[string]int)
	out := make([]*array.Array, len(p.main.inputs))
	for i, v := range p.main.inputs {
		t, ok := in[v.Name]
		if !ok {
			return nil, fmt.Errorf("input %q is missing", v.Name)
		}
		err := fits(v.Type, t, symbols)
		if err == nil {
			out[i], err = p.arena.FromBytes(t.Type, t.Shape, t.Data)
		}
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", v.Name, err)
		}
	}
	return out, nil
}

// strange lists names to look at when there are more inputs than the model has.
func (p *Program) strange(in map[string]Tensor) []string {
	known := 0
	for _, v := range p.main.inputs {
		if _, ok := in[v.Name]; ok {
			known++
		}
	}
	if known == len(in) {
		return nil
	}
	return slices.Sorted(maps.Keys(in))
}

// fits holds a tensor to a declared type. A dimension with a name has one size
// wherever it is named.
func fits(want onnx.Type, t Tensor, symbols map[string]int) error {
	if want.Kind != onnx.TensorKind || t.Type != want.DType {
		return fmt.Errorf("it is of %s, the model wants %s", t.Type, want.DType)
	}
	if !want.Ranked {
		return nil
	}
	if len(t.Shape) != len(want.Dims) {
		return fmt.Errorf("it is %v, the model wants %v", t.Shape, want.Dims)
	}
	for i, d := range want.Dims {
		size := t.Shape[i]
		if d.Value >= 0 && d.Param == "" && int64(size) != d.Value {
			return fmt.Errorf("it is %v, the model wants %v", t.Shape, want.Dims)
		}
		if old, ok := symbols[d.Param]; ok && d.Param != "" && old != size {
			return fmt.Errorf("it is %v, but %s is %d already", t.Shape, d.Param, old)
		}
		symbols[d.Param] = size
	}
	return nil
}

// Close stops the threads. A run at work ends first.
func (p *Program) Close() error {
	p.close.Do(func() {
		<-p.turn
		p.done = true
		p.pool.Close()
		p.turn <- struct{}{}
	})
	return nil
}
