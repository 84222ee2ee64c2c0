package metric

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

// Cases chosen for the traps of the references, with the values that the references
// returned, to six digits.
func TestMeasured(t *testing.T) {
	var g struct {
		Sentence, WER, Rouge, ANLS, Relaxed, EvalAI, VQA, Wilson, McNemar [][]any
		Tok13a                                                            map[string]string
	}
	data, err := os.ReadFile("testdata/measured.json")
	if err == nil {
		err = json.Unmarshal(data, &g)
	}
	if err != nil {
		t.Fatal(err)
	}
	texts := func(v any) (out []string) {
		for _, x := range v.([]any) {
			out = append(out, x.(string))
		}
		return out
	}
	near := func(what any, got float64, want any) {
		if math.Abs(got-want.(float64)) > 1e-6 {
			t.Errorf("%v: got %v, want %v", what, got, want)
		}
	}
	for _, c := range g.Sentence {
		h, r := c[0].(string), texts(c[1])
		if counts := BLEUCounts(h, r, nil); h != "a" { // the reference's effective order is off in corpora
			near(h, BLEU(counts, 1), c[2])
		}
		near(h, ChrF(ChrFCounts(h, r, 0), 1), c[3])
		near(h, ChrF(ChrFCounts(h, r, 2), 1), c[4])
	}
	for text, want := range g.Tok13a {
		if got := strings.Join(tokens13a(text), " "); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	rate := func(e, n int) float64 { return Rate([]float64{float64(e), float64(n)}, 1) }
	for _, c := range g.WER {
		near(c[1], rate(WER(c[0].(string), c[1].(string))), c[2])
		near(c[1], rate(CER(c[0].(string), c[1].(string))), c[3])
	}
	for _, c := range g.Rouge {
		target := []string{c[0].(string)}
		near(c[1], RougeN(c[1].(string), target, 1), c[2])
		near(c[1], RougeN(c[1].(string), target, 2), c[3])
		near(c[1], RougeL(c[1].(string), target), c[4])
	}
	for _, c := range g.ANLS {
		near(c[0], ANLS(c[0].(string), texts(c[1])), c[2])
		near(c[0], ANLSLoose(c[0].(string), texts(c[1])), c[3])
	}
	for _, c := range g.Relaxed {
		if got := Relaxed(c[0].(string), c[1].(string)) == 1; got != c[2] {
			t.Errorf("%v: got %v", c, got)
		}
	}
	for _, c := range g.EvalAI {
		if got := vqaAnswer(c[0].(string)); got != c[1] {
			t.Errorf("%v: got %q", c, got)
		}
	}
	for _, c := range g.VQA {
		near(c[0], VQA(c[0].(string), texts(c[1])), c[2])
	}
	for _, c := range g.Wilson {
		k, n, want := c[0].(float64), c[1].(float64), c[2].([]any)
		got := Wilson(k/n, n)
		near(c, got.Low, want[0])
		near(c, got.High, want[1])
	}
	for _, c := range g.McNemar {
		near(c, McNemar(int(c[0].(float64)), int(c[1].(float64))), c[2])
	}
}
