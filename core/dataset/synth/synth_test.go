package synth_test

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"mm-abi.org/mm/core/dataset/synth"
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
		t.Error("the text does not follow from the seed")
	}
	if n := strings.Count(a, "<|endoftext|>"); n != 4000 {
		t.Errorf("%d documents", n)
	}
	docs := map[string]bool{}
	for d := range strings.SplitSeq(a, "<|endoftext|>") {
		docs[d] = true
	}
	if len(docs) < 3900 {
		t.Errorf("only %d of 4,000 documents differ", len(docs))
	}
}

// What the model is shown as true is true, and every tool call is one.
func TestSumsAndCalls(t *testing.T) {
	all := text(t, synth.Options{Seed: 3})
	n := 0
	for _, m := range regexp.MustCompile(`(\d+) ([+-]) (\d+) = (-?\d+)\.`).FindAllStringSubmatch(all, -1) {
		a, _ := strconv.Atoi(m[1])
		b, _ := strconv.Atoi(m[3])
		sum, _ := strconv.Atoi(m[4])
		if m[2] == "-" {
			b = -b
		}
		if a+b != sum {
			t.Errorf("%s is wrong", m[0])
		}
		n++
	}
	calls := regexp.MustCompile(`<tool_call>(.*?)</tool_call>`).FindAllStringSubmatch(all, -1)
	for _, c := range calls {
		var v struct {
			Tool string         `json:"tool"`
			Args map[string]any `json:"args"`
		}
		if err := json.Unmarshal([]byte(c[1]), &v); err != nil || v.Tool == "" {
			t.Errorf("%s: %v", c[1], err)
		}
	}
	if n < 500 || len(calls) != 500 {
		t.Errorf("%d sums, %d calls", n, len(calls))
	}
	if strings.Contains(text(t, synth.Options{Plain: true}), "<tool_call>") {
		t.Error("plain text has special tokens")
	}
}
