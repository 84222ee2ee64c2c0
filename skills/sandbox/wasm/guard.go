package wasm

import "slices"

// run is how many instructions may pass between two checks of the deadline;
// a check takes as long as a hundred of them. Smaller calls are not asked.
const (
	run   = 1 << 20
	small = 1 << 6
)

// check is an empty loop. The engine asks at the head of every loop, and there
// alone, whether the guest is to end: without one a tree of calls, and a row of
// copies of the whole memory, could not be stopped.
var check = []byte{opLoop, 0x40, opEnd}

// cost is what guard knows of a function.
type cost struct {
	own     int64   // instructions, a block that is copied counted by its bytes
	calls   []int   // functions of the module that it calls, a call each
	total   int64   // with what it calls, where no check stands between
	entry   bool    // it is checked on entry
	between bool    // and before each call of something that is not small
	index   int     // of Tarjan's walk; 0: not met
	low     int     //
	open    bool    // on its stack
	inserts []place // where a check belongs in any case
}

// place is a position in a body; a call's has the function called.
type place struct {
	at     int
	callee int // -1: a check belongs here
}

// guard puts checks into the module, so that between two of them a guest runs
// for about run instructions or copies one block of memory.
//
// Loops are checked by the engine. Functions that call themselves, by whatever
// way, are checked on entry; calls through tables always. What is left is a
// graph without cycles, whose costs are added up from the leaves; where they
// pass run, the caller is checked on entry and before its calls.
func (m *module) guard() {
	first := len(m.imports)
	costs := make([]cost, len(m.bodies))
	for i, b := range m.bodies {
		costs[i].read(b, first)
	}
	w := walk{costs: costs}
	for i := range costs {
		if costs[i].index == 0 {
			w.visit(i)
		}
	}
	for i, b := range m.bodies {
		m.bodies[i] = costs[i].insert(b, costs)
	}
}

// read counts a body's instructions and notes its calls.
func (c *cost) read(b body, first int) {
	r := &reader{data: b.code, pos: b.at}
	var last instr
	for r.left() > 0 {
		at := r.pos
		in := r.instr()
		c.own++
		switch {
		case in.op == opCall && int(in.arg) >= first:
			c.calls = append(c.calls, int(in.arg)-first)
			c.inserts = append(c.inserts, place{at, int(in.arg) - first})
		case in.op == opCallIndirect:
			c.inserts = append(c.inserts, place{at, -1})
		case in.op == opMisc && in.sub >= miscMemoryInit:
			if n := uint32(last.arg); last.op == opI32Const && n <= 1<<16 {
				c.own += int64(n) / 16
			} else {
				c.inserts = append(c.inserts, place{at, -1})
			}
		}
		last = in
	}
}

// walk finds the cycles of the graph of calls (Tarjan 1972) and gives each
// function its cost after those that it calls.
type walk struct {
	costs []cost
	next  int
	stack []int
}

func (w *walk) visit(i int) {
	c := &w.costs[i]
	w.next++
	c.index, c.low, c.open = w.next, w.next, true
	w.stack = append(w.stack, i)
	for _, j := range c.calls {
		if j >= len(w.costs) { // the engine refuses the module
			continue
		}
		d := &w.costs[j]
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
	group := w.stack[at:]
	w.stack = w.stack[:at]
	for _, j := range group {
		w.costs[j].entry = len(group) > 1 || slices.Contains(w.costs[j].calls, j)
	}
	for _, j := range group {
		w.costs[j].sum(w.costs)
		w.costs[j].open = false
	}
}

// sum adds up what a function takes, and checks its calls where that is much.
func (c *cost) sum(costs []cost) {
	c.total = c.own
	var most int64
	for _, j := range c.calls {
		if j >= len(costs) || costs[j].entry {
			continue
		}
		c.total += costs[j].total
		most = max(most, costs[j].total)
		if c.total > run {
			c.entry, c.between = true, true
		}
	}
	if c.between {
		c.total = c.own + small*int64(len(c.calls)) + most
	}
}

// insert writes a body with its checks.
func (c *cost) insert(b body, costs []cost) body {
	out := slices.Clone(b.code[:b.at])
	if c.entry {
		out = append(out, check...)
	}
	from := b.at
	for _, p := range c.inserts {
		if p.callee >= 0 && (!c.between || p.callee >= len(costs) || costs[p.callee].entry || costs[p.callee].total <= small) {
			continue
		}
		out = append(out, b.code[from:p.at]...)
		out = append(out, check...)
		from = p.at
	}
	return body{append(out, b.code[from:]...), b.at}
}

// tangled reports whether a function has more blocks than a compiler is given.
// What copies or fills memory becomes several.
func (m *module) tangled() bool {
	for _, b := range m.bodies {
		blocks := 0
		r := &reader{data: b.code, pos: b.at}
		for r.left() > 0 {
			switch in := r.instr(); {
			case in.op == opBlock, in.op == opIf, in.op == opBrIf:
				blocks++
			case in.op == opLoop:
				blocks += 4
			case in.op == opBrTable:
				blocks += 4
			case in.op == opMisc && in.sub >= miscMemoryInit:
				blocks += 8
			}
		}
		if blocks > maxBlocks {
			return true
		}
	}
	return false
}
