package starlark

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"mm-abi.org/mm/skills/sandbox"
)

// TestLimits holds each limit on either side.
func TestLimits(t *testing.T) {
	prepare := func(p sandbox.Program) error { _, err := Executor{}.Prepare(t.Context(), p); return err }
	run := func(code string) error {
		p := program(code)
		p.Limits.MemBytes = 64 << 20
		g, err := Executor{}.Prepare(t.Context(), p)
		if err != nil {
			return err
		}
		_, err = g.Call(t.Context(), sandbox.Call{Input: []byte(`{}`)})
		return err
	}
	for _, c := range []struct {
		name  string
		limit int
		try   func(n int) error
	}{
		{"maxSource", maxSource, func(n int) error { return prepare(program(strings.Repeat("#", n))) }},
		{"maxNesting", maxNesting, func(n int) error {
			return prepare(program(`x = "` + strings.Repeat("[", n) + `"`)) // the parser has a lower limit
		}},
		{"maxMemory", maxMemory, func(n int) error { p := program(""); p.Limits.MemBytes = int64(n); return prepare(p) }},
		// run and f's first call are on the stack at depth 2, and $enter above them.
		{"maxDepth", maxDepth, func(n int) error {
			return run("def f(n):\n  return 0 if n == 0 else f(n - 1)\n" + body(fmt.Sprintf("return f(%d)", n-3)))
		}},
		{"maxLevel of values", maxLevel, func(n int) error {
			m := &meter{ctx: context.Background(), limit: 1 << 30}
			var v starlark.Value = starlark.Tuple{}
			for range n {
				v = starlark.Tuple{v}
			}
			_, err := m.size(v)
			return err
		}},
		{"maxLevel of JSON", maxLevel, func(n int) error {
			return priceDecode(&meter{ctx: context.Background(), limit: 1 << 30}, nil, starlark.Tuple{starlark.String(strings.Repeat("[", n))}, nil)
		}},
	} {
		if err := c.try(c.limit); err != nil {
			t.Errorf("%s at the limit: %v", c.name, err)
		}
		if err := c.try(c.limit + 1); err == nil {
			t.Errorf("%s: %d accepted", c.name, c.limit+1)
		}
	}
	for bits, want := range map[uint]bool{maxBits / 2: true, maxBits/2 + 1: false} {
		m := &meter{ctx: context.Background(), limit: 1 << 30}
		x := starlark.MakeInt(1).Lsh(bits - 1)
		if _, err := m.binary(syntax.STAR, x, x); (err == nil) != want {
			t.Errorf("a product of numbers of %d bits: %v", bits, err)
		}
	}
	for before, want := range map[uint64]bool{maxSteps - 1000: true, maxSteps - 1: false} {
		thread := newThread("t", io.Discard)
		thread.Steps = before
		if _, err := starlark.ExecFileOptions(options, thread, "t", "x = 1", nil); (err == nil) != want {
			t.Errorf("from step %d: %v", before, err)
		}
	}
}

// TestCharges covers values that take more memory than their elements: with a
// limit of 8 MiB, the first number of them fits and the second does not.
func TestCharges(t *testing.T) {
	for value, n := range map[string][2]int{
		"1": {150_000, 200_000}, "i + (1 << 40)": {60_000, 100_000}, "range(5)": {60_000, 100_000},
		"y.append": {20_000, 40_000}, "{}": {10_000, 20_000}, "set()": {10_000, 20_000},
	} {
		for i, want := range []sandbox.Kind{"", sandbox.Memory} {
			g, err := Executor{}.Prepare(t.Context(), program(body("y = []", fmt.Sprintf("for i in range(%d):", n[i]), "  y.append("+value+")", "return 0")))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := g.Call(t.Context(), sandbox.Call{Input: []byte(`{}`)}); sandbox.KindOf(err) != want {
				t.Errorf("%d of %s: got %v, want kind %q", n[i], value, err, want)
			}
		}
	}
}
