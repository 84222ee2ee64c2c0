package starlark

import (
	"bytes"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"mm-abi.org/mm/skills/sandbox"
)

// peak returns the most memory that the process has used, in bytes.
func peak(t *testing.T) int64 {
	t.Helper()
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	_, rest, _ := bytes.Cut(data, []byte("VmHWM:"))
	line, _, _ := bytes.Cut(rest, []byte(" kB"))
	n, err := strconv.ParseInt(strings.TrimSpace(string(line)), 10, 64)
	if err != nil {
		t.Skip(err)
	}
	return n << 10
}

// A program ends at its limit of memory before the process has grown by much more,
// whatever it allocates.
func TestProcessMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: allocates in short mode")
	}
	const limit, slack = 96 << 20, 56 << 20 // garbage, and both tables of a set or dict that grows
	for name, code := range map[string]string{
		"lists":        body("x = []", "while True:", "  x.append([1, 2, 3])"),
		"numbers":      body("x = []", "while True:", "  x.append(1)"),
		"long numbers": body("x = []", "i = 1 << 300", "while True:", "  i += 1", "  x.append(i)"),
		"dict":         body("x = {}", "i = 0", "while True:", "  i += 1", "  x[str(i)] = i"),
		"dicts":        body("x = []", "while True:", "  x.append({1: 2})"),
		"set":          body("x = set()", "i = 0", "while True:", "  i += 1", "  x.add(i)"),
		"string":       body(`x = "ab"`, "while True:", "  x += x"),
		"strings":      body("x = []", `s = "a" * 1000`, "while True:", `  x.append(s + "b")`),
		"list":         body("return [i for i in range(1000000000)]"),
		"closures":     body("x = []", "while True:", "  x.append(lambda: x)"),
		"rest":         "def f(*a):\n  return a\n" + body("y = []", "while True:", "  y.append(f(1, 2, 3))"),
		"no rest":      "def f(*a):\n  return a\n" + body("y = []", "while True:", "  y.append(f())"),
		"keywords":     "def f(**k):\n  return k\n" + body("y = []", "while True:", "  y.append(f(a = 1))"),
		"no keywords":  "def f(**k):\n  return k\n" + body("y = []", "while True:", "  y.append(f())"),
		"lambda":       body("y = []", "f = lambda *a, **k: [a, k]", "while True:", "  y.append(f(1, b = 2))"),
		"star":         "def f(*a):\n  return a\n" + body("x = [1] * 100000", "y = []", "while True:", "  y.append(f(*x))"),
		"JSON objects": body(`s = "[" + "{}," * 10000 + "1]"`, "y = []", "while True:", "  y.append(json.decode(s))"),
		"JSON members": body(`s = "[" + "{\"a\":1}," * 10000 + "1]"`, "y = []", "while True:", "  y.append(json.decode(s))"),
		"words":        body(`s = "a," * 100000`, "y = []", "while True:", `  y.append(s.split(","))`),
		"slices":       body("s = [1] * 100000", "y = []", "while True:", "  y.append(s[1:])"),
		"sorted":       body("y = []", "while True:", "  y.append(sorted(range(100000)))"),
	} {
		p := program(code)
		p.Limits.MemBytes = limit
		g, err := Executor{}.Prepare(t.Context(), p)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		least := int64(math.MaxInt64) // a busy machine collects garbage late
		for range 5 {
			debug.FreeOSMemory()
			if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // resets the peak
				t.Skip(err)
			}
			before := peak(t)
			_, err = g.Call(t.Context(), sandbox.Call{Input: []byte(`{}`)})
			if least = min(least, int64(peak(t)-before)); least <= limit+slack {
				break
			}
		}
		if sandbox.KindOf(err) != sandbox.Memory || least > limit+slack {
			t.Errorf("%s: the process grew by %d MiB with a limit of %d MiB: %v", name, least>>20, limit>>20, err)
		}
	}
}
