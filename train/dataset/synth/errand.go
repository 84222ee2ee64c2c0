package synth

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// The kinds of errands.
const (
	Arithmetic = "arithmetic" // two or three numbers
	Units      = "units"      // a length, a weight or a time in another unit
	Tables     = "tables"     // values in a chart or a table
)

// ErrandKinds lists the kinds of errands.
func ErrandKinds() []string { return []string{Arithmetic, Units, Tables} }

// Errand is a question for a tool with the right call in MM-ABI's form, the
// tool's result, and the answer.
type Errand struct {
	Kind   string
	Ask    string // "What is 12 plus 7?"
	Tool   string // "sympy-lite"
	Call   string // {"tool":"sympy-lite","args":{"expr":"12+7","op":"simplify"}}
	Result string // JSON: 19
	Answer string // "19"
	Table  []Cell // contents of the asset in the question; of Tables
}

// Cell is a label and its number.
type Cell struct {
	Label string
	Value int
}

// Asset returns the name of the asset in a question of Tables, without its
// number sign.
func (e Errand) Asset() string {
	_, name, ok := strings.Cut(e.Ask, "#")
	if !ok {
		return ""
	}
	return strings.TrimRight(strings.Fields(name)[0], "?.,:")
}

// CSV returns the table as a CSV file with a header.
func (e Errand) CSV() []byte {
	out := []byte("label,value\n")
	for _, c := range e.Table {
		out = fmt.Appendf(out, "%s,%d\n", c.Label, c.Value)
	}
	return out
}

// document returns an errand for training: question and result are context.
func (e Errand) document() string {
	return contextMarks(e.Ask) + " <tool_call>" + e.Call + "</tool_call>" + contextMarks(`{"ok":true,"result":`+e.Result+"}") + " The answer is " + e.Answer + "."
}

func contextMarks(s string) string { return "<|given|>" + s + "<|/given|>" }

// Errands returns n errands of some kinds, all if empty, one kind after the
// other. Held-out ones use numbers, and tables first numbers, that documents
// never use: those whose sum is 3 modulo 5.
func Errands(seed uint64, n int, held bool, kinds ...string) []Errand {
	return Worded(seed, n, held, Usual, kinds...)
}

// Worded returns errands like [Errands] in the wording w.
func Worded(seed uint64, n int, held bool, w Wording, kinds ...string) []Errand {
	if len(kinds) == 0 {
		kinds = ErrandKinds()
	}
	g := &generator{rand.New(rand.NewPCG(seed, 0x657272616e64)), w}
	out := make([]Errand, n)
	for i := range out {
		out[i] = g.errand(kinds[i%len(kinds)], held)
	}
	return out
}

func (g *generator) errand(kind string, held bool) Errand {
	switch kind {
	case Arithmetic:
		return g.arithmetic(held)
	case Units:
		return g.units(held)
	}
	return g.table(held)
}

// numbers returns n numbers in from…to whose sum belongs to the split.
func (g *generator) numbers(n, from, to int, held bool) []int {
	for {
		out, sum := make([]int, n), 0
		for i := range out {
			out[i] = from + g.IntN(to-from+1)
			sum += out[i]
		}
		if (sum%5 == 3) == held {
			return out
		}
	}
}

// call writes a call of a tool with its arguments in order.
func call(tool string, args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"tool":%q,"args":{`, tool)
	for i := 0; i < len(args); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", args[i], args[i+1])
	}
	return b.String() + "}}"
}

const algebra = "sympy-lite"

func (g *generator) arithmetic(held bool) Errand {
	type operation struct {
		sign, word, noun string
		to               int
		do               func(z, x, y *big.Rat) *big.Rat
	}
	op := []operation{
		{"+", "plus", "the sum of %d and %d", 999, (*big.Rat).Add},
		{"-", "minus", "the difference of %d and %d", 999, (*big.Rat).Sub},
		// Small cores never saw an asterisk in their stories, but know the
		// word.
		{" times ", "times", "the product of %d and %d", 99, (*big.Rat).Mul},
		{"/", "divided by", "the quotient of %d and %d", 99, (*big.Rat).Quo},
	}[g.IntN(4)]
	to := []int{20, 99, op.to}[g.IntN(3)]
	v := g.numbers(2+g.IntN(4)/3, 1, to, held)
	expr := strconv.Itoa(v[0]) + op.sign + strconv.Itoa(v[1])
	words := fmt.Sprintf("%d %s %d", v[0], op.word, v[1])
	result := op.do(new(big.Rat), big.NewRat(int64(v[0]), 1), big.NewRat(int64(v[1]), 1))
	if len(v) == 3 {
		expr, words = expr+"+"+strconv.Itoa(v[2]), words+" plus "+strconv.Itoa(v[2])
		result.Add(result, big.NewRat(int64(v[2]), 1))
	}
	asks := []string{"What is " + words + "?", "How much is " + words + "?", "How much is " + expr + "?", "What is " + expr + "?", "Compute " + expr + "."}
	if len(v) == 2 {
		asks = append(asks, "What is "+fmt.Sprintf(op.noun, v[0], v[1])+"?")
	}
	if g.wording != Usual {
		asks = fill(wordings()[Arithmetic][g.wording], "{words}", words, "{expr}", expr)
	}
	e := Errand{Kind: Arithmetic, Ask: g.pick(asks), Tool: algebra, Answer: result.RatString(), Call: call(algebra, "expr", strconv.Quote(expr), "op", `"simplify"`)}
	if e.Result = e.Answer; !result.IsInt() {
		e.Result = strconv.Quote(e.Answer)
	}
	return e
}

// measures returns units, from small to large, and the factor to the next.
func measures() [][]measure {
	return [][]measure{
		{{"mm", 10}, {"cm", 100}, {"m", 1000}, {"km", 0}},
		{{"g", 1000}, {"kg", 1000}, {"t", 0}},
		{{"ml", 1000}, {"l", 0}},
		{{"s", 60}, {"min", 60}, {"h", 24}, {"d", 0}},
	}
}

type measure struct {
	name string
	next int
}

func (g *generator) units(held bool) Errand {
	list := measures()[g.IntN(4)]
	i := g.IntN(len(list) - 1)
	j := i + 1
	if j+1 < len(list) && g.IntN(4) == 0 {
		j++
	}
	factor := 1
	for _, m := range list[i:j] {
		factor *= m.next
	}
	n := g.numbers(1, 1, 60, held)[0]
	from, to, result := list[j].name, list[i].name, n*factor
	if g.IntN(2) == 0 {
		from, to, n, result = to, from, result, n
	}
	asks := []string{"How many %[3]s are %[1]d %[2]s?", "What is %[1]d %[2]s in %[3]s?", "Convert %[1]d %[2]s to %[3]s.", "How much is %[1]d %[2]s in %[3]s?"}
	if g.wording != Usual {
		asks = fill(wordings()[Units][g.wording], "{n}", "%[1]d", "{from}", "%[2]s", "{to}", "%[3]s")
	}
	ask := g.pick(asks)
	value := strconv.Itoa(result)
	return Errand{Kind: Units, Ask: fmt.Sprintf(ask, n, from, to), Tool: algebra, Result: value, Answer: value,
		Call: call(algebra, "expr", fmt.Sprintf(`"%d %s"`, n, from), "op", `"convert `+to+`"`)}
}

// table asks about an attached chart or table.
func (g *generator) table(held bool) Errand {
	var cells []Cell
	labels := slices.Concat(animals, things)
	for len(cells) < 3+g.IntN(4) {
		if l := g.pick(labels); !slices.ContainsFunc(cells, func(c Cell) bool { return c.Label == l }) {
			cells = append(cells, Cell{l, 1 + g.IntN(99)})
		}
	}
	cells[0].Value = g.numbers(1, 1, 99, held)[0]
	name := "#" + g.pick([]string{"img", "tab", "chart", "table"}) + strconv.Itoa(g.IntN(4))
	one := cells[g.IntN(len(cells))]
	high, low, sum := cells[0], cells[0], 0
	for _, c := range cells {
		if c.Value > high.Value {
			high = c
		}
		if c.Value < low.Value {
			low = c
		}
		sum += c.Value
	}
	asks := []struct {
		op, answer string
		asks       []string
	}{
		{"max", high.Label, []string{"Which is the highest in %s?", "Which one has the most in %s?", "What is the highest in %s?"}},
		{"min", low.Label, []string{"Which is the lowest in %s?", "Which one has the least in %s?", "What is the lowest in %s?"}},
		{"sum", strconv.Itoa(sum), []string{"What is the sum of all in %s?", "How much is it all together in %s?", "What do all in %s sum up to?"}},
		{"count", strconv.Itoa(len(cells)), []string{"How many are there in %s?", "How many has %s?", "Count those in %s."}},
		{"value " + one.Label, strconv.Itoa(one.Value), []string{"What is the value of " + one.Label + " in %s?", "How much is " + one.Label + " in %s?", "How high is " + one.Label + " in %s?"}},
	}
	// Equal values have no unique highest or lowest.
	tie := func(v int) bool {
		n := 0
		for _, c := range cells {
			if c.Value == v {
				n++
			}
		}
		return n > 1
	}
	a := asks[g.IntN(len(asks))]
	for a.op == "max" && tie(high.Value) || a.op == "min" && tie(low.Value) {
		a = asks[g.IntN(len(asks))]
	}
	if g.wording != Usual {
		op, _, _ := strings.Cut(a.op, " ")
		a.asks = fill(wordings()[Tables+"/"+op][g.wording], "{asset}", "%s", "{label}", one.Label)
	}
	e := Errand{Kind: Tables, Ask: fmt.Sprintf(g.pick(a.asks), name), Tool: "chartqa", Answer: a.answer, Result: a.answer, Table: cells,
		Call: call("chartqa", "image_ref", strconv.Quote(name), "ops", `["`+a.op+`"]`)}
	if a.op == "max" || a.op == "min" {
		text, err := json.Marshal(a.answer)
		if err != nil {
			panic(err) // a string is always valid JSON
		}
		e.Result = string(text)
	}
	return e
}
