package engine

import (
	"context"
	"fmt"

	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/engine/op"
)

// settle packs the weights of kernels that read them in a different order, and
// releases constants without readers.
func (p *Program) settle(ctx context.Context, main *body) error {
	bodies := main.all(nil)
	readers := make(map[*kernel.Array]int)
	for _, b := range bodies {
		for _, st := range b.steps {
			for _, slot := range st.in {
				if slot >= 0 && b.constant[slot] != nil {
					readers[b.constant[slot]]++
				}
			}
		}
		for _, slot := range b.outputs {
			if a := b.constant[slot]; a != nil {
				readers[a]++
			}
		}
	}
	hollow := make(map[*kernel.Array]*kernel.Array)
	for _, b := range bodies {
		for _, st := range b.steps {
			if err := ctx.Err(); err != nil {
				return err
			}
			unread, err := p.prepare(ctx, st, b)
			if err != nil {
				return fmt.Errorf("node %q (%s): %w", st.node.Name, st.node.Op, err)
			}
			for _, i := range unread {
				a := b.constant[st.in[i]]
				if readers[a]--; readers[a] == 0 {
					hollow[a] = a.Hollow()
					p.arena.Discard(a)
				}
			}
		}
	}
	for _, b := range bodies {
		for slot, a := range b.constant {
			if a != nil && readers[a] == 0 {
				b.constant[slot] = hollow[a]
				p.arena.Discard(a)
			}
		}
	}
	p.arena.Trim()
	return nil
}

// all appends a body and its nested bodies to list.
func (b *body) all(list []*body) []*body {
	list = append(list, b)
	for _, st := range b.steps {
		for _, a := range st.node.Attributes {
			if sub := st.subs[a.Name]; sub != nil {
				list = sub.all(list)
			}
		}
	}
	return list
}

// prepare lets a step pack its weights, and returns the inputs that its kernel
// no longer reads.
func (p *Program) prepare(ctx context.Context, st *step, b *body) (unread []int, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", ErrInternal, r)
		}
	}()
	c := st.prepared(ctx, p)
	for i, slot := range st.in {
		if slot >= 0 {
			c.In[i] = b.constant[slot]
		}
	}
	return op.Prepare(c)
}
