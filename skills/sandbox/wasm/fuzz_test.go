package wasm

import (
	"testing"

	"mm-abi.org/mm/skills/sandbox"
)

// FuzzModule checks that the engine compiles a parsed module with checks
// exactly if it compiles it without.
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
				t.Fatalf("not a fault: %v", err)
			}
			return
		}
		plain := m.encode()
		again, err := parse(plain)
		if err != nil {
			t.Fatalf("encoded and parsed again: %v", err)
		}
		again.guard()
		_, before := e.fast.CompileModule(t.Context(), plain)
		_, after := e.fast.CompileModule(t.Context(), again.encode())
		if (before == nil) != (after == nil) {
			t.Fatalf("plain: %v; with checks: %v", before, after)
		}
	})
}
