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
	inserts []place // where a check belongs in any case
}

// place is a position in a body; a call's has the function called.
type place struct {
	at     int
	callee int // -1: a check belongs here
}

// guard puts checks into the module, so that between two of them a guest runs
// for about run instructions or copies one piece of memory.
//
// Loops are checked by the engine. Functions that call themselves, by whatever
// way, are checked on entry; calls through tables always. What is left is a
// graph without cycles, whose costs are added up from the leaves; where they
// pass run, the caller is checked on entry and before its calls. How deep calls
// may lie is bounded too, see deepest.
func (m *module) guard() {
	m.pieces()
	first := len(m.imports)
	costs := make([]cost, len(m.bodies))
	for i, b := range m.bodies {
		costs[i].read(b, first, len(m.bodies))
	}
	calls := make([][]int, len(costs))
	for i := range costs {
		calls[i] = costs[i].calls
	}
	for _, group := range components(calls) {
		for _, i := range group {
			costs[i].entry = len(group) > 1 || slices.Contains(calls[i], i)
		}
		for _, i := range group {
			costs[i].sum(costs)
		}
	}
	for i, b := range m.bodies {
		m.bodies[i] = costs[i].insert(b, costs)
	}
	m.deepen()
}

// read counts a body's instructions and notes its calls.
func (c *cost) read(b body, first, all int) {
	r := &reader{data: b.code, pos: b.at}
	var last instr
	for r.left() > 0 {
		at := r.pos
		in := r.instr()
		c.own++
		switch {
		case in.op == opCall && int(in.arg) >= first && int(in.arg)-first < all: // others the engine refuses
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

// sum adds up what a function takes, and checks its calls where that is much.
func (c *cost) sum(costs []cost) {
	c.total = c.own
	var most int64
	for _, j := range c.calls {
		if costs[j].entry {
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
		if p.callee >= 0 && (!c.between || costs[p.callee].entry || costs[p.callee].total <= small) {
			continue
		}
		out = append(out, b.code[from:p.at]...)
		out = append(out, check...)
		from = p.at
	}
	return body{append(out, b.code[from:]...), b.at, b.locals}
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
