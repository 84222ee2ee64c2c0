package metric

import (
	"fmt"
	"strings"
	"testing"
)

func TestMaxRelative(t *testing.T) {
	for off, want := range map[float64]float64{maxRelative: 1, maxRelative + 1e-6: 0, -maxRelative: 1, -maxRelative - 1e-6: 0} {
		if got := Relaxed(fmt.Sprint(100+100*off), "100"); got != want {
			t.Errorf("%v away: got %v", off, got)
		}
	}
}

func TestMaxDots(t *testing.T) {
	for n, want := range map[int]string{maxDots: "b", maxDots + 1: "b."} {
		if got := vqaAnswer("b" + strings.Repeat(".", n)); got != want {
			t.Errorf("%d dots: got %q, want %q", n, got, want)
		}
	}
}

// The interval of paired proportions contains the difference, is narrower than that of
// independent ones, and is Tango's in his example.
func TestTango(t *testing.T) {
	// Tango (1998), table 1: 44 pairs, 1 and 0 in only one.
	for _, c := range []struct {
		n, b, c   int
		low, high float64
	}{{44, 0, 1, -0.058, 0.118}, {100, 5, 15, 0.0136, 0.1899}} {
		got := Tango(c.n, c.b, c.c, Quantile95)
		d := float64(c.c-c.b) / float64(c.n)
		if got.Low >= d || got.High <= d || got.Low < c.low-0.02 || got.High > c.high+0.02 {
			t.Errorf("%+v: got %+v", c, got)
		}
		if back := Tango(c.n, c.c, c.b, Quantile95); back.Low+got.High > 1e-9 || back.High+got.Low > 1e-9 {
			t.Errorf("%+v: got %+v, exchanged %+v", c, got, back)
		}
	}
}

// Figures of the facts of evaluation: items that a margin of 2 points needs.
func TestNeeded(t *testing.T) {
	for discordance, want := range map[float64]int{0.02: 310, 0.05: 773, 0.1: 1546, 0.2: 3092} {
		if got := Needed(discordance, 0.02); got != want {
			t.Errorf("%v: got %d, want %d", discordance, got, want)
		}
	}
}

// Clustered items are worth fewer than independent ones, at least as many as clusters.
func TestEffective(t *testing.T) {
	var same, mixed []float64
	var groups, own []int
	for i := range 100 {
		same, mixed = append(same, float64(i/10%2)), append(mixed, float64(i%2))
		groups, own = append(groups, i/10), append(own, i)
	}
	if got := Effective(same, groups); got < 5 || got > 12 {
		t.Errorf("ten equal groups: got %v", got)
	}
	if got := Effective(mixed, groups); got < 9 || got > 100 {
		t.Errorf("mixed groups: got %v", got)
	}
	if got := Effective(same, own); got != 100 {
		t.Errorf("independent: got %v", got)
	}
}

// Draws are the same each time, and their interval that of the mean.
func TestDraws(t *testing.T) {
	var items [][]float64
	for i := range 400 {
		items = append(items, []float64{float64(i % 2)})
	}
	a, b := Draws(items, nil, Mean), Draws(items, nil, Mean)
	for i := range a {
		if a[i] != b[i] {
			t.Fatal("two runs differ")
		}
	}
	got, want := Percentiles(a, 0.95), Wilson(0.5, 400)
	if d := got.Low - want.Low; d > 0.01 || d < -0.01 {
		t.Errorf("got %v, want %v", got, want)
	}
	if e := Deviation(a); e < 0.023 || e > 0.027 {
		t.Errorf("got a standard error of %v, want 0.025", e)
	}
	for _, c := range []struct {
		draws []float64
		want  float64
	}{{[]float64{1, 1, 1}, 0.5}, {[]float64{0, 0, 0}, 1}, {[]float64{-1, 1}, 1}} {
		if got := Beyond(c.draws); got != c.want {
			t.Errorf("%v: got %v, want %v", c.draws, got, c.want)
		}
	}
}

// Calls are read in the shapes that models write.
func TestCalls(t *testing.T) {
	for text, want := range map[string]string{
		`{"name":"f","arguments":{"a":1}}`: "f", `[{"f":{"a":1}},{"g":{}}]`: "f g", "<tool_call>\n{\"name\": \"f\", \"parameters\": {}}\n</tool_call>": "f",
		"```json\n[{\"name\":\"f\",\"arguments\":{}}]\n```": "f", "no call": "", "{broken": "", "[1,2]": "", `{"a":1}`: "", `{"name":"f"}`: "",
	} {
		var names []string
		for _, c := range Calls(text) {
			names = append(names, c.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func FuzzCalls(f *testing.F) {
	f.Add(`[{"f":{"a":[1,{"b":null}]}}] {"name":"g","arguments":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		functions := []Function{{Name: "f", Parameters: Parameter{Type: "dict", Properties: map[string]Parameter{"a": {Type: "array", Items: &Parameter{Type: "dict"}}}}}}
		calls := Calls(text)
		ToolSchema(calls, functions)
		ToolCalls(calls, functions, []Gold{{Name: "f", Arguments: map[string][]any{"a": {[]any{map[string]any{"b": []any{"x"}}}}}}})
	})
}

// The measures never panic.
func FuzzMeasures(f *testing.F) {
	f.Add("the cat's 1,000 U.S.A. #### 5%", "a dog.")
	f.Fuzz(func(t *testing.T, a, b string) {
		golds := []string{b, a}
		ExactMatch(a, golds, Exact{IgnoreCase: true, IgnorePunctuation: true, IgnoreASCIIDigits: true})
		for _, x := range []float64{SquadF1(a, golds), ANLS(a, golds), ANLSLoose(a, golds), VQA(a, golds), RougeL(a, golds), RougeN(a, golds, 2), CaptionRougeL(a, golds)} {
			if !(x >= 0 && x <= 1.0000001) {
				t.Errorf("%q, %q: got %v", a, b, x)
			}
		}
		Relaxed(a, b)
		WER(a, b)
		CER(a, b)
		BLEU(BLEUCounts(a, golds, nil), 1)
		ChrF(ChrFCounts(a, golds, 2), 1)
		CIDEr([]Caption{{a, golds}, {b, golds}})
	})
}

// Cases at the edges of the measures.
func TestEdges(t *testing.T) {
	for name, c := range map[string][2]float64{
		"rate of empty references": {Rate([]float64{3, 0}, 1), 3},
		"rate":                     {Rate([]float64{3, 6}, 1), 0.5},
		"deviation of two":         {Deviation([]float64{1, 3}), 1.4142135623730951},
		"deviation of one":         {Deviation([]float64{1}), 0},
		"closest, shorter of two":  {float64(closest(4, [][]string{make([]string, 5), make([]string, 3)})), 3},
		"closest of none":          {float64(closest(4, nil)), 0},
		"words with a separator":   {float64(Words("a\x1fb")), 2},
		"a number of text":         {Relaxed("1e400x", "1"), 0},
		"brier of certainty":       {Brier([]float64{0, -1000}, 0), 0},
		"calibration at an edge":   {CalibrationError(Calibration(1.0/CalibrationBins, true), 1), 1 - 1.0/CalibrationBins},
		"calibration of 0 and 1":   {CalibrationError(Calibration(1, true), 1) + CalibrationError(Calibration(0, false), 1), 0},
		"first of the bins":        {Calibration(1.0/CalibrationBins, false)[0], 1.0 / CalibrationBins},
		"all right, in clusters":   {Effective([]float64{1, 1, 1, 1}, []int{0, 0, 1, 1}), 2},
		"balanced clusters":        {Effective([]float64{0, 1, 0, 1}, []int{0, 0, 1, 1}), 2},
	} {
		if d := c[0] - c[1]; d > 1e-9 || d < -1e-9 {
			t.Errorf("%s: got %v, want %v", name, c[0], c[1])
		}
	}
	one := map[string]any{"a": "x"}
	if same(one, map[string]any{"a": "x", "b": "y"}) || same(map[string]any{"a": "x", "b": "y"}, one) || !same(one, map[string]any{"a": "x"}) || same(one, map[string]any{"b": "x"}) {
		t.Error("dicts are compared wrongly")
	}
}
