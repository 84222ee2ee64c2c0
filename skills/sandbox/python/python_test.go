package python

import (
	"context"
	"io/fs"
	"os"
	"strings"
	"testing"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/starlark"
	"mm-abi.org/mm/skills/sandbox/wasm"
	"mm-abi.org/mm/skills/skilltest"
)

// packageFile returns the path of the npm package.
func packageFile(t testing.TB) string {
	t.Helper()
	path := os.Getenv("MM_MICROPYTHON")
	if path == "" {
		t.Skip("skipped: MM_MICROPYTHON does not name an archive of " + Package + " (npm pack writes one; make sandbox does)")
	}
	return path
}

// open returns an executor with MicroPython.
func open(t testing.TB, fallback sandbox.Executor) *Executor {
	t.Helper()
	path := packageFile(t)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	code, err := Take(f)
	if err != nil {
		t.Fatal(err)
	}
	return with(t, func(context.Context) ([]byte, error) { return code, nil }, fallback)
}

func with(t testing.TB, interpreter func(context.Context) ([]byte, error), fallback sandbox.Executor) *Executor {
	t.Helper()
	engine, err := wasm.New(context.Background(), wasm.Options{Cache: os.Getenv("MM_TEST_COMPILED")})
	if err != nil {
		t.Fatal(err)
	}
	e := New(Options{Interpreter: interpreter, Engine: engine, Fallback: fallback})
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func program(lines ...string) sandbox.Program {
	return sandbox.Program{
		Name: "guest", Code: []byte("def run(args):\n  " + strings.Join(lines, "\n  ") + "\n"),
		Limits: modules.Effective{MemBytes: 32 << 20, TimeoutMS: 60_000, OutputBytes: 64 << 10},
	}
}

func TestSuite(t *testing.T) {
	skilltest.Suite{
		Executor: open(t, nil),
		Programs: map[string]sandbox.Program{
			skilltest.Echo:   program(`return {"echo": args}`),
			skilltest.Loop:   program("try:", "  while True: pass", "except BaseException:", "  while True: pass"),
			skilltest.Hungry: program("x = []", "while True: x.append(bytearray(1 << 20))"),
			skilltest.Flood:  program(`return "x" * 100000`),
			skilltest.Trap:   program("return [][1]"),
			skilltest.Exit:   program("raise SystemExit(3)"),
			skilltest.World: program("import time, random, os, sys", `return {"clock": [time.time(), time.ticks_ms()], "random": [random.random(), random.getrandbits(30)],`,
				`  "env": [os.getenv("MM_SECRET") if hasattr(os, "getenv") else None, sys.argv]}`),
			skilltest.Read: program(`return {"text": open("/in/img0").read()}`),
		},
	}.Run(t)
}

// TestMeaning compares constructs of models' programs with CPython 3.11.
func TestMeaning(t *testing.T) {
	e := open(t, nil)
	for _, c := range []struct{ code, want string }{
		{"return 7 // 2 + 2 ** 10 - -3", `1030`},
		{"import math; return [math.factorial(20), round(math.sqrt(2), 6)]", `[2432902008176640000, 1.414214]`},
		{`return f"{3.14159:.2f} {args!r}"`, `"3.14 {}"`},
		{"return 2 ** 200", `1606938044258990275541962092341162602522202993782792835301376`},
		{"try: return 1 / 0\n  except ZeroDivisionError as e: return type(e).__name__", `"ZeroDivisionError"`},
		{"class A:\n    def __init__(self, x): self.x = x\n  return [a.x for a in map(A, range(3))]", `[0, 1, 2]`},
		{"def f(n): return n if n < 2 else f(n - 1) + f(n - 2)\n  return f(15)", `610`},
		{"return 1 < 2 < 3 and sum(x * x for x in range(10) if x % 2)", `165`},
		{`return {"né": ["x", None, True, 1.5]}`, `{"n\u00e9": ["x", null, true, 1.5]}`},
		{"import re, json; return [re.sub('a+', 'b', 'caat'), json.loads('[1,2]')]", `["cbt", [1, 2]]`},
		{"return sorted({3, 1, 2}, reverse=True)", `[3, 2, 1]`},
	} {
		g, err := e.Prepare(t.Context(), program(c.code))
		if err != nil {
			t.Fatal(err)
		}
		reply, err := g.Call(t.Context(), sandbox.Call{Input: []byte(`{}`)})
		got := strings.ReplaceAll(string(reply.Output), `é`, `\u00e9`)
		if err != nil || got != c.want {
			t.Errorf("%s:\ngot %s, %v, want %s; log %s", c.code, reply.Output, err, c.want, reply.Log)
		}
		if reply.Usage.By != "" {
			t.Errorf("%s was run by %s", c.code, reply.Usage.By)
		}
	}
}

// TestEnds covers the faults for the ways a program ends.
func TestEnds(t *testing.T) {
	e := open(t, nil)
	for name, c := range map[string]struct {
		code, says string
		kind       sandbox.Kind
	}{
		"no function":     {"x = 1", "run(args)", sandbox.Result},
		"no syntax":       {"def run(args) return 1", "SyntaxError", sandbox.Trap},
		"an exception":    {"def run(args): raise ValueError('no')", "ValueError: no", sandbox.Trap},
		"at the top":      {"raise KeyError('k')", "KeyError", sandbox.Trap},
		"exit 0":          {"def run(args): raise SystemExit", "without a result", sandbox.Result},
		"exit by a text":  {"def run(args): raise SystemExit('no')", "code 1", sandbox.Exit},
		"recursion":       {"def run(args): return run(args)", "RuntimeError", sandbox.Trap},
		"out of memory":   {"def run(args): return 'x' * 10 ** 9", "memory", sandbox.Memory},
		"JavaScript":      {"import js\ndef run(args): return js.fetch('http://127.0.0.1')", "", sandbox.Trap},
		"a zero in it":    {"def run(args):\x00 return 1", "", sandbox.Trap},
		"a module absent": {"import socket\ndef run(args): return 1", "ImportError", sandbox.Trap},
	} {
		p := program()
		p.Code = []byte(c.code)
		g, err := e.Prepare(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := g.Call(t.Context(), sandbox.Call{Input: []byte(`{}`)})
		if sandbox.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v (kind %q), want %q and %q; output %s", name, err, sandbox.KindOf(err), c.kind, c.says, reply.Output)
		}
	}
}

// TestSmall checks that the interpreter needs memory of its own.
func TestSmall(t *testing.T) {
	p := program("return 1")
	p.Limits.MemBytes = 64 << 10
	if _, err := open(t, nil).Prepare(t.Context(), p); sandbox.KindOf(err) != sandbox.Memory || !strings.Contains(err.Error(), "needs") {
		t.Errorf("%v", err)
	} else {
		t.Log(err)
	}
}

// TestNotInstalled checks that Starlark replaces a missing MicroPython, which is
// reported, and that other bytes in its place are refused.
func TestNotInstalled(t *testing.T) {
	absent := func(context.Context) ([]byte, error) { return nil, fs.ErrNotExist }
	e := with(t, absent, starlark.Executor{})
	g, err := e.Prepare(t.Context(), program(`return {"sum": args["a"] + 1}`))
	if err != nil {
		t.Fatal(err)
	}
	reply, err := g.Call(t.Context(), sandbox.Call{Input: []byte(`{"a":2}`)})
	if err != nil || string(reply.Output) != `{"sum":3}` || !strings.Contains(reply.Usage.By, "starlark") {
		t.Errorf("%s, %v, by %q", reply.Output, err, reply.Usage.By)
	}
	clock := program("return 1")
	clock.Allow.Clock = true
	for name, p := range map[string]sandbox.Program{"a class": program("class A: pass", "return 1"), "a clock": clock} {
		if _, err := e.Prepare(t.Context(), p); sandbox.KindOf(err) != sandbox.Refused || !strings.Contains(err.Error(), "mm skill install micropython") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := with(t, absent, nil).Prepare(t.Context(), program("return 1")); sandbox.KindOf(err) != sandbox.Refused {
		t.Errorf("no replacement: %v", err)
	}
	other := with(t, func(context.Context) ([]byte, error) { return []byte("\x00asm\x01\x00\x00\x00"), nil }, starlark.Executor{})
	if _, err := other.Prepare(t.Context(), program("return 1")); sandbox.KindOf(err) != sandbox.Refused || !strings.Contains(err.Error(), "install it again") {
		t.Errorf("other bytes: %v", err)
	}
}

func TestWarm(t *testing.T) {
	skilltest.Warm(t, open(t, nil), program(`return {"echo": args}`), "python")
}
