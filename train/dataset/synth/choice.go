package synth

import (
	"math/rand/v2"
	"strconv"
	"strings"
)

// Choice is an errand with the right answer to its question, the call of a
// tool, and a wrong one.
type Choice struct {
	Errand
	Right, Wrong string // as in documents, with a leading space
}

// Choices returns errands with a wrong answer each: the call of the other tool,
// another operation, other numbers, or an answer without a call.
func Choices(seed uint64, n int, held bool, w Wording, kinds ...string) []Choice {
	r := rand.New(rand.NewPCG(seed, 0x63686f696365))
	out := make([]Choice, n)
	for i, e := range Worded(seed, n, held, w, kinds...) {
		c := Choice{Errand: e, Right: answer(e.Call)}
		for c.Wrong == "" || c.Wrong == c.Right {
			c.Wrong = e.wrong(r)
		}
		out[i] = c
	}
	return out
}

// answer returns a call as in documents.
func answer(call string) string { return " <tool_call>" + call + "</tool_call>" }

// wrong draws a wrong answer, which can equal the right one.
func (e Errand) wrong(r *rand.Rand) string {
	switch r.IntN(4) {
	case 0:
		return answer(e.misrouted(r))
	case 1:
		return " The answer is " + strconv.Itoa(1+r.IntN(99)) + "."
	case 2:
		return answer(e.renumbered(r))
	}
	return answer(e.reoperated(r))
}

// misrouted returns a call of the other tool.
func (e Errand) misrouted(r *rand.Rand) string {
	if e.Kind == Tables {
		return call(algebra, "expr", strconv.Quote(strconv.Itoa(1+r.IntN(99))+"+"+strconv.Itoa(1+r.IntN(99))), "op", `"simplify"`)
	}
	op := []string{"max", "min", "sum", "count"}[r.IntN(4)]
	return call("chartqa", "image_ref", strconv.Quote("#img"+strconv.Itoa(r.IntN(4))), "ops", `["`+op+`"]`)
}

// renumbered returns the call with a digit replaced.
func (e Errand) renumbered(r *rand.Rand) string {
	var at []int
	for i, c := range e.Call {
		if c >= '0' && c <= '9' {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return e.Call
	}
	i := at[r.IntN(len(at))]
	return e.Call[:i] + strconv.Itoa(1+r.IntN(9)) + e.Call[i+1:]
}

// reoperated returns the call with another operation.
func (e Errand) reoperated(r *rand.Rand) string {
	list := [][]string{{`"max"`, `"min"`, `"sum"`, `"count"`}, {"+", "-", " times ", "/"}, {" mm", " cm", " m", " km", " g", " kg", " t", " ml", " l", " s", " min", " h", " d"}}
	switch e.Kind {
	case Tables:
		return swap(e.Call, list[0], r)
	case Arithmetic:
		expr, rest, _ := strings.Cut(e.Call, `","op"`)
		head, expr, _ := strings.Cut(expr, `"expr":"`)
		return head + `"expr":"` + swap(expr, list[1], r) + `","op"` + rest
	}
	return swap(e.Call, list[2], r)
}

// swap replaces the first of some words in s by another one.
func swap(s string, words []string, r *rand.Rand) string {
	for _, i := range r.Perm(len(words)) {
		for _, end := range []string{`"`, ""} {
			if strings.Contains(s, words[i]+end) && (end != "" || !letter(s, words[i])) {
				return strings.Replace(s, words[i]+end, words[r.IntN(len(words))]+end, 1)
			}
		}
	}
	return s
}

// letter reports whether a letter follows the first w in s.
func letter(s, w string) bool {
	_, rest, _ := strings.Cut(s, w)
	return rest != "" && rest[0] >= 'a' && rest[0] <= 'z'
}
