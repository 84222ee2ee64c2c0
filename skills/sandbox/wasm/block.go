package wasm

import (
	"encoding/binary"
	"slices"
)

// piece is the number of bytes filled or copied between two checks.
const piece = 1 << 20

// Instructions of the functions that replace fills and copies.
const (
	opUnreachable = 0x00
	opLocalGet    = 0x20
	opLocalSet    = 0x21
	opI32LtU      = 0x49
	opI32GtU      = 0x4b
	opI32Sub      = 0x6b
	empty         = 0x40 // type of a block without values
)

// pieces replaces fills and copies of unknown length by calls of functions
// that work piece by piece: one of gigabytes takes seconds and cannot be
// interrupted.
func (m *module) pieces() {
	fill, copies := uint32(len(m.imports)+len(m.bodies)), uint32(len(m.imports)+len(m.bodies)+1)
	used := false
	for i, b := range m.bodies {
		if split := b.pieces(fill, copies); len(split.code) != len(b.code) {
			m.bodies[i], used = split, true
		}
	}
	if !used {
		return
	}
	m.extend(secType, []byte{0x60, 3, typeI32, typeI32, typeI32, 0})
	for _, code := range [][]byte{filling(), copying()} {
		m.extend(secFunction, binary.AppendUvarint(nil, uint64(m.types)))
		m.bodies = append(m.bodies, body{code: code, at: 1})
		m.funcs++
	}
	m.types++
}

// pieces returns a body that calls those functions.
func (b body) pieces(fill, copies uint32) body {
	out, from := b.code[:b.at:b.at], b.at
	var last instr
	for r := (&reader{data: b.code, pos: b.at}); r.left() > 0; {
		at := r.pos
		in := r.instr()
		short := last.op == opI32Const && uint32(last.arg) <= piece
		if last = in; in.op != opMisc || short || in.sub != miscMemoryFill && in.sub != miscMemoryCopy {
			continue
		}
		callee := fill
		if in.sub == miscMemoryCopy {
			callee = copies
		}
		out = append(append(out, b.code[from:at]...), opCall)
		out = binary.AppendUvarint(out, uint64(callee))
		from = r.pos
	}
	return body{append(out, b.code[from:]...), b.at, b.locals}
}

// The parameters of both functions: destination, byte or source, count.
const (
	to = iota
	with
	many
)

// filling is memory.fill of (to, with, many) in pieces from the start.
func filling() []byte {
	fill := []byte{opMisc, miscMemoryFill, 0}
	return slices.Concat([]byte{0, opLoop, empty}, longer(),
		local(to), local(with), constant(piece), fill,
		move(to, opI32Add), move(many, opI32Sub), []byte{opBr, 1, opEnd, opEnd},
		local(to), local(with), local(many), fill, []byte{opEnd})
}

// copying is memory.copy of (to, with, many). If the destination is after the
// source, it copies from the end, unless the end is out of bounds, which
// traps.
func copying() []byte {
	copied := []byte{opMisc, miscMemoryCopy, 0, 0}
	last := slices.Concat(local(to), local(many), constant(-1), []byte{opI32Add, opI32Add})
	end := func(at byte) []byte { return slices.Concat(local(at), local(many), []byte{opI32Add}) }
	return slices.Concat([]byte{0}, local(with), local(to), []byte{opI32LtU, opIf, empty},
		longer(), last, local(to), []byte{opI32LtU, opIf, empty, opUnreachable, opEnd, opEnd},
		[]byte{opLoop, empty}, longer(),
		move(many, opI32Sub), end(to), end(with), constant(piece), copied, []byte{opBr, 1, opEnd, opEnd},
		[]byte{opElse, opLoop, empty}, longer(),
		local(to), local(with), constant(piece), copied,
		move(to, opI32Add), move(with, opI32Add), move(many, opI32Sub), []byte{opBr, 1, opEnd, opEnd, opEnd},
		local(to), local(with), local(many), copied, []byte{opEnd})
}

// longer begins a block for more than a piece.
func longer() []byte {
	return slices.Concat(local(many), constant(piece), []byte{opI32GtU, opIf, empty})
}

func local(i byte) []byte { return []byte{opLocalGet, i} }

func constant(n int64) []byte { return appendSigned([]byte{opI32Const}, n) }

// move adds a piece to a local or subtracts it.
func move(i, op byte) []byte {
	return slices.Concat(local(i), constant(piece), []byte{op, opLocalSet, i})
}
