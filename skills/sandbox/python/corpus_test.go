package python

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/skilltest"
)

// escape tries a forbidden operation and returns whether it failed.
func escape(lines ...string) sandbox.Program {
	return program(append(append([]string{"try:"}, indented(lines)...), "  return 'yes'", "except Exception:", "  return 'no'")...)
}

func indented(lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = "  " + l
	}
	return out
}

// corpus returns hostile programs. Damage to the interpreter stays in an
// instance that ends with the call.
func corpus(secret string) []skilltest.Hostile {
	late, hungry, breaks := []sandbox.Kind{sandbox.Time}, []sandbox.Kind{sandbox.Memory}, []sandbox.Kind{sandbox.Trap}
	floods, ends := []sandbox.Kind{sandbox.Output}, []sandbox.Kind{sandbox.Exit}
	tires := []sandbox.Kind{sandbox.Time, sandbox.Memory, sandbox.Trap}
	wrecks := []sandbox.Kind{"", sandbox.Time, sandbox.Memory, sandbox.Trap, sandbox.Result, sandbox.Output}
	var list []skilltest.Hostile
	add := func(name string, p sandbox.Program, kinds []sandbox.Kind) {
		list = append(list, skilltest.Hostile{Name: name, Program: p, Ends: kinds})
	}
	holds := func(name string, lines ...string) {
		list = append(list, skilltest.Hostile{Name: name, Program: escape(lines...), Ends: []sandbox.Kind{"", sandbox.Trap}, Answer: `"no"`})
	}
	raw := func(code string) sandbox.Program {
		p := program()
		p.Code = []byte(code)
		return p
	}
	add("a loop", program("while True: pass"), late)
	add("a loop at the top", raw("while True: pass"), late)
	add("a loop that catches everything", program("while True:", "  try:", "    while True: pass", "  except BaseException: pass"), late)
	add("a finally that goes on", program("try:", "  while True: pass", "finally:", "  while True: pass"), late)
	add("a generator without end", program("def g():", "  while True: yield 1", "return sum(g())"), late)
	add("calls without end", program("def f(n):", "  if n: f(n - 1); f(n - 1)", "f(60)"), late)
	add("sleeping", program("import time", "time.sleep(100000)"), late)
	add("sorting with a key that loops", program("def k(x):", "  while True: pass", "return sorted([2, 1], key=k)"), late)
	add("a finalizer that loops", program("import gc", "class A:", "  def __del__(self):", "    while True: pass", "while True:", "  A()", "  gc.collect()"), late)
	add("a power of powers", program("return str(9 ** 9 ** 7)"), tires)
	add("a number that grows", program("x = 7", "while True: x = x * x"), tires)
	add("a pattern that tries all ways", program("import re", "return bool(re.match('(a*)*b', 'a' * 40))"), tires)
	add("a range without end", program("return len(list(range(10 ** 12)))"), tires)
	add("recursion", program("return run(args)"), breaks)
	add("recursion that is caught", program("try: return run(args)", "except RuntimeError: return run(args)"), tires)
	add("recursion through comparison", program("class A:", "  def __eq__(self, o): return self == o", "return A() == A()"), tires)
	add("recursion through text", program("class A:", "  def __repr__(self): return repr(self)", "return repr(A())"), tires)
	add("a list that holds itself, printed", program("x = []", "x.append(x)", "return x"), append(tires, sandbox.Result, sandbox.Output))
	add("brackets within brackets", raw("def run(args): return "+strings.Repeat("(", 20000)+"1"+strings.Repeat(")", 20000)), tires)
	add("JSON within JSON", program("import json", "return json.loads('[' * 100000 + ']' * 100000)"), tires)
	add("a text as long as memory", program("return 'x' * 10 ** 9"), hungry)
	add("texts kept", program("x = []", "while True: x.append('x' * 100000)"), append(hungry, sandbox.Time)) // each allocation scans all of them
	add("doubling a text", program("x = 'x'", "while True: x = x + x"), hungry)
	add("doubling a list", program("x = [1]", "while True: x += x"), hungry)
	add("bytes without end", program("x = bytearray()", "while True: x.extend(bytes(1 << 16))"), append(hungry, sandbox.Time))
	add("memory that is asked for again", program("x = []", "while True:", "  try: x.append(bytearray(1 << 20))", "  except MemoryError: pass"), tires)
	add("a large result", program("return 'x' * 100000"), floods)
	add("printing without end", program("while True: print('x' * 1000)"), floods)
	add("the end by exit", program("import sys", "sys.exit(7)"), ends)
	add("the end by a fault of the keyboard", program("raise KeyboardInterrupt"), breaks)
	add("no function", raw("run = None"), breaks)
	add("a result that is no JSON", program("return object()"), append(breaks, "", sandbox.Result))
	holds("a file", "open('/etc/passwd').read()")
	holds("a file of ours", "open("+quoted(secret)+").read()")
	holds("a way up", "open('/in/../../../../etc/passwd').read()")
	holds("writing", "open('/in/x', 'w').write('x')")
	holds("writing elsewhere", "open('/tmp/x', 'w').write('x')")
	holds("descriptors", "open(0).read() or 1 // 0")
	holds("a folder", "import os", "os.listdir('/')")
	holds("making a folder", "import os", "os.mkdir('/x')")
	holds("removing", "import os", "os.remove('/etc/passwd')")
	holds("renaming", "import os", "os.rename('/etc/passwd', '/x')")
	holds("asking for a file", "import os", "os.stat('/etc/passwd')")
	holds("changing the folder", "import os", "os.chdir('/etc')")
	holds("mounting", "import os", "os.mount(os.VfsPosix('/etc'), '/m')", "open('/m/passwd').read()")
	holds("running a program", "import os", "os.system('id')")
	holds("a socket", "import socket", "socket.socket()")
	holds("variables", "import os", "os.getenv('MM_CORPUS') or 1 // 0")
	holds("a library of C", "import ffi", "ffi.open('libc.so.6')")
	add("JavaScript", program("import js", "return js.process.env.MM_CORPUS"), breaks)
	add("fetching by JavaScript", program("import js", "return js.fetch('http://127.0.0.1')"), breaks)
	add("evaluating JavaScript", program("import js", "return js.eval('1')"), breaks)
	add("a new thing of JavaScript", program("import js", "return js.Object.new()"), breaks)
	add("waiting for JavaScript", program("import asyncio", "async def f(): await asyncio.sleep(1000)", "asyncio.run(f())"), wrecks)
	add("writing over the interpreter", program("import uctypes", "m = uctypes.bytearray_at(0, 1 << 22)", "for i in range(0, 1 << 22, 4): m[i] = 255"), wrecks)
	add("reading beyond memory", program("import uctypes", "return str(uctypes.bytearray_at(0x7ffff000, 1 << 20)[0])"), wrecks)
	add("the router's own names", raw("__mm_in = 7\n__mm_out = '{}'\ndef run(args): return 1\n"), []sandbox.Kind{sandbox.Trap})
	add("another json", raw("import sys, json\nclass J: pass\nj = J()\nj.loads = lambda x: x\nj.dumps = lambda x: 'x' * 10 ** 7\nsys.modules['json'] = j\ndef run(args): return 1\n"), wrecks)
	return list
}

func quoted(s string) string { return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'" }

func TestCorpus(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(skilltest.Secret), 0o600); err != nil {
		t.Fatal(err)
	}
	skilltest.Corpus(t, open(t, nil), modules.Allow{}, corpus(secret))
}
