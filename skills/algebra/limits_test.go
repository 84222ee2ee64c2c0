package algebra

import (
	"fmt"
	"math/big"
	"strings"
	"testing"
)

// TestLimits holds each limit on either side: an argument at the limit is
// answered, one more is refused or left as it is.
func TestLimits(t *testing.T) {
	letters := strings.Split("a b c d f g h j k l m n o p q r s t u v w x y z A B", " ")
	equations := func(n int) string {
		var list []string
		for _, l := range letters[:n] {
			list = append(list, l+"=1")
		}
		return strings.Join(list, ",")
	}
	for _, c := range []struct {
		limit int
		op    string
		text  func(n int) string
		want  string
	}{
		{maxText, "simplify", func(n int) string { return "1" + strings.Repeat(" ", n-1) }, "bytes"},
		{maxLevel, "simplify", func(n int) string { return strings.Repeat("-", n-3) + "1" }, "nested"},
		{maxBits, "simplify", func(n int) string { return fmt.Sprintf("2^%d", n-1) }, "digits"},
		{maxBits, "simplify", func(n int) string { return fmt.Sprintf("1/2^%d", n-1) }, "digits"},
		{maxBits / 4, "simplify", func(n int) string { return strings.Repeat("9", n) }, "digits"},
		{maxPower, "expand", func(n int) string { return fmt.Sprintf("(x+y-y)^%d", n) }, "power"},
		{maxPower, "simplify", func(n int) string { return fmt.Sprintf("root(x, %d)", n) }, "root"},
		{maxPower, "simplify", func(n int) string { return fmt.Sprintf("binomial(%d, 2)", n) }, "binomial"},
		{1<<10 - 1, "simplify", func(n int) string { return fmt.Sprintf("2^(1/%d)", n) }, "exponent"},
		{maxAtoms, "expand", func(n int) string { return strings.Join(letters[:n], "+") }, "unknowns"},
		{maxDegree, "solve", func(n int) string { return fmt.Sprintf("x^%d = 2", n) }, "degree"},
		{maxNames, "solve", equations, "equations"},
	} {
		m := func() *budget { return &budget{steps: 1e9, bytes: 1 << 32} }
		if _, err := Answer(m(), c.text(c.limit), c.op); err != nil {
			t.Errorf("%s at %d: %v", c.want, c.limit, err)
		}
		if v, err := Answer(m(), c.text(c.limit+1), c.op); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s at %d: got %v, %v, want an error", c.want, c.limit+1, v, err)
		}
	}
}

// TestTermLimit covers maxTerms in sums and in polynomials.
func TestTermLimit(t *testing.T) {
	for n, want := range map[int]bool{maxTerms: true, maxTerms + 1: false} {
		c := &calc{m: &budget{steps: 1e9, bytes: 1 << 32}}
		var terms []*expr
		for i := range n {
			terms = append(terms, c.sym(fmt.Sprintf("a%d", i)))
		}
		if err := attempt(func() { c.add(terms...) }); (err == nil) != want {
			t.Errorf("sum of %d terms: %v", n, err)
		}
		p, r := poly{}, newLine(c)
		if err := attempt(func() {
			for i := range n {
				r.put(p, lineKey(i), intRat(1))
			}
		}); (err == nil) != want {
			t.Errorf("polynomial of %d terms: %v", n, err)
		}
	}
}

// TestFactorLimits covers maxImage, above which a polynomial stays one factor,
// and maxTries.
func TestFactorLimits(t *testing.T) {
	for n, want := range map[int]bool{maxImage: true, maxImage + 1: false} {
		v, err := Answer(&budget{steps: 1e9, bytes: 1 << 32}, fmt.Sprintf("x^%d-1", n), "factor")
		if err != nil || strings.Contains(fmt.Sprint(v), "(x - 1)") != want {
			t.Errorf("degree %d: got %v, %v", n, v, err)
		}
	}
	c := &calc{m: &budget{steps: 1e9, bytes: 1 << 32}}
	r := newLine(c)
	for n, want := range map[int]int{6: 6 + 15 + 20, 40: maxTries} {
		tries := 0
		out := r.assemble(poly{lineKey(2): big.NewRat(1, 1)}, n, func([]int) poly { tries++; return nil })
		if tries != want || len(out) != 1 {
			t.Errorf("%d parts: got %d tries, %d factors, want %d and 1", n, tries, len(out), want)
		}
	}
}
