// Package engine runs ONNX models in pure Go on any machine.
//
// [Compile] turns a checked model into a [Program]: it refuses unsupported
// operators by name (package onnx/engine/op), drops nodes that no result needs,
// folds constants, fuses operators into the convolutions and products that they
// follow and chains that are equivalent to one operator, packs weights, and
// finds for each value its last reader. [Program.Run] then executes the nodes
// in order. Shapes are known only at run time, so each kernel computes its own;
// the memory of a value is reused after its last reader, in this run and in the
// next.
//
// Models are untrusted. Package onnx has read the structure within limits; here
// every size is computed with checked arithmetic and counted against
// [Options].Memory before anything is allocated, so a hostile model ends in an
// error.
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
	"mm-abi.org/mm/onnx/engine/kernel"
)

// ErrClosed reports the use of a closed program.
var ErrClosed = errors.New("program is closed")

// ErrMemory reports that a model exceeds Options.Memory.
var ErrMemory = kernel.ErrMemory

// ErrInternal reports a failure of an operator that is not the model's fault.
var ErrInternal = errors.New("engine fault")

// Options bounds the resources of a program. The zero value is ready for use.
type Options struct {
	Threads int   // 0: the number of physical cores
	Memory  int64 // peak bytes of constants and values; 0: 4 GiB
	Nodes   int   // in the model with its subgraphs; 0: 100,000
	Steps   int   // iterations of one loop; 0: 1,048,576
}

// Tensor is an input or a result: elements in row-major order, little endian.
type Tensor struct {
	Type  onnx.DType
	Shape []int
	Data  []byte
}

// Program is a compiled model. It is safe for concurrent use: runs execute one
// after another, each on all threads.
type Program struct {
	main  *body
	opt   Options
	turn  chan struct{} // holds one token, the right to run
	pool  *pool.Pool
	arena kernel.Arena
	lanes []kernel.Lane
	rows  []tensor.Row
	opset int64
	close sync.Once
	done  bool
}

// defaultNodes is the default of Options.Nodes.
const defaultNodes = 100_000

// Compile compiles a model. The model may be closed afterwards.
func Compile(ctx context.Context, m *onnx.Model, opt Options) (*Program, error) {
	if opt.Memory <= 0 {
		opt.Memory = 4 << 30
	}
	if opt.Nodes <= 0 {
		opt.Nodes = defaultNodes
	}
	if opt.Steps <= 0 {
		opt.Steps = 1 << 20
	}
	for _, p := range m.Check(Checks()) {
		if !p.Warning {
			return nil, fmt.Errorf("engine: %v", p)
		}
	}
	p := &Program{opt: opt, turn: make(chan struct{}, 1), pool: pool.New(opt.Threads)}
	p.turn <- struct{}{}
	p.arena.Limit = opt.Memory
	p.lanes, p.rows = make([]kernel.Lane, p.pool.Threads()), make([]tensor.Row, p.pool.Threads())
	if err := p.plan(ctx, m); err != nil {
		p.pool.Close()
		return nil, fmt.Errorf("engine: %w", err)
	}
	return p, nil
}

// Checks returns the checks that a model must pass before it is compiled: the
// opsets of ai.onnx that the operators implement. Operators of other domains
// are refused by name.
func Checks() onnx.CheckOptions {
	return onnx.CheckOptions{MinOpset: 6, MaxOpset: 27, AnyDomain: true}
}

// Inputs returns the inputs of Run.
func (p *Program) Inputs() []onnx.Value { return p.main.inputs }

// Outputs returns the names of the results of Run.
func (p *Program) Outputs() []string { return slices.Clone(p.main.results) }

// Peak returns the peak number of bytes of constants and values.
func (p *Program) Peak() int64 { return p.arena.Peak() }

// Run computes the results. An input that is missing, unknown, or of a type or
// shape other than the declared one is an error that names it.
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
	inputs, err := p.arrays(in)
	if err != nil {
		return nil, err
	}
	results, err := p.main.run(ctx, p, inputs, nil)
	if err != nil {
		return nil, err
	}
	out := make(map[string]Tensor, len(results))
	for i, a := range results {
		out[p.main.results[i]] = Tensor{a.Type, slices.Clone(a.Shape), slices.Clone(a.Raw())}
		p.arena.Release(a)
	}
	return out, nil
}

// InputError reports an input that the model does not take.
type InputError struct{ Err error }

// Error implements error.
func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *InputError) Unwrap() error { return e.Err }

// arrays copies the inputs, in the order of the graph.
func (p *Program) arrays(in map[string]Tensor) ([]*kernel.Array, error) {
	for _, name := range p.unknown(in) {
		if !slices.ContainsFunc(p.main.inputs, func(v onnx.Value) bool { return v.Name == name }) {
			return nil, &InputError{fmt.Errorf("unknown input %q", name)}
		}
	}
	symbols := make(map[string]int)
	out := make([]*kernel.Array, len(p.main.inputs))
	for i, v := range p.main.inputs {
		t, ok := in[v.Name]
		if !ok {
			return nil, &InputError{fmt.Errorf("missing input %q", v.Name)}
		}
		err := fits(v.Type, t, symbols)
		if err != nil {
			return nil, &InputError{fmt.Errorf("input %q: %w", v.Name, err)}
		}
		if out[i], err = p.arena.FromBytes(t.Type, t.Shape, t.Data); err != nil {
			return nil, fmt.Errorf("input %q: %w", v.Name, err)
		}
	}
	return out, nil
}

// unknown returns the names of all inputs if at least one is not declared.
func (p *Program) unknown(in map[string]Tensor) []string {
	found := 0
	for _, v := range p.main.inputs {
		if _, ok := in[v.Name]; ok {
			found++
		}
	}
	if found == len(in) {
		return nil
	}
	return slices.Sorted(maps.Keys(in))
}

// fits compares a tensor with a declared type. A named dimension has the same
// size in all inputs.
func fits(want onnx.Type, t Tensor, symbols map[string]int) error {
	if want.Kind != onnx.TensorKind || t.Type != want.DType {
		return fmt.Errorf("got type %s, want %s", t.Type, want.DType)
	}
	if !want.Ranked {
		return nil
	}
	if len(t.Shape) != len(want.Dims) {
		return fmt.Errorf("got shape %v, want %v", t.Shape, want.Dims)
	}
	for i, d := range want.Dims {
		size := t.Shape[i]
		if d.Value >= 0 && d.Param == "" && int64(size) != d.Value {
			return fmt.Errorf("got shape %v, want %v", t.Shape, want.Dims)
		}
		if old, ok := symbols[d.Param]; ok && d.Param != "" && old != size {
			return fmt.Errorf("got shape %v, but %s is %d in another input", t.Shape, d.Param, old)
		}
		symbols[d.Param] = size
	}
	return nil
}

// Close stops the threads, after the end of a current run.
func (p *Program) Close() error {
	p.close.Do(func() {
		<-p.turn
		p.done = true
		p.pool.Close()
		p.turn <- struct{}{}
	})
	return nil
}
