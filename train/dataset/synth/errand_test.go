package synth

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Errands are calls in MM-ABI's form whose answer contains the result, held-out
// ones are not in any document, and equal seeds yield equal errands.
func TestErrands(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range Errands(1, 3000, false) {
		seen[e.Ask] = true
	}
	for i, e := range Errands(2, 600, true) {
		if e.Kind != Tables && seen[e.Ask] {
			t.Errorf("%s: in both splits", e.Ask)
		}
		if e.Kind != ErrandKinds()[i%3] {
			t.Fatalf("errand %d: kind %s", i, e.Kind)
		}
		var call struct {
			Tool string
			Args map[string]any
		}
		if err := json.Unmarshal([]byte(e.Call), &call); err != nil || call.Tool != e.Tool || len(call.Args) != 2 {
			t.Fatalf("call %s: %v", e.Call, err)
		}
		var result any
		if err := json.Unmarshal([]byte(e.Result), &result); err != nil || strings.Trim(e.Result, `"`) != e.Answer {
			t.Errorf("result %s, answer %s: %v", e.Result, e.Answer, err)
		}
		if e.Kind == Tables && call.Args["image_ref"] != "#"+e.Asset() {
			t.Errorf("%s: asset %q", e.Call, e.Asset())
		}
		if e.Kind == Tables && strings.Count(string(e.CSV()), "\n") != len(e.Table)+1 {
			t.Errorf("%d cells: %s", len(e.Table), e.CSV())
		}
	}
	if a, b := fmt.Sprint(Errands(5, 30, false)), fmt.Sprint(Errands(5, 30, false)); a != b {
		t.Error("equal seeds yield different errands")
	}
}

// Sums, conversions and lookups are right.
func TestErrandAnswers(t *testing.T) {
	for _, e := range Errands(9, 300, false, Tables) {
		sum, high := 0, e.Table[0]
		for _, c := range e.Table {
			sum += c.Value
			if c.Value > high.Value {
				high = c
			}
		}
		if strings.Contains(e.Call, `["sum"]`) && e.Result != fmt.Sprint(sum) || strings.Contains(e.Call, `["max"]`) && e.Answer != high.Label {
			t.Errorf("%v: %s", e.Table, e.Call+e.Result)
		}
	}
	for _, e := range Errands(9, 300, false, Units) {
		var n, want int
		var from, to string
		fmt.Sscanf(strings.SplitN(e.Call, `"expr":"`, 2)[1], "%d %s", &n, &from)
		fmt.Sscanf(strings.SplitN(e.Call, `convert `, 2)[1], "%s", &to)
		fmt.Sscan(e.Result, &want)
		from, _, _ = strings.Cut(from, `"`)
		to, _, _ = strings.Cut(to, `"`)
		size := map[string]int{"mm": 1, "cm": 10, "m": 1000, "km": 1000000, "g": 1, "kg": 1000, "t": 1000000, "ml": 1, "l": 1000, "s": 1, "min": 60, "h": 3600, "d": 86400}
		if n*size[from] != want*size[to] || n == 0 {
			t.Errorf("%s %s", e.Call, e.Result)
		}
	}
}
