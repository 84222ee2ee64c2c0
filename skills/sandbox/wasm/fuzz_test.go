package wasm

import (
	"testing"

	"mm-abi.org/mm/skills/sandbox"
)

// FuzzModule reads hostile modules. What is taken is taken by the engine too,
// or refused by it with an error, with its checks as without; nothing that the
// engine takes with the checks has a fault without them.
func FuzzModule(f *testing.F) {
	for _, code := range [][]byte{echo(), reacts(), commands(loop()), chain(3), branches(4), world(), reads(), flood(1), grow()} {
		f.Add(code)
	}
	for _, h := range corpus() {
		if len(h.Program.Code) < 4096 {
			f.Add(h.Program.Code)
		}
	}
	e := open(f, Options{})
	f.Fuzz(func(t *testing.T, code []byte) {
		m, err := parse(code)
		if err != nil {
			if sandbox.KindOf(err) != sandbox.Refused {
				t.Fatalf("no fault: %v", err)
			}
			return
		}
		plain := m.encode()
		again, err := parse(plain)
		if err != nil {
			t.Fatalf("written and read again: %v", err)
		}
		again.guard()
		_, before := e.fast.CompileModule(t.Context(), plain)
		_, after := e.fast.CompileModule(t.Context(), again.encode())
		if (before == nil) != (after == nil) {
			t.Fatalf("plain: %v; with checks: %v", before, after)
		}
	})
}
