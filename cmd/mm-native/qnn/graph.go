package qnn

import (
	"context"
	"errors"

	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/qnn/ask"
)

// Graph is a graph of a loaded context. Its tensors go in and come out as bytes,
// in the graph's order and element types.
type Graph struct {
	f *function
}

// Load loads a context and finds one of its graphs, as [Engine.OpenOwn] does for
// mm.
func (e *Engine) Load(o ask.Open) (*Graph, error) {
	m, err := e.load(o)
	if err != nil {
		return nil, err
	}
	f, ok := m.(*function)
	if !ok {
		return nil, errors.New("qnn: what was loaded is no graph")
	}
	return &Graph{f}, nil
}

// Run computes once. The number of HVX threads that the profile of the run tells
// is nil where it tells none.
func (g *Graph) Run(ctx context.Context, in [][]byte) (out [][]byte, hvx *int, err error) {
	given := map[string]runtimes.Tensor{}
	for i := range g.f.graph.inputs {
		p := &g.f.graph.inputs[i]
		t, err := p.empty()
		if err != nil {
			return nil, nil, err
		}
		if i < len(in) {
			t.Data = in[i]
		}
		given[p.name] = t
	}
	results, err := g.f.Run(ctx, given)
	if err != nil {
		return nil, nil, err
	}
	for i := range g.f.graph.outputs {
		out = append(out, results[g.f.graph.outputs[i].name].Data)
	}
	g.f.e.mu.Lock()
	defer g.f.e.mu.Unlock()
	return out, threads(g.f.e.last.Events), nil
}

// threads finds how many HVX threads events tell of.
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

// Close gives the context back.
func (g *Graph) Close() error { return g.f.Close() }

// Platform is what the libraries say of themselves and of where they run.
func (e *Engine) Platform() (ask.Platform, error) { return e.platform() }
