package wasm

import (
	"strings"
	"testing"
)

// TestLimits holds each limit of a module on either side.
func TestLimits(t *testing.T) {
	section := func(id byte, items func(n int) []byte) func(int) error {
		return func(n int) error {
			r := &reader{data: items(n)}
			(&module{types: 1, exports: map[string]byte{}}).section(id, r)
			return r.err
		}
	}
	many := func(item ...byte) func(int) []byte {
		return func(n int) []byte { return cat(leb(int64(n)), repeat(n, item)) }
	}
	code := func(body func(n int) []byte) func(int) error {
		return section(secCode, func(n int) []byte { b := body(n); return cat(leb(1), leb(int64(len(b))), b) })
	}
	for _, c := range []struct {
		name  string
		limit int
		try   func(n int) error
	}{
		{"maxName", maxName, func(n int) error { r := &reader{data: text(strings.Repeat("x", n))}; r.name(); return r.err }},
		{"maxTypes", maxTypes, section(secType, many(0x60, 0, 0))},
		{"maxValues", maxValues, section(secType, func(n int) []byte { return cat([]byte{1, 0x60}, many(typeI32)(n), []byte{0}) })},
		{"maxFuncs", maxFuncs, section(secFunction, many(0))},
		{"maxFuncs bodies", maxFuncs, section(secCode, many(2, 0, opEnd))},
		{"maxImports", maxImports, section(secImport, many(0, 0, 0, 0))},
		{"maxTables", maxTables, section(secTable, many(0x70, 0, 0))},
		{"maxEntries", maxEntries, section(secTable, func(n int) []byte { return cat([]byte{1, 0x70, 0}, leb(int64(n))) })},
		{"maxEntries elements", maxEntries, section(secElement, func(n int) []byte { return cat([]byte{1, 1, 0}, many(0)(n)) })},
		{"memories", 1, section(secMemory, many(0, 0))},
		{"maxGlobals", maxGlobals, section(secGlobal, many(typeI32, 0, opI32Const, 0, opEnd))},
		{"maxExports", maxExports, section(secExport, many(0, 0, 0))},
		{"maxSegs elements", maxSegs, section(secElement, many(1, 0, 0))},
		{"maxSegs data", maxSegs, section(secData, many(1, 0))},
		{"maxLocals", maxLocals, code(func(n int) []byte { return cat([]byte{1}, leb(int64(n)), []byte{typeI32, opEnd}) })},
		{"maxLocals groups", maxLocals, code(func(n int) []byte { return cat(many(0, typeI32)(n), []byte{opEnd}) })},
		{"maxBody", maxBody, code(func(n int) []byte { return cat([]byte{0}, repeat(n-2, []byte{1}), []byte{opEnd}) })},
		{"maxTargets", maxTargets, code(func(n int) []byte { return cat([]byte{0, opBrTable}, many(0)(n), []byte{0, opEnd}) })},
		{"maxNesting", maxNesting, code(func(n int) []byte {
			return cat([]byte{0}, repeat(n-1, []byte{opBlock, empty}), repeat(n, []byte{opEnd}))
		})},
	} {
		if err := c.try(c.limit); err != nil {
			t.Errorf("%s at the limit: %v", c.name, err)
		}
		if err := c.try(c.limit + 1); err == nil {
			t.Errorf("%s: %d accepted", c.name, c.limit+1)
		}
	}
	for n, want := range map[int]bool{maxBlocks: false, maxBlocks + 1: true} {
		m := &module{bodies: []body{{code: repeat(n, []byte{opIf, empty})}}}
		if m.tangled() != want {
			t.Errorf("%d blocks: tangled is %v", n, !want)
		}
	}
	for sub, want := range map[byte]bool{0: false, miscMemoryFill: true} { // a conversion is not a block
		m := &module{bodies: []body{{code: repeat(maxBlocks, cat([]byte{opMisc, sub}, make([]byte, min(sub, 1))))}}}
		if m.tangled() != want {
			t.Errorf("instruction %#x %d: tangled is %v", opMisc, sub, !want)
		}
	}
}

// TestCheckLimits covers the calls that guard leaves unchecked, on either side
// of run and small.
func TestCheckLimits(t *testing.T) {
	for n, want := range map[int64]bool{run - 1: false, run: true} {
		costs := []cost{{size: 1, calls: []int{1}}, {size: n, total: n}}
		costs[0].sum(costs)
		if costs[0].entry != want || costs[0].between != want {
			t.Errorf("a call of %d instructions: %+v", n, costs[0])
		}
	}
	for n, want := range map[int64]int{small: 1, small + 1: 1 + len(check)} {
		c := cost{between: true, inserts: []place{{0, 1}}}
		if got := c.insert(body{code: []byte{opEnd}}, []cost{{}, {total: n}}); len(got.code) != want {
			t.Errorf("a callee of %d instructions: got %d bytes, want %d", n, len(got.code), want)
		}
	}
	for n, want := range map[int64]bool{piece: false, piece + 1: true} {
		code := cat(i32(n), op(opMisc, miscMemoryFill, 0))
		if split := (body{code: code}).pieces(1, 2); (len(split.code) != len(code)) != want {
			t.Errorf("a fill of %d bytes: split is %v", n, !want)
		}
	}
}
