package wasm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
)

// recursion calls itself without end.
func recursion(locals int64) []byte {
	a := &asm{}
	a.export("_start", a.fn(":", locals, call(0)))
	return a.bytes()
}

// mutual consists of two functions that call each other.
func mutual() []byte {
	a := &asm{}
	a.export("_start", a.fn(":", 0, call(1)))
	a.fn(":", 0, call(0))
	return a.bytes()
}

// indirect calls itself through a table.
func indirect() []byte {
	a := &asm{table: []byte{0x70, 0, 1}}
	a.export("_start", a.fn(":", 0, i32(0), op(opCallIndirect, 0, 0)))
	a.elem = cat([]byte{0}, i32(0), []byte{opEnd}, list(leb(0)))
	return a.bytes()
}

// frames keeps n numbers across each of its calls.
func frames(n int64) []byte {
	a := &asm{}
	var before []byte
	for i := range n {
		before = cat(before, load(4*i))
	}
	a.export("_start", a.fn(":", 0, before, call(0), repeat(int(n)-1, op(opI32Add)), op(opDrop)))
	return a.bytes()
}

// sum is a reactor that adds the numbers up to depth by recursion.
func sum(depth int64) []byte {
	a := &asm{}
	a.export("mm_alloc", a.fn("i:i", 0, i32(1024)))
	a.fn("i:i", 0, get(0), cat([]byte{opIf, typeI32}, get(0), get(0), i32(-1), op(opI32Add), call(1), op(opI32Add), []byte{opElse}, i32(0), op(opEnd)))
	a.export("mm_call", a.fn("ii:I", 0,
		i32(512), i32('0'), i32(depth), call(1), i32(int64(int32(depth*(depth+1)/2))), op(0x46), op(opI32Add), op(0x3a, 0, 0),
		i64(512<<32|1)))
	return a.bytes()
}

func TestDeep(t *testing.T) {
	e := open(t, Options{})
	guest := func(code []byte) (string, error) {
		g, err := e.Prepare(t.Context(), sandbox.Program{Name: "guest", Code: code, Limits: modules.Effective{MemBytes: 1 << 20, TimeoutMS: 60_000}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		reply, err := g.Call(t.Context(), sandbox.Call{Input: []byte("{}")})
		return string(reply.Output), err
	}
	for name, code := range map[string][]byte{
		"itself": recursion(0), "with locals": recursion(100), "two": mutual(), "through a table": indirect(),
		"large frames": frames(200), "sums": sum(1 << 20),
	} {
		if _, err := guest(code); sandbox.KindOf(err) != sandbox.Trap || !strings.Contains(err.Error(), "8 MiB deep") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if out, err := guest(sum(10_000)); out != "1" || err != nil {
		t.Errorf("calls 10,000 deep: %q, %v", out, err)
	}
	if _, err := guest(commands(i32(1), i32(0), op(0x6d, 0x1a))); err == nil || strings.Contains(err.Error(), "deep") {
		t.Errorf("another trap: %v", err)
	}
	if _, err := parse(named(leftName)); err == nil || !strings.Contains(err.Error(), "reserved") {
		t.Errorf("an export of the reserved name: %v", err)
	}
}

// named exports a function under a name.
func named(name string) []byte {
	a := &asm{}
	a.export(name, a.fn(":", 0))
	return a.bytes()
}

// TestReleasesDepth checks that a counted call returns what it took.
func TestReleasesDepth(t *testing.T) {
	a := &asm{}
	a.fn("i:", 0, get(0), when(get(0), i32(-1), op(opI32Add), call(0)))
	a.export("_start", a.fn(":", 1, i32(2000), set(0), op(opLoop, 0x40), i32(1000), call(0), get(0), i32(-1), op(opI32Add), op(0x22, 0, opBrIf, 0, opEnd)))
	e := open(t, Options{})
	g, err := e.Prepare(t.Context(), sandbox.Program{Name: "guest", Code: a.bytes(), Limits: modules.Effective{MemBytes: 1 << 20, TimeoutMS: 60_000}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if _, err := g.Call(t.Context(), sandbox.Call{}); err != nil {
		t.Error(err)
	}
}

func TestComponents(t *testing.T) {
	got := components([][]int{{1, 4}, {2}, {1, 3}, {3}, {}})
	if diff := cmp.Diff([][]int{{3}, {1, 2}, {4}, {0}}, got); diff != "" {
		t.Error(diff)
	}
}
