package wasm

import (
	"os"
	"syscall"
	"testing"
	"time"
)

func TestMeasure(t *testing.T) {
	if os.Getenv("MM_MEASURE") == "" {
		t.Skip()
	}
	e := open(t, Options{})
	if code, err := os.ReadFile("/dev/shm/sandbox/gog/gog.wasm"); err == nil {
		m, err := parse(code)
		if err != nil {
			t.Fatal(err)
		}
		most, bulk, size := 0, 0, 0
		for _, b := range m.bodies {
			n, k := 0, 0
			r := &reader{data: b.code, pos: b.at}
			for r.left() > 0 {
				switch in := r.instr(); {
				case in.op == opBlock, in.op == opLoop, in.op == opIf, in.op == opBrTable, in.op == opBrIf:
					n++
				case in.op == opMisc && in.sub >= 8:
					k++
				}
			}
			most, bulk, size = max(most, n), max(bulk, k), max(size, len(b.code))
		}
		t.Logf("go guest: %d bodies, most blocks %d, most bulk %d, largest %d", len(m.bodies), most, bulk, size)
		for _, guard := range []bool{false, true} {
			if guard {
				m.guard()
			}
			start := cpu()
			code := m.encode()
			_, err = e.fast.CompileModule(t.Context(), code)
			t.Logf("go guest guarded %v: %d bytes, compiled in %v, %v", guard, len(code), cpu()-start, err)
		}
	}
	fill := cat(i32(0), i32(7), cat(i32(65536), get(0), op(0x6a)), []byte{opMisc, miscMemoryFill, 0})
	for name, piece := range map[string][]byte{"loops": check, "ifs": cat(get(0), when(op(0x01))), "fills": fill, "adds": cat(i32(1), get(0), op(0x6a), set(0)), "brs": cat([]byte{opBlock, 0x40}, get(0), op(opBrIf, 0), op(opEnd))} {
		for _, n := range []int{100, 200, 400, 800} {
			code := largeFunc(repeat(n, piece), 1)
			start := cpu()
			_, err := e.fast.CompileModule(t.Context(), code)
			t.Logf("%s %d: %v %v", name, n, cpu()-start, err)
		}
	}
}

func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(0, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
