package wasm

import (
	"encoding/binary"
	"strings"
	"testing"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/skilltest"
)

// Allowed ends.
var (
	answers  = []sandbox.Kind{""}
	late     = []sandbox.Kind{sandbox.Time}
	quick    = []sandbox.Kind{sandbox.Time, ""} // a fast machine finishes in time
	breaks   = []sandbox.Kind{sandbox.Trap}
	refusals = []sandbox.Kind{sandbox.Refused}
	hungers  = []sandbox.Kind{sandbox.Memory}
	floods   = []sandbox.Kind{sandbox.Output}
	ends     = []sandbox.Kind{sandbox.Exit}
)

// chain consists of n functions without loops, each of which calls the next twice.
func chain(n int) []byte {
	a := &asm{}
	for i := range n {
		next := int64(i + 1)
		a.fn(":", 0, call(next), call(next))
	}
	a.fn(":", 0, i32(1), op(0x1a))
	a.export("_start", 0)
	return a.bytes()
}

// branches calls itself twice to the depth of its argument.
func branches(depth int64) []byte {
	a := &asm{}
	self := a.fn("i:", 0, get(0), when(get(0), i32(1), op(0x6b), call(0), get(0), i32(1), op(0x6b), call(0)))
	a.export("_start", a.fn(":", 0, i32(depth), call(self)))
	return a.bytes()
}

// pages is a module with a memory of n pages.
func pages(n int64, code ...[]byte) []byte {
	a := &asm{memory: cat([]byte{0}, leb(n))}
	a.export("_start", a.fn(":", 0, code...))
	return a.bytes()
}

// broken is a module whose section id contains data.
func broken(id byte, data ...[]byte) []byte { return cat(magic, sec(id, cat(data...))) }

var most = []byte{0xff, 0xff, 0xff, 0xff, 0x0f} // 2^32-1

func manyPieces() []byte {
	a := &asm{memory: cat([]byte{0}, leb(40))}
	w := a.wasi("fd_write", "iiii:i")
	// 100,000 pieces in one call, each all of the memory.
	a.export("_start", a.fn(":", 1, loop(
		get(0), i32(8), op(0x6c), i32(1024), op(0x6a), i32(0), op(0x36, 2, 0),
		get(0), i32(8), op(0x6c), i32(1028), op(0x6a), i32(1<<20), op(0x36, 2, 0),
		get(0), i32(1), op(0x6a), set(0),
		get(0), i32(100000), op(0x46), when(i32(1), i32(1024), i32(100000), i32(48), call(w), op(0x1a)))))
	return a.bytes()
}

// calls tries calls for an escape: each must fail.
func calls(names ...string) []byte {
	sigs := map[string]string{
		"path_open": pathOpen, "path_create_directory": "iii:i", "path_filestat_get": "iiiii:i", "path_link": "iiiiiii:i", "path_readlink": "iiiiii:i",
		"path_remove_directory": "iii:i", "path_rename": "iiiiii:i", "path_symlink": "iiiii:i", "path_unlink_file": "iii:i", "fd_readdir": "iiiIi:i",
		"fd_prestat_get": "ii:i", "fd_prestat_dir_name": "iii:i", "sock_accept": "iii:i", "sock_recv": "iiiiii:i", "sock_send": "iiiii:i", "sock_shutdown": "ii:i",
		"proc_raise": "i:i", "fd_allocate": "iII:i", "fd_pwrite": "iiiIi:i", "fd_filestat_set_size": "iI:i", "path_filestat_set_times": "iiiiIIi:i", "fd_sync": "i:i",
	}
	return tries(func(a *asm) [][]byte {
		a.put(600, "../../../../etc/passwd")
		a.put(640, "/etc/passwd")
		var out [][]byte
		var fns []int64
		for _, n := range names {
			fns = append(fns, a.wasi(n, sigs[n]))
		}
		for i, n := range names {
			for _, fd := range []int64{3, 4, 5} {
				for _, path := range [][2]int64{{600, 22}, {640, 11}, {641, 10}} {
					out = append(out, cat(guess(sigs[n], fd, path), call(fns[i])))
				}
			}
		}
		return out
	})
}

// guess supplies the parameters of a call: a descriptor, then paths.
func guess(sig string, fd int64, path [2]int64) []byte {
	var out []byte
	params, _, _ := strings.Cut(sig, ":")
	if sig == pathOpen {
		return cat(i32(fd), i32(1), i32(path[0]), i32(path[1]), i32(0), i64(2), i64(2), i32(0), i32(900))
	}
	words := []int64{fd, path[0], path[1], fd, path[0], path[1], 900}
	for i, c := range params {
		if c == 'I' {
			out = cat(out, i64(1))
		} else {
			out = cat(out, i32(words[min(i, len(words)-1)]))
		}
	}
	return out
}

func corpus() []skilltest.Hostile {
	big := int64(1 << 16 * 60)
	fill := cat(i32(0), i32(7), i32(big), get(0), op(0x6a, opMisc, miscMemoryFill, 0))
	copies := cat(i32(0), i32(65536), i32(big-65536), get(0), op(0x6a, opMisc, miscMemoryCopy, 0, 0))
	out := []skilltest.Hostile{
		{Name: "loop", Program: evil(commands(loop())), Ends: late},
		{Name: "loop in a start function", Program: evil(func() []byte {
			a := &asm{}
			a.start = sec(secStart, leb(a.fn(":", 0, loop())))
			a.export("_start", a.fn(":", 0))
			return a.bytes()
		}()), Ends: late},
		{Name: "loop in _initialize", Program: evil(func() []byte {
			a := &asm{}
			a.export("_initialize", a.fn(":", 0, loop()))
			a.export("mm_alloc", a.fn("i:i", 0, i32(0)))
			a.export("mm_call", a.fn("ii:I", 0, i64(0)))
			return a.bytes()
		}()), Ends: late},
		{Name: "calls without a loop", Program: evil(branches(60)), Ends: late},
		{Name: "calls without a cycle", Program: evil(chain(60)), Ends: late},
		{Name: "a thousand fills of all memory", Program: evil(largeFunc(repeat(3000, fill), 60)), Ends: quick},
		{Name: "a thousand copies of all memory", Program: evil(largeFunc(repeat(3000, copies), 60)), Ends: quick},
		{Name: "endless recursion", Program: evil(recursion(100)), Ends: breaks},
		{Name: "endless recursion of small frames", Program: evil(recursion(0)), Ends: breaks},
		{Name: "endless recursion of two", Program: evil(mutual()), Ends: breaks},
		{Name: "endless recursion through a table", Program: evil(indirect()), Ends: breaks},
		{Name: "endless recursion of large frames", Program: evil(frames(200)), Ends: breaks},
		gigabyte("a fill of a gigabyte", func(size []byte) []byte {
			return cat(i32(0), i32(7), size, op(opMisc, miscMemoryFill, 0))
		}),
		gigabyte("a copy of a gigabyte", func(size []byte) []byte {
			return cat(i32(1), i32(0), size, op(opMisc, miscMemoryCopy, 0, 0))
		}),
		{Name: "memory page by page", Program: evil(grow()), Ends: hungers},
		{Name: "memory in one piece", Program: evil(commands(i32(60000), op(0x40, 0), i32(-1), op(0x46), when(op(0)))), Ends: hungers},
		{Name: "memory refused, then a loop", Program: evil(commands(i32(60000), op(0x40, 0), op(0x1a), loop())), Ends: hungers, Endless: true},
		{Name: "giant memory at the start", Program: evil(pages(65536)), Ends: hungers},
		{Name: "memory over the limit by a page", Program: evil(pages(65)), Ends: hungers},
		{Name: "flood", Program: evil(flood(1)), Ends: floods},
		{Name: "flood of the log", Program: evil(flood(2)), Ends: floods},
		{Name: "a hundred thousand pieces in a call", Program: evil(manyPieces()), Ends: floods},
		{Name: "unreachable", Program: evil(commands(op(0))), Ends: breaks},
		{Name: "division by zero", Program: evil(commands(i32(1), i32(0), op(0x6d, 0x1a))), Ends: breaks},
		{Name: "memory out of bounds", Program: evil(commands(i32(-4), op(0x28, 2, 0, 0x1a))), Ends: breaks},
		{Name: "an empty table", Program: evil(func() []byte {
			a := &asm{table: []byte{0x70, 0, 1}}
			a.export("_start", a.fn(":", 0, i32(0), op(opCallIndirect, 0, 0)))
			return a.bytes()
		}()), Ends: breaks},
		{Name: "data out of bounds", Program: evil(func() []byte {
			a := &asm{}
			a.put(1<<20, "x")
			a.export("_start", a.fn(":", 0))
			return a.bytes()
		}()), Ends: breaks},
		{Name: "exit", Program: evil(exits(3)), Ends: ends},
		{Name: "exit as if cancelled", Program: evil(exits(-1)), Ends: ends},
		{Name: "exit as if late", Program: evil(exits(-0x10000001)), Ends: ends},
		{Name: "sleep", Program: evil(func() []byte {
			a := &asm{}
			p := a.wasi("poll_oneoff", "iiii:i")
			a.export("_start", a.fn(":", 0, store(1024+16, i32(1)), cat(i32(1024+24), i64(3600e9), op(0x37, 3, 0)), loop(i32(1024), i32(2048), i32(1), i32(4096), call(p), op(0x1a))))
			return a.bytes()
		}()), Ends: late},
		{Name: "a long sleep with a clock", Program: checkAllow(evil(func() []byte {
			a := &asm{}
			p := a.wasi("poll_oneoff", "iiii:i")
			a.export("_start", a.fn(":", 0, store(1024+16, i32(1)), cat(i32(1024+24), i64(3600e9), op(0x37, 3, 0)), i32(1024), i32(2048), i32(1), i32(4096), call(p), op(0x1a)))
			return a.bytes()
		}()), modules.Allow{Clock: true}), Ends: late},
		{Name: "a wait without an event", Program: evil(func() []byte {
			a := &asm{}
			p := a.wasi("poll_oneoff", "iiii:i")
			a.export("_start", a.fn(":", 0, store(1024+8, i32(1)), loop(i32(1024), i32(2048), i32(1), i32(4096), call(p), op(0x1a))))
			return a.bytes()
		}()), Ends: late},
		{Name: "random bytes without end", Program: evil(func() []byte {
			a := &asm{memory: cat([]byte{0}, leb(60))}
			r := a.wasi("random_get", "ii:i")
			a.export("_start", a.fn(":", 0, loop(i32(0), i32(60*65536), call(r), op(0x1a))))
			return a.bytes()
		}()), Ends: late},
		{Name: "the environment", Program: evil(tries(func(a *asm) [][]byte {
			e := a.wasi("environ_sizes_get", "ii:i")
			return [][]byte{cat(i32(32), i32(36), call(e), op(0x1a), load(32), op(0x45))}
		})), Ends: answers, Answer: `"no"`},
		{Name: "files by every call", Program: evil(calls("path_open", "path_filestat_get", "path_readlink", "fd_readdir", "fd_prestat_get", "fd_prestat_dir_name")), Ends: answers, Answer: `"no"`},
		{Name: "writing by every call", Program: evil(calls("path_create_directory", "path_link", "path_remove_directory", "path_rename", "path_symlink", "path_unlink_file", "fd_allocate", "fd_pwrite", "fd_filestat_set_size", "path_filestat_set_times")), Ends: answers, Answer: `"no"`},
		{Name: "out of the folder of assets", Program: evil(calls("path_open", "path_filestat_get", "path_readlink")), Assets: picture(), Ends: answers, Answer: `"no"`},
		{Name: "changing the folder of assets", Program: evil(calls("path_create_directory", "path_link", "path_remove_directory", "path_rename", "path_symlink", "path_unlink_file", "path_filestat_set_times")), Assets: picture(), Ends: answers, Answer: `"no"`},
		{Name: "sockets by every call", Program: evil(calls("sock_accept", "sock_recv", "sock_send", "sock_shutdown")), Ends: answers, Answer: `"no"`},
		{Name: "signals", Program: evil(calls("proc_raise")), Ends: answers, Answer: `"no"`},
		{Name: "network without permission", Program: evil(fetches(100)), Ends: refusals},
		{Name: "an import of the system", Program: evil(func() []byte {
			a := &asm{}
			a.imp("env", "system", "i:i")
			a.export("_start", a.fn(":", 0))
			return a.bytes()
		}()), Ends: refusals},
		{Name: "an unknown import of WASI", Program: evil(func() []byte {
			a := &asm{}
			a.wasi("thread_spawn", "i:i")
			a.export("_start", a.fn(":", 0))
			return a.bytes()
		}()), Ends: refusals},
		{Name: "an import of the wrong type", Program: evil(func() []byte {
			a := &asm{}
			a.wasi("proc_exit", "iiii:i")
			a.export("_start", a.fn(":", 0))
			return a.bytes()
		}()), Ends: []sandbox.Kind{sandbox.Refused, sandbox.Trap}},
		{Name: "shared memory", Program: evil(func() []byte {
			a := &asm{memory: []byte{3, 1, 2}}
			a.export("_start", a.fn(":", 0))
			return a.bytes()
		}()), Ends: refusals},
		{Name: "memory of 64 bits", Program: evil(func() []byte {
			a := &asm{memory: []byte{4, 1}}
			a.export("_start", a.fn(":", 0))
			return a.bytes()
		}()), Ends: refusals},
		{Name: "atomic waiting", Program: evil(commands(i32(0), i32(0), i64(-1), op(0xfe, 1, 2, 0, 0x1a))), Ends: refusals},
		{Name: "exceptions", Program: evil(commands(op(0x08, 0))), Ends: refusals},
		{Name: "growing a table", Program: evil(func() []byte {
			a := &asm{table: []byte{0x70, 0, 1}}
			a.export("_start", a.fn(":", 0, loop(op(0xd0, 0x70), i32(1<<20), op(opMisc, miscTableGrow, 0, 0x1a))))
			return a.bytes()
		}()), Ends: refusals},
		{Name: "a reactor with an invalid address", Program: evil(reactors(i32(-8), i64(0))), Ends: []sandbox.Kind{sandbox.Result}},
		{Name: "a reactor with an endless result", Program: evil(reactors(i32(16), i64(0xffffffff))), Ends: []sandbox.Kind{sandbox.Result}},
		{Name: "a reactor with a large result", Program: evil(reactors(i32(16), i64(100000))), Ends: floods},
	}
	for name, code := range map[string][]byte{
		"a section of 4 GiB":        cat(magic, []byte{secType}, most, []byte{0}),
		"4 G types":                 broken(secType, most),
		"4 G parameters":            broken(secType, leb(1), []byte{0x60}, most),
		"4 G imports":               broken(secImport, most),
		"a name of 4 GiB":           broken(secImport, leb(1), most, []byte("abcdef")),
		"4 G functions":             cat(broken(secType, list(cat([]byte{0x60}, leb(0), leb(0)))), sec(secFunction, most)),
		"4 G tables":                broken(secTable, most),
		"a table of 4 G entries":    broken(secTable, leb(1), []byte{0x70, 0}, most),
		"4 G globals":               broken(secGlobal, most),
		"4 G exports":               broken(secExport, most),
		"4 G elements":              broken(secElement, leb(1), leb(0), i32(0), []byte{opEnd}, most),
		"4 G segments":              broken(secData, most),
		"4 GiB of data":             broken(secData, leb(1), leb(1), most),
		"4 G bodies":                broken(secCode, most),
		"a body of 4 GiB":           broken(secCode, leb(1), most, []byte{0}),
		"4 G locals":                single(cat(leb(1), most, []byte{0x7f, opEnd})),
		"4 G groups of locals":      single(cat(most, []byte{opEnd})),
		"4 G targets":               single(cat(leb(0), i32(0), []byte{opBrTable}, most, []byte{opEnd})),
		"a million blocks":          single(cat(leb(0), repeat(1<<20, op(opBlock, 0x40)), repeat(1<<20, op(opEnd)), op(opEnd))),
		"a number that never ends":  cat(magic, []byte{secType}, repeat(100, op(0x80))),
		"sections in wrong order":   cat(magic, sec(secCode, leb(0)), sec(secType, leb(0))),
		"a section twice":           cat(magic, sec(secType, leb(0)), sec(secType, leb(0))),
		"an unknown section":        cat(magic, sec(99, leb(0))),
		"more functions than code":  cat(broken(secType, list(cat([]byte{0x60}, leb(0), leb(0)))), sec(secFunction, list(leb(0), leb(0))), sec(secCode, list(cat(leb(2), leb(0), []byte{opEnd})))),
		"half of a module":          echo()[:len(echo())/2],
		"not a module":              []byte("#!/bin/sh\nrm -rf /\n"),
		"version 2":                 cat(magic[:4], []byte{2, 0, 0, 0}, echo()[8:]),
		"an empty file":             {},
		"bytes behind the end":      cat(echo(), []byte{1, 2, 3}),
		"an invalid type":           broken(secType, leb(1), []byte{0x5e, 0, 0}),
		"no memory that it exports": cat(magic, sec(secType, list(cat([]byte{0x60}, leb(0), leb(0))))),
	} {
		out = append(out, skilltest.Hostile{Name: name, Program: evil(code), Ends: refusals})
	}
	return out
}

// single is a module of one function.
func single(body []byte) []byte {
	return cat(broken(secType, list(cat([]byte{0x60}, leb(0), leb(0)))), sec(secFunction, list(leb(0))), sec(secCode, cat(leb(1), binary.AppendUvarint(nil, uint64(len(body))), body)))
}

func largeFunc(code []byte, n int64) []byte {
	a := &asm{memory: cat([]byte{0}, leb(n))}
	a.export("_start", a.fn(":", 1, code))
	return a.bytes()
}

func reactors(at, result []byte) []byte {
	a := &asm{}
	a.export("mm_alloc", a.fn("i:i", 0, at))
	a.export("mm_call", a.fn("ii:I", 0, result))
	return a.bytes()
}

func picture() []sandbox.Asset {
	return []sandbox.Asset{{Name: "img0", Data: strings.NewReader("picture"), Size: 7}}
}

func evil(code []byte) sandbox.Program {
	return sandbox.Program{Code: code, Limits: modules.Effective{MemBytes: 4 << 20}}
}

func checkAllow(p sandbox.Program, a modules.Allow) sandbox.Program {
	p.Allow = a
	return p
}

func TestCorpus(t *testing.T) { skilltest.Corpus(t, open(t, Options{}), modules.Allow{}, corpus()) }
