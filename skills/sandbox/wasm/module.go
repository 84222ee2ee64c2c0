package wasm

import (
	"bytes"
	"encoding/binary"

	"mm-abi.org/mm/skills/sandbox"
)

// Limits of a module, a few times the sizes of large guests. They bound what is
// allocated before anything is compiled.
const (
	maxName    = 1 << 10
	maxTypes   = 1 << 15
	maxValues  = 1 << 10 // parameters, results of one type
	maxFuncs   = 1 << 17
	maxImports = 1 << 10
	maxTables  = 16
	maxEntries = 1 << 17 // of all tables
	maxGlobals = 1 << 14
	maxExports = 1 << 14
	maxSegs    = 1 << 17 // Go writes a segment for each run of bytes that are not 0
	maxLocals  = 1 << 13
	maxBody    = 2 << 20 // bytes of one function
	maxTargets = 1 << 16
	maxNesting = 1 << 10 // of blocks
)

// Sections, by their numbers (§5.5.2).
const (
	secCustom = iota
	secType
	secImport
	secFunction
	secTable
	secMemory
	secGlobal
	secExport
	secStart
	secElement
	secCode
	secData
	secDataCount
)

// order is the order of the sections: the data count comes before the code.
var order = [...]int{secType: 1, secImport: 2, secFunction: 3, secTable: 4, secMemory: 5, secGlobal: 6, secExport: 7, secStart: 8, secElement: 9, secDataCount: 10, secCode: 11, secData: 12}

// Kinds and types that mm inserts (§5.5.10, §5.3.1).
const (
	kindGlobal = 3
	typeI32    = 0x7f
)

var magic = []byte{0, 'a', 's', 'm', 1, 0, 0, 0}

// module is a parsed module.
type module struct {
	sections []section // without the custom ones
	types    uint32
	imports  []string // functions, as "module.name"
	funcs    uint32   // defined
	exports  map[string]byte
	pages    uint32 // initial memory, in 64 KiB
	bodies   []body
	globals  uint32
	referred []uint32 // functions whose reference is taken
}

type section struct {
	id   byte
	data []byte
}

// body is the code of a function.
type body struct {
	code   []byte // locals and instructions
	at     int    // offset of the instructions
	locals int    // without parameters
}

// parse parses a module and checks all of its sizes. Custom sections, such as
// names and debug information, are dropped.
func parse(code []byte) (*module, error) {
	if !bytes.HasPrefix(code, magic) {
		return nil, sandbox.Refuse("not a WebAssembly module of version 1")
	}
	m := &module{exports: map[string]byte{}}
	r := &reader{data: code, pos: len(magic)}
	last := 0
	for r.left() > 0 && r.err == nil {
		id := r.byte()
		data := r.take(r.u32())
		if r.err != nil || id == secCustom {
			continue
		}
		if int(id) >= len(order) || order[id] <= last {
			r.fail("section %d out of order", id)
			break
		}
		last = order[id]
		s := &reader{data: data}
		m.section(id, s)
		if s.err == nil && s.left() > 0 {
			s.fail("%d trailing bytes", s.left())
		}
		if s.err != nil {
			return nil, s.err
		}
		m.sections, m.referred = append(m.sections, section{id, data}), append(m.referred, s.refs...)
	}
	if r.err == nil && uint32(len(m.bodies)) != m.funcs {
		r.fail("got %[2]d function bodies, want %[1]d", m.funcs, len(m.bodies))
	}
	if r.err != nil {
		return nil, r.err
	}
	return m, nil
}

func (m *module) section(id byte, r *reader) {
	switch id {
	case secType:
		m.types = r.count("types", maxTypes, 3)
		for i := uint32(0); i < m.types && r.err == nil; i++ {
			m.funcType(r)
		}
	case secImport:
		for n := r.count("imports", maxImports, 4); n > 0 && r.err == nil; n-- {
			m.readImport(r)
		}
	case secFunction:
		m.funcs = r.count("functions", maxFuncs, 1)
		for i := uint32(0); i < m.funcs && r.err == nil; i++ {
			m.typeIndex(r)
		}
	case secTable:
		var all uint64
		for n := r.count("tables", maxTables, 3); n > 0 && r.err == nil; n-- {
			r.refType()
			least, _ := r.limits()
			if all += uint64(least); all > maxEntries {
				r.fail("too many table entries: got %d, limit %d", all, maxEntries)
			}
		}
	case secMemory:
		if n := r.count("memories", 1, 2); n == 1 {
			m.pages, _ = r.limits()
		}
	case secGlobal:
		m.globals = r.count("globals", maxGlobals, 4)
		for i := uint32(0); i < m.globals && r.err == nil; i++ {
			r.valType()
			r.byte()
			r.constant()
		}
	case secExport:
		for n := r.count("exports", maxExports, 3); n > 0 && r.err == nil; n-- {
			name := r.name()
			m.exports[name] = r.byte()
			if name == leftName {
				r.fail("export name %s is reserved", name)
			}
			r.u32()
		}
	case secStart:
		r.u32()
	case secElement:
		for n := r.count("segments", maxSegs, 3); n > 0 && r.err == nil; n-- {
			r.element()
		}
	case secDataCount:
		r.u32()
	case secCode:
		for n := r.count("bodies", maxFuncs, 2); n > 0 && r.err == nil; n-- {
			m.body(r)
		}
	case secData:
		for n := r.count("segments", maxSegs, 2); n > 0 && r.err == nil; n-- {
			r.datum()
		}
	}
}

func (m *module) funcType(r *reader) {
	if form := r.byte(); form != 0x60 {
		r.fail("invalid function type 0x%02x", form)
	}
	for range 2 {
		for n := r.count("values of a type", maxValues, 1); n > 0 && r.err == nil; n-- {
			r.valType()
		}
	}
}

func (m *module) typeIndex(r *reader) {
	if i := r.u32(); i >= m.types {
		r.fail("type index %d out of range %d", i, m.types)
	}
}

// readImport reads an import, which must be a function.
func (m *module) readImport(r *reader) {
	name := r.name() + "." + r.name()
	if kind := r.byte(); kind != 0 {
		r.fail("import %s is not a function", name)
	}
	m.typeIndex(r)
	m.imports = append(m.imports, name)
}

// body reads one function and validates the encoding of its instructions.
func (m *module) body(r *reader) {
	code := r.take(r.count("bytes of a function", maxBody, 1))
	b := &reader{data: code}
	var locals uint64
	for n := b.count("groups of locals", maxLocals, 2); n > 0 && b.err == nil; n-- {
		if locals += uint64(b.u32()); locals > maxLocals {
			b.fail("too many locals: got %d, limit %d", locals, maxLocals)
		}
		b.valType()
	}
	at := b.pos
	for depth := 1; depth > 0 && b.err == nil; {
		switch b.instr().op {
		case opBlock, opLoop, opIf:
			if depth++; depth > maxNesting {
				b.fail("more than %d nested blocks", maxNesting)
			}
		case opEnd:
			depth--
		}
	}
	if b.err == nil && b.left() > 0 {
		b.fail("%d bytes after the end of a function", b.left())
	}
	if r.err == nil {
		r.err = b.err
	}
	m.bodies = append(m.bodies, body{code, at, int(locals)})
	m.referred = append(m.referred, b.refs...)
}

func (r *reader) valType() {
	switch t := r.byte(); t {
	case 0x7f, 0x7e, 0x7d, 0x7c, 0x7b, 0x70, 0x6f:
	default:
		r.fail("invalid value type 0x%02x", t)
	}
}

func (r *reader) refType() {
	if t := r.byte(); t != 0x70 && t != 0x6f {
		r.fail("invalid reference type 0x%02x", t)
	}
}

// limits reads the minimum and the maximum of a table or a memory.
func (r *reader) limits() (least uint32, most uint64) {
	switch flags := r.byte(); flags {
	case 0:
		return r.u32(), 1 << 32
	case 1:
		least = r.u32()
		return least, uint64(r.u32())
	default:
		r.fail("shared and 64-bit memories are not supported")
		return 0, 0
	}
}

// element reads a segment of references in its eight forms (§5.5.12).
func (r *reader) element() {
	flags := r.u32()
	if flags > 7 {
		r.fail("invalid segment form %d", flags)
	}
	if flags&1 == 0 {
		if flags&2 != 0 {
			r.u32()
		}
		r.constant()
	}
	if flags&3 != 0 {
		if kind := r.byte(); flags < 4 && kind != 0 || flags >= 4 && kind != 0x70 && kind != 0x6f {
			r.fail("invalid element kind 0x%02x", kind)
		}
	}
	for n := r.count("elements", maxEntries, 1); n > 0 && r.err == nil; n-- {
		if flags < 4 {
			r.refs = append(r.refs, r.u32())
		} else {
			r.constant()
		}
	}
}

// datum reads a segment of bytes in its three forms (§5.5.14).
func (r *reader) datum() {
	switch flags := r.u32(); flags {
	case 0:
		r.constant()
	case 1:
	case 2:
		r.u32()
		r.constant()
	default:
		r.fail("invalid segment form %d", flags)
	}
	r.take(r.u32())
}

// encode returns the module as bytes.
func (m *module) encode() []byte {
	out := bytes.Clone(magic)
	for _, s := range m.sections {
		data := s.data
		if s.id == secCode {
			data = binary.AppendUvarint(nil, uint64(len(m.bodies)))
			for _, b := range m.bodies {
				data = append(binary.AppendUvarint(data, uint64(len(b.code))), b.code...)
			}
		}
		out = append(out, s.id)
		out = append(binary.AppendUvarint(out, uint64(len(data))), data...)
	}
	return out
}
