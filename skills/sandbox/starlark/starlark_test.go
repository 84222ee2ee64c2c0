package starlark

import (
	"strings"
	"testing"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/skilltest"
)

func program(code string) sandbox.Program {
	return sandbox.Program{Name: "guest", Code: []byte(code), Limits: modules.Effective{MemBytes: 8 << 20, TimeoutMS: 60_000, OutputBytes: 64 << 10}}
}

// body returns a tool whose function has these lines.
func body(lines ...string) string {
	return "def run(args):\n  " + strings.Join(lines, "\n  ") + "\n"
}

func TestSuite(t *testing.T) {
	skilltest.Suite{
		Executor: Executor{},
		Programs: map[string]sandbox.Program{
			skilltest.Echo:   program(body(`return {"echo": args}`)),
			skilltest.Loop:   program(body("while True:", "  pass")),
			skilltest.Hungry: program(body("x = []", "while True:", "  x.append([1, 2, 3])")),
			skilltest.Flood:  program(body(`return "x" * 100000`)),
			skilltest.Trap:   program(body("return [][1]")),
			skilltest.World:  program(body("return dir(json) + dir(math)")),
			skilltest.Read:   program(body(`return {"text": str(read("#img0"))}`)),
		},
		Absent: map[string]string{skilltest.Exit: "Starlark programs have no exit code"},
	}.Run(t)
}

// TestMeaning checks that rewriting preserves the meaning.
func TestMeaning(t *testing.T) {
	for _, c := range []struct{ code, want string }{
		{"return 7 // 2 + 7 % 4 * 2 - -3", `12`},
		{"x = [1]\n  y = x\n  x += [2]\n  x *= 2\n  return [x, y]", `[[1,2,1,2],[1,2]]`},
		{`d = {"a": 1}
  d["a"] += 41
  l = [1, 2, 3]
  l[-1] *= 5
  a, l[0] = 9, 8
  return [d, l, a]`, `[{"a":42},[8,2,15],9]`},
		{"return [i * j for i in range(4) for j in range(3) if i != j]", `[0,0,0,2,0,2,0,3,6]`},
		{"return {str(i): i << 2 for i in [1, 2]}", `{"1":4,"2":8}`},
		{`return "%s is %d, %r" % ("x", 3, ["y"])`, `"x is 3, [\"y\"]"`},
		{`return "{} {a}".format(1, a = 2) + ",".join(["p", "q"]) + "abc"[1:] + "abc"[::-1]`, `"1 2p,qbccba"`},
		{"def f(n):\n    return 1 if n < 2 else n * f(n - 1)\n  return str(f(30))", `"265252859812191058636308480000000"`},
		{"f = lambda a, *b, **c: [a, list(b), c]\n  return f(1, *[2, 3], **{\"z\": 4})", `[1,[2,3],{"z":4}]`},
		{"return [1 in [1], 2 not in {2: 3}, \"b\" in \"abc\", 3 and 4, 0 or 5, not 1, 1 == 1.0, [1] < [2]]", `[true,false,true,4,5,false,true,true]`},
		{"return [sorted([3, 1, 2], reverse = True), sorted([\"bb\", \"a\"], key = len), sum([1, 2.5]), max(3, 9), min([4, 2])]", `[[3,2,1],["a","bb"],3.5,9,2]`},
		{"s = set([1, 2])\n  s.add(3)\n  return [len(s | set([4])), sorted(list(s & set([1, 3])))]", `[4,[1,3]]`},
		{"return [getattr(\"abc\", \"upper\")(), getattr(1, \"no\", 7), hasattr(\"\", \"join\")]", `["ABC",7,true]`},
		{"d = {}\n  d.setdefault(\"k\", []).append(1)\n  d |= {\"m\": 2}\n  return [d, d.get(\"q\", 0), d.items()]", `[{"k":[1],"m":2},0,[["k",[1]],["m",2]]]`},
		{"return [math.floor(2.7), math.sqrt(16), json.decode(\"[1,2]\"), json.encode({\"a\": None})]", `[2,4.0,[1,2],"{\"a\":null}"]`},
		{"x = 0\n  for i in range(10):\n    if i == 3:\n      continue\n    if i == 6:\n      break\n    x += i\n  return x", `12`},
		{"a, (b, c) = 1, (2, 3)\n  return [list((a, b, c)), \"a-b-c\".split(\"-\"), list(\"né\".codepoints()), [x for x in enumerate([\"p\"])]]", `[[1,2,3],["a","b","c"],["n","é"],[[0,"p"]]]`},
		{"return [~5, +3, 1 << 10 >> 2, 6 & 3, 6 | 1, 6 ^ 2]", `[-6,3,256,2,7,4]`},
	} {
		g, err := Executor{}.Prepare(t.Context(), program(body(c.code)))
		if err != nil {
			t.Errorf("%s: %v", c.code, err)
			continue
		}
		reply, err := g.Call(t.Context(), sandbox.Call{Input: []byte(`{}`)})
		if err != nil || string(reply.Output) != c.want {
			t.Errorf("%s:\ngot %s, %v, want %s", c.code, reply.Output, err, c.want)
		}
	}
}

// TestRoom checks that a loop of 100,000 steps, typical of models, fits.
func TestRoom(t *testing.T) {
	p := program(body("x = 0", "for i in range(100000):", "  x += i % 7", "return x"))
	p.Limits.TimeoutMS = 60_000
	p.Limits.MemBytes = modules.DefaultMemory
	g, err := Executor{}.Prepare(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := g.Call(t.Context(), sandbox.Call{Input: []byte(`{}`)})
	if err != nil || string(reply.Output) != "299995" {
		t.Errorf("%s, %v", reply.Output, err)
	}
}

func corpus() []skilltest.Hostile {
	late, hungry, breaks, refused := []sandbox.Kind{sandbox.Time}, []sandbox.Kind{sandbox.Memory}, []sandbox.Kind{sandbox.Trap}, []sandbox.Kind{sandbox.Refused}
	var list []skilltest.Hostile
	add := func(name, code string, ends []sandbox.Kind) {
		p := program(code)
		list = append(list, skilltest.Hostile{Name: name, Program: p, Ends: ends})
	}
	add("loop", body("while True:", "  pass"), late)
	add("loop at the top", "while True:\n  pass\n", late)
	add("nested loops", body("for a in range(1000000):", "  for b in range(1000000):", "    for c in range(1000000):", "      pass"), late)
	add("endless recursion", body("return run(args)"), breaks)
	add("recursion through sorted", body("return sorted([1, 2], key = run)"), breaks)
	add("recursion through a lambda", "f = lambda g: g(g)\n"+body("return f(f)"), breaks)
	add("calls without end", "def f(n):\n  if n > 0:\n    f(n - 1)\n    f(n - 1)\n"+body("f(100)"), late)
	add("doubling a text", body(`x = "x"`, "while True:", "  x = x + x"), hungry)
	add("doubling a text in place", body(`x = "x"`, "while True:", "  x += x"), hungry)
	add("doubling a list", body("x = [1]", "while True:", "  x += x"), hungry)
	add("doubling an item", body("x = [[1]]", "while True:", "  x[0] += x[0]"), hungry)
	add("extending a list", body("x = [1]", "while True:", "  x.extend(x)"), hungry)
	add("appending", body("x = []", "while True:", "  x.append(x)"), hungry)
	add("a text a thousand million times", body(`return "x" * 1000000000`), hungry)
	add("a list as often", body("return [0] * 1000000000"), hungry)
	add("a list of a range", body("return list(range(1000000000))"), hungry)
	add("a comprehension", body("return [0 for i in range(1000000000)]"), hungry)
	add("a dict", body("return {i: i for i in range(1000000000)}"), hungry)
	add("replacing", body(`x = "xxxxxxxxxxxxxxxx"`, "while True:", `  x = x.replace("x", "xxxxxxxx")`), hungry)
	add("joining", body(`x = "xxxxxxxxxxxxxxxx"`, "while True:", "  x = x.join([x, x, x, x])"), hungry)
	add("formatting", body(`x = "xxxx"`, "while True:", `  x = "%s%s%s%s" % (x, x, x, x)`), hungry)
	add("formatting by name", body(`x = "xxxx"`, "while True:", `  x = "{a}{a}{a}{a}".format(a = x)`), hungry)
	add("numbers", body("x = 7", "while True:", "  x = x * x"), hungry)
	add("a shift of 512", body("return 1 << 512"), breaks)
	add("a negative shift", body("return 1 << -1"), breaks)
	add("shifting", body("x = 7", "while True:", "  x = x << 500"), hungry)
	add("printing a small tree that is huge", body("x = []", "for i in range(60):", "  x = [x, x]", "return str(x)"), hungry)
	add("returning it", body("x = []", "for i in range(60):", "  x = [x, x]", "return x"), hungry)
	add("comparing it", body("x = []", "y = []", "for i in range(9):", "  x, y = [x] * 100, [y] * 100", "return x == y"), hungry)
	add("hashing it", body("x = ()", "for i in range(60):", "  x = (x, x)", "return {x: 1}"), hungry)
	add("finding it", body("x = ()", "for i in range(60):", "  x = (x, x)", "d = {}", "return d.get(x)"), hungry)
	add("a set of it", body("x = ()", "for i in range(60):", "  x = (x, x)", "return len(set([x]))"), hungry)
	add("tuples by arguments", "def f(*a):\n  return a\n"+body("x = ()", "for i in range(60):", "  x = f(x, x)", "return {x: 1}"), hungry)
	add("values within values", body("x = []", "for i in range(100000):", "  x = [x]", "return x"), hungry)
	add("sorting for long", body("return sorted([(i * 7919) % 100003 for i in range(200000)] * 100)"), []sandbox.Kind{sandbox.Time, sandbox.Memory})
	add("slices kept", body("x = [0] * 100000", "y = []", "while True:", "  y.append(x[1:])"), hungry)
	add("lambdas kept", body("y = []", "while True:", "  y.append(lambda: y)"), hungry)
	add("negated numbers kept", body("x = 1 << 500", "for i in range(9):", "  x = x * x", "y = []", "while True:", "  y.append(-x)"), hungry)
	add("arguments kept", "def f(*a):\n  return a\n"+body("x = [0] * 100000", "y = []", "while True:", "  y.append(f(*x))"), hungry)
	add("json within json", body(`return json.decode("[" * 100000)`), breaks)
	add("a bare method", body("f = [].append", "x = []", "while True:", "  f(x)"), hungry)
	add("methods by getattr", body(`x = "x"`, "while True:", `  x = getattr(x, "join")([x, x, x])`), hungry)
	add("fail", body(`fail("no")`), breaks)
	add("a large result", body(`return "x" * 100000`), []sandbox.Kind{sandbox.Output})
	add("no function", "x = 1\n", []sandbox.Kind{sandbox.Result})
	add("no JSON", body("return run"), []sandbox.Kind{sandbox.Result})
	add("loading", "load(\"/etc/passwd\", \"x\")\n"+body("return 1"), refused)
	add("importing", "import os\n"+body("return 1"), refused)
	add("opening", body(`return open("/etc/passwd")`), refused)
	add("the hidden functions", body("return $binary(1, 2, 3)"), refused)
	add("the attributes of a function", body("return dir(run) + dir(len)"), []sandbox.Kind{""})
	add("an unknown asset", body(`return str(read("../../etc/passwd"))`), []sandbox.Kind{sandbox.Args})
	add("assigning a field", body(`x = "a"`, "x.y = 1"), refused)
	add("brackets", body("return "+strings.Repeat("(", 100000)+"1"+strings.Repeat(")", 100000)), refused)
	add("signs", body("return "+strings.Repeat("-", 50000)+"1"), refused)
	add("a file too long", "# "+strings.Repeat("x", maxSource)+"\n", refused)
	add("not text", "\x00\xff\xfe", []sandbox.Kind{sandbox.Refused, sandbox.Result})
	return list
}

func TestCorpus(t *testing.T) { skilltest.Corpus(t, Executor{}, modules.Allow{}, corpus()) }

func TestWarm(t *testing.T) {
	skilltest.Warm(t, Executor{}, program(body(`return {"echo": args}`)), "starlark")
}

// FuzzProgram compiles hostile programs and runs those that compile briefly
// with little memory.
func FuzzProgram(f *testing.F) {
	for _, h := range corpus() {
		if len(h.Program.Code) < 1000 {
			f.Add(string(h.Program.Code))
		}
	}
	f.Add(body("x = {1: [2, (3,)]}", "return [x[k] for k in x]"))
	f.Fuzz(func(t *testing.T, code string) {
		p := program(code)
		p.Limits.TimeoutMS, p.Limits.MemBytes = 20, 1<<20
		g, err := Executor{}.Prepare(t.Context(), p)
		if err == nil {
			_, err = g.Call(t.Context(), sandbox.Call{Input: []byte(`{"a":1}`)})
		}
		if err != nil && sandbox.KindOf(err) == "" {
			t.Fatalf("not a fault: %v", err)
		}
	})
}
