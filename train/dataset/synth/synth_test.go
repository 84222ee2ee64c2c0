package synth_test

import (
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mm-abi.org/mm/train/dataset/synth"
)

func text(t *testing.T, opt synth.Options) string {
	t.Helper()
	var b strings.Builder
	if err := synth.Write(&b, opt); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestDeterministic(t *testing.T) {
	a, b, c := text(t, synth.Options{Seed: 1}), text(t, synth.Options{Seed: 1}), text(t, synth.Options{Seed: 2})
	if a != b || a == c {
		t.Error("text does not depend on the seed")
	}
	if n := strings.Count(a, "<|endoftext|>"); n != 4000 {
		t.Errorf("%d documents", n)
	}
	docs := map[string]bool{}
	for d := range strings.SplitSeq(a, "<|endoftext|>") {
		docs[d] = true
	}
	if len(docs) < 3900 {
		t.Errorf("only %d of 4,000 documents are distinct", len(docs))
	}
}

// Every sum and every tool call is right.
func TestSumsAndCalls(t *testing.T) {
	all := text(t, synth.Options{Seed: 3, Calls: []string{
		`[What is {a} plus {b}?] <call>{"tool":"adder","args":{"expr":"{a}+{b}"}}</call>[{"result":{sum}}] It is {sum}.`,
		`<call>{"tool":"other","args":{"terms":[{a},{b}]}}</call>`,
	}})
	n := 0
	for _, m := range regexp.MustCompile(`(\d+) ([+-]) (\d+) = (-?\d+)\.`).FindAllStringSubmatch(all, -1) {
		a, _ := strconv.Atoi(m[1])
		b, _ := strconv.Atoi(m[3])
		sum, _ := strconv.Atoi(m[4])
		if m[2] == "-" {
			b = -b
		}
		if a+b != sum {
			t.Errorf("wrong sum: %s", m[0])
		}
		n++
	}
	calls := regexp.MustCompile(`<call>(.*?)</call>(?:\[{"result":(\d+)}\] It is (\d+)\.)?`).FindAllStringSubmatch(all, -1)
	tools := map[string]int{}
	for _, c := range calls {
		var v struct {
			Tool string
			Args struct {
				Expr  string
				Terms []int
			}
		}
		if err := json.Unmarshal([]byte(c[1]), &v); err != nil {
			t.Errorf("%s: %v", c[1], err)
		}
		tools[v.Tool]++
		a, b, _ := strings.Cut(v.Args.Expr, "+")
		x, _ := strconv.Atoi(a)
		y, _ := strconv.Atoi(b)
		if v.Tool == "adder" && (c[2] != strconv.Itoa(x+y) || c[3] != c[2]) {
			t.Errorf("wrong call: %s", c[0])
		}
	}
	if n < 500 || tools["adder"] != 250 || tools["other"] != 250 {
		t.Errorf("%d sums, calls of %v", n, tools)
	}
}

// Without templates there are no calls and no special tokens.
func TestNoCalls(t *testing.T) {
	if all := text(t, synth.Options{}); strings.ContainsAny(all, "<{") && strings.Contains(strings.ReplaceAll(all, "<|endoftext|>", ""), "<") {
		t.Error("special tokens in the text")
	}
	for _, bad := range []synth.Options{
		{Documents: -1}, {Documents: synth.MaxDocuments + 1}, {Calls: []string{"no number"}},
		{Calls: []string{"{a}" + strings.Repeat("x", synth.MaxCall-2)}}, {Calls: slices.Repeat([]string{"{a}"}, synth.MaxCalls+1)},
	} {
		if synth.Write(io.Discard, bad) == nil {
			t.Errorf("%d documents, %d calls: accepted", bad.Documents, len(bad.Calls))
		}
	}
	most := synth.Options{Documents: synth.MaxDocuments, Calls: slices.Repeat([]string{"{a}"}, synth.MaxCalls)}
	most.Calls[0] += strings.Repeat("x", synth.MaxCall-len("{a}"))
	if err := most.Validate(); err != nil {
		t.Errorf("options at the limits: %v", err)
	}
}
