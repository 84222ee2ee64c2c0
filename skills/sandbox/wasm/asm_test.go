package wasm

import (
	"encoding/binary"
	"slices"
)

// asm assembles modules for tests.
type asm struct {
	types   []string // "ii:i", i for i32, I for i64
	imports [][]byte
	funcs   [][]byte // indices of types
	bodies  [][]byte
	exports [][]byte
	data    [][]byte
	table   []byte
	elem    []byte
	memory  []byte
	start   []byte
	custom  []byte
}

func leb(n int64) []byte { return binary.AppendUvarint(nil, uint64(uint32(n))) }

func sleb(n int64) []byte {
	var out []byte
	for {
		b := byte(n & 0x7f)
		n >>= 7
		if n == 0 && b&0x40 == 0 || n == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

func cat(parts ...[]byte) []byte { return slices.Concat(parts...) }

func text(s string) []byte { return append(leb(int64(len(s))), s...) }

func list(items ...[]byte) []byte { return append(leb(int64(len(items))), cat(items...)...) }

func sec(id byte, data []byte) []byte { return cat([]byte{id}, leb(int64(len(data))), data) }

func values(s string) []byte {
	out := leb(int64(len(s)))
	for _, c := range s {
		out = append(out, map[rune]byte{'i': 0x7f, 'I': 0x7e, 'f': 0x7d, 'F': 0x7c}[c])
	}
	return out
}

func (a *asm) typ(sig string) []byte {
	i := slices.Index(a.types, sig)
	if i < 0 {
		a.types = append(a.types, sig)
		i = len(a.types) - 1
	}
	return leb(int64(i))
}

// imp imports a function; all imports come before all functions.
func (a *asm) imp(from, name, sig string) int64 {
	a.imports = append(a.imports, cat(text(from), text(name), []byte{0}, a.typ(sig)))
	return int64(len(a.imports) - 1)
}

func (a *asm) wasi(name, sig string) int64 { return a.imp("wasi_snapshot_preview1", name, sig) }

// fn adds a function with a number of i32 locals.
func (a *asm) fn(sig string, locals int64, code ...[]byte) int64 {
	a.funcs = append(a.funcs, a.typ(sig))
	decl := list()
	if locals > 0 {
		decl = list(cat(leb(locals), []byte{0x7f}))
	}
	body := cat(decl, cat(code...), []byte{opEnd})
	a.bodies = append(a.bodies, cat(leb(int64(len(body))), body))
	return int64(len(a.imports) + len(a.funcs) - 1)
}

func (a *asm) export(name string, fn int64) {
	a.exports = append(a.exports, cat(text(name), []byte{0}, leb(fn)))
}

func (a *asm) put(at int64, s string) {
	a.data = append(a.data, cat([]byte{0}, i32(at), []byte{opEnd}, text(s)))
}

// bytes returns the module. It exports a memory of two pages unless it has
// another.
func (a *asm) bytes() []byte {
	memory := a.memory
	if memory == nil {
		memory = cat([]byte{0}, leb(2))
	}
	var types [][]byte
	for _, sig := range a.types {
		i := slices.Index([]byte(sig), ':')
		types = append(types, cat([]byte{0x60}, values(sig[:i]), values(sig[i+1:])))
	}
	out := cat(magic, sec(secType, list(types...)), sec(secImport, list(a.imports...)), sec(secFunction, list(a.funcs...)))
	if a.table != nil {
		out = cat(out, sec(secTable, list(a.table)))
	}
	exports := append([][]byte{cat(text("memory"), []byte{2, 0})}, a.exports...)
	out = cat(out, sec(secMemory, list(memory)), sec(secExport, list(exports...)), a.start)
	if a.elem != nil {
		out = cat(out, sec(secElement, list(a.elem)))
	}
	out = cat(out, sec(secCode, list(a.bodies...)))
	if a.data != nil {
		out = cat(out, sec(secData, list(a.data...)))
	}
	return cat(out, a.custom)
}

func i32(n int64) []byte  { return cat([]byte{opI32Const}, sleb(n)) }
func i64(n int64) []byte  { return cat([]byte{0x42}, sleb(n)) }
func get(i int64) []byte  { return cat([]byte{0x20}, leb(i)) }
func set(i int64) []byte  { return cat([]byte{0x21}, leb(i)) }
func call(i int64) []byte { return cat([]byte{opCall}, leb(i)) }
func loop(code ...[]byte) []byte {
	return cat([]byte{opLoop, 0x40}, cat(code...), []byte{opBr, 0, opEnd})
}
func when(code ...[]byte) []byte      { return cat([]byte{opIf, 0x40}, cat(code...), []byte{opEnd}) }
func load(at int64) []byte            { return cat(i32(at), []byte{0x28, 2, 0}) }
func store(at int64, v []byte) []byte { return cat(i32(at), v, []byte{0x36, 2, 0}) }
func op(b ...byte) []byte             { return b }
func repeat(n int, code ...[]byte) []byte {
	return slices.Repeat(cat(code...), n)
}

// write writes texts in memory, as pairs of address and length, to fd.
func write(fdWrite, fd int64, pieces ...[2]int64) []byte {
	var out []byte
	for i, p := range pieces {
		at := 64 + 8*int64(i)
		out = cat(out, store(at, i32(p[0])), store(at+4, i32(p[1])))
	}
	return cat(out, i32(fd), i32(64), i32(int64(len(pieces))), i32(48), call(fdWrite), op(0x1a))
}

// tries is a command that makes calls, each of which returns an errno, and
// writes "no" if all of them fail.
func tries(make func(a *asm) [][]byte) []byte {
	a := &asm{}
	w := a.wasi("fd_write", "iiii:i")
	var code []byte
	for _, c := range make(a) {
		code = cat(code, c, op(0x45), get(0), op(0x72), set(0)) // acc |= errno == 0
	}
	a.put(512, `"no"`)
	a.put(520, `"yes"`)
	code = cat(code, get(0), when(write(w, 1, [2]int64{520, 5})), get(0), op(0x45), when(write(w, 1, [2]int64{512, 4})))
	a.export("_start", a.fn(":", 4, code))
	return a.bytes()
}

// echo reads its standard input and writes it back.
func echo() []byte {
	a := &asm{}
	r, w := a.wasi("fd_read", "iiii:i"), a.wasi("fd_write", "iiii:i")
	a.put(512, `{"echo":`)
	a.put(530, `}`)
	a.export("_start", a.fn(":", 0,
		store(16, i32(2048)), store(20, i32(60000)),
		i32(0), i32(16), i32(1), i32(32), call(r), op(0x1a),
		store(64, i32(512)), store(68, i32(8)), store(72, i32(2048)), store(76, load(32)), store(80, i32(530)), store(84, i32(1)),
		i32(1), i32(64), i32(3), i32(48), call(w), op(0x1a)))
	return a.bytes()
}

// reacts does the same as a reactor.
func reacts() []byte {
	a := &asm{}
	a.put(512, `{"echo":`)
	a.export("mm_alloc", a.fn("i:i", 0, i32(520)))
	a.export("mm_call", a.fn("ii:I", 0,
		i32(520), get(1), op(0x6a), i32('}'), op(0x3a, 0, 0), // after the arguments
		get(1), i32(9), op(0x6a), op(0xad), i64(512<<32), op(0x84)))
	return a.bytes()
}
