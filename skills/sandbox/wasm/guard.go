package wasm

import "slices"

// run is the number of instructions between two checks of the deadline; a
// check takes as long as a hundred instructions. Calls of at most small
// instructions are not checked.
const (
	run   = 1 << 20
	small = 1 << 6
)

// check is an empty loop. The engine tests whether the guest must end only at
// the head of a loop: without one, a tree of calls or a series of copies of
// all memory could not be stopped.
var check = []byte{opLoop, 0x40, opEnd}

// cost is the cost of a function.
type cost struct {
	size    int64   // instructions; copied blocks count by their bytes
	calls   []int   // callees in the module, one for each call
	total   int64   // including callees without a check in between
	entry   bool    // checked on entry
	between bool    // and before each call that is not small
	inserts []place // positions of checks and calls
}

// place is a position in a body, of a call or of a check.
type place struct {
	at     int
	callee int // -1: insert a check
}

// guard inserts checks so that between two of them a guest runs about run
// instructions or copies one piece of memory.
//
// The engine checks loops. Functions that call themselves, directly or not,
// are checked on entry, and calls through tables always. The rest is a graph
// without cycles, whose costs are summed from the leaves; if they exceed run,
// the caller is checked on entry and before its calls. The depth of calls is
// limited too, see deepest.
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

// read counts a body's instructions and records its calls.
func (c *cost) read(b body, first, all int) {
	r := &reader{data: b.code, pos: b.at}
	var last instr
	for r.left() > 0 {
		at := r.pos
		in := r.instr()
		c.size++
		switch {
		case in.op == opCall && int(in.arg) >= first && int(in.arg)-first < all: // others the engine refuses
			c.calls = append(c.calls, int(in.arg)-first)
			c.inserts = append(c.inserts, place{at, int(in.arg) - first})
		case in.op == opCallIndirect:
			c.inserts = append(c.inserts, place{at, -1})
		case in.op == opMisc && in.sub >= miscMemoryInit:
			if n := uint32(last.arg); last.op == opI32Const && n <= 1<<16 {
				c.size += int64(n) / 16
			} else {
				c.inserts = append(c.inserts, place{at, -1})
			}
		}
		last = in
	}
}

// sum adds up the cost of a function, and checks its calls if that is high.
func (c *cost) sum(costs []cost) {
	c.total = c.size
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
		c.total = c.size + small*int64(len(c.calls)) + most
	}
}

// insert returns a body with its checks.
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

// tangled reports whether a function has more blocks than a compiler may get.
// Instructions that copy or fill memory compile to several.
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
