package wasm

// components returns the groups of functions that call each other (strongly
// connected components, Tarjan 1972), each after the groups that it calls. A
// function outside of all cycles is a group of its own.
func components(calls [][]int) [][]int {
	w := walk{calls: calls, nodes: make([]node, len(calls))}
	for i := range calls {
		if w.nodes[i].index == 0 {
			w.visit(i)
		}
	}
	return w.groups
}

type walk struct {
	calls  [][]int
	nodes  []node
	next   int
	stack  []int
	groups [][]int
}

type node struct {
	index, low int // index 0: not visited
	open       bool
}

func (w *walk) visit(i int) {
	c := &w.nodes[i]
	w.next++
	c.index, c.low, c.open = w.next, w.next, true
	w.stack = append(w.stack, i)
	for _, j := range w.calls[i] {
		d := &w.nodes[j]
		if d.index == 0 {
			w.visit(j)
			c.low = min(c.low, d.low)
		} else if d.open {
			c.low = min(c.low, d.index)
		}
	}
	if c.low != c.index {
		return
	}
	at := len(w.stack) - 1
	for w.stack[at] != i {
		at--
	}
	group := w.stack[at:len(w.stack):len(w.stack)]
	w.stack = w.stack[:at:at]
	for _, j := range group {
		w.nodes[j].open = false
	}
	w.groups = append(w.groups, group)
}
