package qnnlib

import (
	"context"
	"errors"

	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/qnn/ask"
)

// Graph is a graph of a loaded context. Its tensors are bytes in the graph's order and element
// types.
type Graph struct {
	f *function
}

// Load loads a context and opens one of its graphs, as [Engine.OpenOwn] does for mm.
func (e *Engine) Load(o ask.Open) (*Graph, error) {
	var f *function
	var err error
	if queued := e.thread.do(context.Background(), func() { f, err = e.load(o) }); queued != nil || err != nil {
		return nil, errors.Join(queued, err)
	}
	return &Graph{f}, nil
}

// Run computes once. hvx is the number of HVX threads in the profile of the run, or nil if the
// profile lacks it.
func (g *Graph) Run(ctx context.Context, in [][]byte) (out [][]byte, hvx *int, err error) {
	inputs := map[string]runtimes.Tensor{}
	for i := range g.f.graph.inputs {
		p := &g.f.graph.inputs[i]
		t, err := p.empty()
		if err != nil {
			return nil, nil, err
		}
		if i < len(in) {
			t.Data = in[i]
		}
		inputs[p.name] = t
	}
	var results map[string]runtimes.Tensor
	queued := g.f.e.thread.do(ctx, func() {
		if results, err = g.f.run(inputs); err == nil {
			hvx = threads(g.f.e.last.Events)
		}
	})
	if queued != nil || err != nil {
		return nil, nil, errors.Join(queued, err)
	}
	for i := range g.f.graph.outputs {
		out = append(out, results[g.f.graph.outputs[i].name].Data)
	}
	return out, hvx, nil
}

// threads returns the number of HVX threads in events.
func threads(events []ask.Event) *int {
	for _, e := range events {
		if e.Type == ask.HVXThreads {
			n := int(min(e.Value, 1<<20))
			return &n
		}
		if n := threads(e.Sub); n != nil {
			return n
		}
	}
	return nil
}

// Close frees the context.
func (g *Graph) Close() error { return g.f.Close() }

// Platform returns the libraries' description of themselves and their hardware.
func (e *Engine) Platform() (p ask.Platform, err error) {
	queued := e.thread.do(context.Background(), func() { p, err = e.platform() })
	return p, errors.Join(queued, err)
}
