package algebra

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// randomExpr returns an expression of some depth in x and y.
func randomExpr(r *rand.Rand, depth int) string {
	if depth == 0 {
		switch r.IntN(5) {
		case 0:
			return "y"
		case 1, 2:
			return "x"
		case 3:
			return fmt.Sprint(r.IntN(9) + 1)
		}
		return fmt.Sprintf("(%d/%d)", r.IntN(9)+1, r.IntN(8)+2)
	}
	a, b := randomExpr(r, depth-1), randomExpr(r, depth-r.IntN(depth)-1)
	switch r.IntN(9) {
	case 0, 1:
		return "(" + a + "+" + b + ")"
	case 2:
		return "(" + a + "-" + b + ")"
	case 3, 4:
		return a + "*" + b
	case 5:
		return "(" + a + ")/(" + b + "+" + fmt.Sprint(r.IntN(5)+7) + ")"
	case 6:
		return "(" + a + ")^" + fmt.Sprint(r.IntN(3)+1)
	case 7:
		return "sqrt(" + a + "+" + fmt.Sprint(r.IntN(30)+20) + ")"
	}
	return []string{"sin", "cos", "exp", "log"}[r.IntN(4)] + "(" + b + ")"
}

// randomProduct returns a product of small polynomials in x.
func randomProduct(r *rand.Rand) string {
	var out []string
	for range r.IntN(3) + 1 {
		s := fmt.Sprintf("%d", r.IntN(19)-9)
		for k := 1; k <= r.IntN(3)+1; k++ {
			s += fmt.Sprintf(" + %d*x^%d", r.IntN(9)-4, k)
		}
		out = append(out, "("+s+")")
	}
	return strings.Join(out, "*")
}

type question struct {
	Expr   string `json:"expr"`
	Op     string `json:"op"`
	Result any    `json:"result"`
}

// TestSymPy has SymPy judge answers to random questions if MM_SYMPY names a
// Python that has it.
func TestSymPy(t *testing.T) {
	python := os.Getenv("MM_SYMPY")
	if python == "" {
		t.Skip("MM_SYMPY does not name a Python with SymPy")
	}
	r := rand.New(rand.NewPCG(12, 5))
	var list []question
	refused := 0
	ask := func(expr, op, as string) {
		result, err := Answer(&budget{steps: 50_000_000, bytes: 1 << 30}, expr, op)
		if err != nil {
			refused++
			t.Logf("%s %s: %v", op, expr, err)
			return
		}
		list = append(list, question{expr, as, result})
	}
	for range 150 {
		ask(randomExpr(r, 3), "simplify", "simplify")
	}
	for range 60 {
		ask(randomExpr(r, 2), "expand", "expand")
		ask(randomExpr(r, 2), "diff x", "diff")
		ask(randomProduct(r), "factor", "factor")
		ask(randomProduct(r)+" = "+fmt.Sprint(r.IntN(5)), "solve", "solve")
		ask(fmt.Sprintf("%d*x + %d*y = %d, %d*x - %d*y = %d", r.IntN(9)+1, r.IntN(9)+1, r.IntN(40), r.IntN(9)+1, r.IntN(9)+1, r.IntN(40)), "solve", "system")
	}
	var in bytes.Buffer
	for _, a := range list {
		line, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		in.Write(append(line, '\n'))
	}
	cmd := exec.Command(python, "testdata/sympy_check.py")
	cmd.Stdin = &in
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	verdicts := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(verdicts) != len(list) {
		t.Fatalf("%d verdicts on %d answers", len(verdicts), len(list))
	}
	right := 0
	for i, v := range verdicts {
		if v == "right" {
			right++
			continue
		}
		t.Errorf("%s: %s of %s gave %v", v, list[i].Op, list[i].Expr, list[i].Result)
	}
	t.Logf("%d of %d right, %d more refused", right, len(list), refused)
	if refused > len(list)/10 {
		t.Errorf("%d refused", refused)
	}
}
