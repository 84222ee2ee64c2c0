package algebra

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/cmplx"
	"os"
	"reflect"
	"testing"
)

// golden is a row of testdata/sympy.jsonl, which testdata/sympy_golden.py
// describes.
type golden struct {
	Op, Expr, Kind string
	Want           json.RawMessage
	Names          []string
	At             [][]float64
	Terms, Factors int
}

// TestSymPyGolden compares answers with those of SymPy 1.14.
func TestSymPyGolden(t *testing.T) {
	f, err := os.Open("testdata/sympy.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows := 0
	for s := bufio.NewScanner(f); s.Scan(); rows++ {
		var g golden
		if err := json.Unmarshal(s.Bytes(), &g); err != nil {
			t.Fatal(err)
		}
		result, err := Answer(&budget{steps: 50_000_000, bytes: 1 << 30}, g.Expr, g.Op)
		if err == nil {
			err = g.check(result)
		}
		if err != nil {
			t.Errorf("%s of %s: %v", g.Op, g.Expr, err)
		}
	}
	if rows < 500 {
		t.Errorf("got %d rows, want 500 or more", rows)
	}
}

func (g golden) check(result any) error {
	switch g.Kind {
	case "value":
		text, err := json.Marshal(result)
		if err != nil {
			return err
		}
		var got, want any
		if err := json.Unmarshal(text, &got); err != nil {
			return err
		}
		if err := json.Unmarshal(g.Want, &want); err != nil {
			return err
		}
		if !reflect.DeepEqual(got, want) {
			return fmt.Errorf("got %s, want %s", text, g.Want)
		}
		return nil
	case "decimal":
		var want float64
		if err := json.Unmarshal(g.Want, &want); err != nil {
			return err
		}
		return near([]any{result}, nil, [][2]float64{{want, 0}}, 1e-13)
	case "points":
		return g.checkPoints(result)
	case "roots":
		var want [][2]float64
		if err := json.Unmarshal(g.Want, &want); err != nil {
			return err
		}
		list, ok := result.([]any)
		if !ok || len(list) != len(want) {
			return fmt.Errorf("got %v, want %d solutions: %v", result, len(want), want)
		}
		return near(list, g.env(0), want, 1e-9)
	case "system":
		return g.checkSystem(result)
	}
	return fmt.Errorf("unknown kind %q", g.Kind)
}

func (g golden) env(i int) map[string]complex128 {
	env := map[string]complex128{}
	for j, name := range g.Names {
		env[name] = complex(g.At[i][j], 0)
	}
	return env
}

func (g golden) checkPoints(result any) error {
	var want [][2]float64
	if err := json.Unmarshal(g.Want, &want); err != nil {
		return err
	}
	for i := range want {
		if err := near([]any{result}, g.env(i), want[i:i+1], 1e-9); err != nil {
			return fmt.Errorf("at %v: %w", g.At[i], err)
		}
	}
	c := &calc{m: &budget{steps: 1e9, bytes: 1 << 40}}
	list, _ := c.parse(fmt.Sprint(result), false)
	if e := c.build(list[0].left); g.Terms > 0 && e.kind == sum && len(e.args) != g.Terms || g.Terms > 1 && e.kind != sum {
		return fmt.Errorf("got %v, want %d terms", result, g.Terms)
	}
	if n := countFactors(list[0].left); g.Factors > 0 && n != g.Factors {
		return fmt.Errorf("got %v, want %d factors", result, g.Factors)
	}
	return nil
}

// countFactors counts the factors of a product that hold a name.
func countFactors(t *tree) int {
	switch t.op {
	case "num":
		return 0
	case "neg":
		return countFactors(t.args[0])
	case "*", "/":
		return countFactors(t.args[0]) + countFactors(t.args[1])
	case "^":
		if n := t.args[1]; n.op == "num" && n.num.IsInt() {
			return int(n.num.Num().Int64()) * countFactors(t.args[0])
		}
	}
	return 1
}

func (g golden) checkSystem(result any) error {
	var want [][][2]float64
	if err := json.Unmarshal(g.Want, &want); err != nil {
		return err
	}
	list, ok := result.([]any)
	if !ok {
		list = []any{result}
	}
	if len(list) != len(want) {
		return fmt.Errorf("got %v, want %d solutions", result, len(want))
	}
	for _, w := range want {
		found := false
		for _, o := range list {
			good := true
			for j, name := range g.Names {
				good = good && near([]any{o.(map[string]any)[name]}, nil, w[j:j+1], 1e-9) == nil
			}
			found = found || good
		}
		if !found {
			return fmt.Errorf("got %v, want %v among them", result, w)
		}
	}
	return nil
}

// near compares the values of list with want, in any order.
func near(list []any, env map[string]complex128, want [][2]float64, limit float64) error {
	var got []complex128
	for _, v := range list {
		c := &calc{m: &budget{steps: 1e9, bytes: 1 << 40}}
		var z complex128
		ok := false
		err := attempt(func() {
			clauses, _ := c.parse(fmt.Sprint(v), false)
			z, ok = decimal(c.build(clauses[0].left), env)
		})
		if err != nil || !ok {
			return fmt.Errorf("%v has no value: %v", v, err)
		}
		got = append(got, z)
	}
	for _, pair := range want {
		w := complex(pair[0], pair[1])
		found := false
		for i, z := range got {
			if cmplx.Abs(z-w) <= limit*max(1e-3, cmplx.Abs(w)) {
				got, found = append(got[:i:i], got[i+1:]...), true
				break
			}
		}
		if !found {
			return fmt.Errorf("got %v = %v, want %v", list, got, want)
		}
	}
	return nil
}
