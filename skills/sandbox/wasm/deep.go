package wasm

import (
	"encoding/binary"
	"slices"
)

// A guest's calls lie on a stack that the engine doubles as it fills, up to
// 100 MB: none of it counts for the guest's memory, and while it is made and
// copied nobody can stop the guest. deepest is how much of it, in bytes as
// counted here, calls that lead back to themselves may take.
const deepest = 8 << 20

// leftName is the global that holds what is left of deepest.
const leftName = "mm.deep"

// deepen has each call that may lead back to its caller take the caller's frame
// from what is left, and give it back. Where nothing is left it divides by
// zero: a trap without a block of its own, of which a compiler is given few.
//
// Calls through a table lead to every function of which a reference is taken.
// Functions outside of all cycles stand on the stack once each and are not
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
	used := false // no call of a function outside of all cycles is one back
	for i, b := range m.bodies {
		back := func(callee int) bool { return group[i] == group[callee] }
		if m.bodies[i] = b.counted(first, table, m.globals, back); len(m.bodies[i].code) > len(b.code) {
			used = true
		}
	}
	if used {
		m.addLeft()
	}
}

// calls are the functions that a body calls; table stands for those that it
// calls through one.
func (b body) calls(first, table int) []int {
	var out []int
	for r := (&reader{data: b.code, pos: b.at}); r.left() > 0; {
		if i := callee(r.instr(), first, table); i >= 0 {
			out = append(out, i)
		}
	}
	return out
}

// callee is the function of the module that an instruction calls, or -1.
func callee(in instr, first, table int) int {
	switch {
	case in.op == opCallIndirect:
		return table
	case in.op == opCall && int(in.arg) >= first && int(in.arg)-first < table: // others the engine refuses
		return int(in.arg) - first
	}
	return -1
}

// counted writes a body whose calls back are counted by the global.
func (b body) counted(first, table int, global uint32, back func(callee int) bool) body {
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

// frame is about what a call of the body has on the engine's stack: 16 bytes for
// each local, which may be a vector, and two for each instruction, of which a
// few leave something to keep.
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

// addLeft adds the global behind the module's own, and exports it, so that
// whoever called can tell this trap from others.
func (m *module) addLeft() {
	left := appendSigned([]byte{typeI32, 1, opI32Const}, deepest)
	m.extend(secGlobal, append(left, opEnd))
	export := append([]byte{byte(len(leftName))}, leftName...)
	m.extend(secExport, binary.AppendUvarint(append(export, kindGlobal), uint64(m.globals)))
}

// extend adds an entry to a section that is a list, and makes the section where
// there is none.
func (m *module) extend(id byte, entry []byte) {
	at, _ := slices.BinarySearchFunc(m.sections, order[id], func(s section, n int) int { return order[s.id] - n })
	if at == len(m.sections) || m.sections[at].id != id {
		m.sections = slices.Insert(m.sections, at, section{id, []byte{0}})
	}
	n, skip := binary.Uvarint(m.sections[at].data)
	data := binary.AppendUvarint(nil, n+1)
	m.sections[at].data = slices.Concat(data, m.sections[at].data[skip:], entry)
}
