package wasm

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"mm-abi.org/mm/skills/skilltest"
)

// mover is a module that exports a fill and a copy.
func mover(pages int64) []byte {
	a := &asm{memory: cat([]byte{0}, leb(pages))}
	a.export("fill", a.fn("iii:", 0, get(0), get(1), get(2), op(opMisc, miscMemoryFill, 0)))
	a.export("copy", a.fn("iii:", 0, get(0), get(1), get(2), op(opMisc, miscMemoryCopy, 0, 0)))
	a.export("_start", a.fn(":", 0))
	return a.bytes()
}

// TestPieces checks that fills and copies in pieces equal plain ones.
func TestPieces(t *testing.T) {
	const pages = 80
	memory := make([]byte, pages<<16)
	e := open(t, Options{})
	m, err := parse(mover(pages))
	if err != nil {
		t.Fatal(err)
	}
	m.guard()
	mod, err := e.fast.Instantiate(t.Context(), m.encode())
	if err != nil {
		t.Fatal(err)
	}
	defer mod.Close(t.Context())
	dice := rand.New(rand.NewPCG(1, 2))
	for i := range memory {
		memory[i] = byte(dice.Uint32())
	}
	mod.Memory().Write(0, memory)
	for range 60 {
		n := dice.IntN(5*piece/2) * dice.IntN(2)
		at, from := dice.IntN(len(memory)-n+1), dice.IntN(len(memory)-n+1)
		if dice.IntN(2) == 0 {
			n = []int{piece, piece + 1, 2 * piece, 0}[dice.IntN(4)]
			at, from = dice.IntN(len(memory)-n+1), dice.IntN(len(memory)-n+1)
		}
		if dice.IntN(4) == 0 {
			_, err = mod.ExportedFunction("fill").Call(t.Context(), uint64(at), uint64(n), uint64(n))
			for i := range n {
				memory[at+i] = byte(n)
			}
		} else {
			_, err = mod.ExportedFunction("copy").Call(t.Context(), uint64(at), uint64(from), uint64(n))
			copy(memory[at:at+n], memory[from:from+n])
		}
		if got, _ := mod.Memory().Read(0, uint32(len(memory))); err != nil || !bytes.Equal(got, memory) {
			t.Fatalf("%d bytes from %d to %d: %v, or wrong bytes", n, from, at, err)
		}
	}
	for _, c := range [][3]uint64{{1 << 20, 0, pages << 16}, {0, 1 << 20, pages << 16}, {0xffffff00, 0, 2 * piece}, {pages << 16, 0, 1}, {0, 0, 0xffffffff}} {
		if _, err := mod.ExportedFunction("copy").Call(t.Context(), c[0], c[1], c[2]); err == nil {
			t.Errorf("copied %d bytes from %d to %d out of bounds", c[2], c[1], c[0])
		}
	}
	for _, c := range [][3]uint64{{0, 0, 0}, {pages << 16, 0, 0}, {5, 3, 0}, {3, 5, 0}} {
		if _, err := mod.ExportedFunction("copy").Call(t.Context(), c[0], c[1], c[2]); err != nil {
			t.Errorf("copying 0 bytes from %d to %d: %v", c[1], c[0], err)
		}
	}
}

// gigabyte is a guest of 1 GiB that repeats an operation on all of it.
func gigabyte(name string, code func(size []byte) []byte) skilltest.Hostile {
	const pages = 1 << 14
	a := &asm{memory: cat([]byte{0}, leb(pages))}
	a.export("_start", a.fn(":", 1, repeat(100, code(cat(i32(pages<<16-1), get(0), op(opI32Add))))))
	p := evil(a.bytes())
	p.Limits.MemBytes = pages << 16
	return skilltest.Hostile{Name: name, Program: p, Ends: late}
}
