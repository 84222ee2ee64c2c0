package engine

import (
	"context"
	"fmt"

	"mm-abi.org/mm/onnx/engine/kernel"
)

// run executes the steps. It takes ownership of the inputs; the returned arrays
// belong to the caller.
func (b *body) run(ctx context.Context, p *Program, inputs, outer []*kernel.Array) ([]*kernel.Array, error) {
	if len(inputs) != len(b.inputSlots) {
		return nil, fmt.Errorf("got %d inputs of a graph, want %d", len(inputs), len(b.inputSlots))
	}
	if b.values == nil {
		b.values = make([]*kernel.Array, b.slots)
	}
	values := b.values // runs are serialized, and graphs are not recursive
	copy(values, b.constant)
	for i, slot := range b.inputSlots {
		values[slot] = inputs[i]
	}
	for _, c := range b.captures {
		values[c.inner] = outer[c.outer].View(outer[c.outer].Shape)
	}
	for _, st := range b.steps {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out, err := p.apply(ctx, st, values)
		if err != nil {
			return nil, fmt.Errorf("node %q (%s): %w", st.node.Name, st.node.Op, err)
		}
		for i, slot := range st.out {
			if slot >= 0 {
				values[slot] = out[i]
			} else {
				p.arena.Release(out[i])
			}
		}
		for _, slot := range st.last {
			p.arena.Release(values[slot])
			values[slot] = nil
		}
	}
	results := make([]*kernel.Array, len(b.outputs))
	for i, slot := range b.outputs {
		results[i] = values[slot].View(values[slot].Shape)
	}
	for slot, a := range values {
		if b.constant[slot] == nil {
			p.arena.Release(a)
		}
	}
	return results, nil
}

// apply runs a step on values by slot. A kernel that panics missed an invalid
// model: that ends the run, not the program.
func (p *Program) apply(ctx context.Context, st *step, values []*kernel.Array) (out []*kernel.Array, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = nil, fmt.Errorf("%w: %s: %v", ErrInternal, st.node.Op, r)
		}
	}()
	c := st.prepared(ctx, p)
	for i, slot := range st.in {
		if slot >= 0 {
			if c.In[i] = values[slot]; c.In[i] == nil {
				return nil, fmt.Errorf("input %d has no value", i)
			}
		}
	}
	clear(c.Out)
	if len(st.subs) > 0 {
		c.Sub = func(name string, in []*kernel.Array) ([]*kernel.Array, error) {
			sub := st.subs[name]
			if sub == nil {
				return nil, fmt.Errorf("missing %s", name)
			}
			mine := make([]*kernel.Array, len(in))
			for i, a := range in {
				mine[i] = a.View(a.Shape)
			}
			return sub.run(ctx, p, mine, values)
		}
	}
	if err := st.kernel(c); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil { // parts may have been skipped
		return nil, err
	}
	for i, slot := range st.out {
		if slot >= 0 && c.Out[i] == nil {
			return nil, fmt.Errorf("missing output %d", i)
		}
	}
	return c.Out, nil
}

// prepared returns the step's call, which is the same in each run except for
// the context and the arrays.
func (st *step) prepared(ctx context.Context, p *Program) *kernel.Call {
	if st.call == nil {
		st.call = &kernel.Call{
			Arena: &p.arena, Pool: p.pool, Node: st.node, Opset: p.opset, Lanes: p.lanes, Steps: p.opt.Steps,
			In: make([]*kernel.Array, len(st.in)), Fixed: st.fixed, Out: make([]*kernel.Array, len(st.out)),
			Cache: &st.cache, Rows: p.rows, After: st.after, Then: st.then, Transposed: st.transposed,
		}
	}
	st.call.Context = ctx
	return st.call
}
