package wasm

import (
	"encoding/binary"
	"slices"
)

// deepest limits the stack of recursive calls, in bytes as estimated here. The
// engine doubles its stack as it fills, up to 100 MB, which does not count for
// the guest's memory and cannot be interrupted while it is copied.
const deepest = 8 << 20

// leftName is the exported global that holds the rest of deepest.
const leftName = "mm.deep"

// deepen makes each call that may lead back to its caller subtract the
// caller's frame from the global, and add it again afterwards. If nothing is
// left, it divides by zero: a trap that needs no block, of which a compiler
// takes few.
//
// A call through a table may reach every function whose reference is taken.
// Functions outside of all cycles are on the stack once each and are not
// counted.
func (m *module) deepen() {
	first, table := len(m.imports), len(m.bodies)
	calls := make([][]int, table+1)
	for i, b := range m.bodies {
		calls[i] = b.calls(first, table)
	}
	for _, f := range m.referred {
		if int(f) >= first && int(f)-first < table {
			calls[table] = append(calls[table], int(f)-first)
		}
	}
	group := make([]int, table+1)
	for n, g := range components(calls) {
		for _, i := range g {
			group[i] = n
		}
	}
	used := false // functions outside of all cycles make no such call
	for i, b := range m.bodies {
		back := func(callee int) bool { return group[i] == group[callee] }
		if m.bodies[i] = b.countCalls(first, table, m.globals, back); len(m.bodies[i].code) > len(b.code) {
			used = true
		}
	}
	if used {
		m.addLeft()
	}
}

// calls returns the functions that a body calls; table stands for calls
// through a table.
func (b body) calls(first, table int) []int {
	var out []int
	for r := (&reader{data: b.code, pos: b.at}); r.left() > 0; {
		if i := callee(r.instr(), first, table); i >= 0 {
			out = append(out, i)
		}
	}
	return out
}

// callee returns the function of the module that an instruction calls, or -1.
func callee(in instr, first, table int) int {
	switch {
	case in.op == opCallIndirect:
		return table
	case in.op == opCall && int(in.arg) >= first && int(in.arg)-first < table: // the engine refuses others
		return int(in.arg) - first
	}
	return -1
}

// countCalls returns a body that counts its recursive calls in the global.
func (b body) countCalls(first, table int, global uint32, back func(callee int) bool) body {
	out := b.code[:b.at:b.at]
	from, frame := b.at, b.frame()
	for r := (&reader{data: b.code, pos: b.at}); r.left() > 0; {
		at := r.pos
		if i := callee(r.instr(), first, table); i < 0 || !back(i) {
			continue
		}
		out = append(out, b.code[from:at]...)
		out = take(out, global, frame)
		out = append(out, b.code[at:r.pos]...)
		out = add(out, global, frame)
		from = r.pos
	}
	return body{append(out, b.code[from:]...), b.at, b.locals}
}

// frame estimates the stack of a call of the body: 16 bytes for each local,
// which may be a vector, and two for each instruction, a few of which keep a
// value.
func (b body) frame() int64 { return 96 + 16*int64(b.locals) + 2*int64(len(b.code)-b.at) }

func take(out []byte, global uint32, n int64) []byte {
	out = add(out, global, -n)
	out = append(out, opI32Const, 1, opGlobalGet)
	out = binary.AppendUvarint(out, uint64(global))
	return append(out, opI32Const, 0, opI32GeS, opI32DivU, opDrop)
}

func add(out []byte, global uint32, n int64) []byte {
	out = binary.AppendUvarint(append(out, opGlobalGet), uint64(global))
	out = appendSigned(append(out, opI32Const), n)
	out = append(out, opI32Add, opGlobalSet)
	return binary.AppendUvarint(out, uint64(global))
}

// appendSigned appends a signed LEB128 number.
func appendSigned(out []byte, v int64) []byte {
	for {
		b := byte(v & 0x7f)
		if v >>= 7; v == 0 && b&0x40 == 0 || v == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

// addLeft adds the global after those of the module and exports it, so that
// the caller can distinguish this trap.
func (m *module) addLeft() {
	left := appendSigned([]byte{typeI32, 1, opI32Const}, deepest)
	m.extend(secGlobal, append(left, opEnd))
	export := append([]byte{byte(len(leftName))}, leftName...)
	m.extend(secExport, binary.AppendUvarint(append(export, kindGlobal), uint64(m.globals)))
}

// extend adds an entry to a list section, which is created if absent.
func (m *module) extend(id byte, entry []byte) {
	at, _ := slices.BinarySearchFunc(m.sections, order[id], func(s section, n int) int { return order[s.id] - n })
	if at == len(m.sections) || m.sections[at].id != id {
		m.sections = slices.Insert(m.sections, at, section{id, []byte{0}})
	}
	n, skip := binary.Uvarint(m.sections[at].data)
	data := binary.AppendUvarint(nil, n+1)
	m.sections[at].data = slices.Concat(data, m.sections[at].data[skip:], entry)
}
