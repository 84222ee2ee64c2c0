package runner

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/media"
)

func array32(v ...float32) *npy.Array {
	a := &npy.Array{Type: "f4", Shape: []int{len(v)}}
	for _, x := range v {
		a.Data = binary.LittleEndian.AppendUint32(a.Data, math.Float32bits(x))
	}
	return a
}

// A domain has finite numbers of the core's width; its distance is a mean square.
func TestDomain(t *testing.T) {
	read := func(all map[string]*npy.Array) (*domain, error) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "domain.npz")
		data, err := npy.EncodeArchive(all)
		if err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return readDomain(path, 2)
	}
	d, err := read(map[string]*npy.Array{"mean": array32(1, 2), "factor": array32(2, 0, 1, 3)})
	if err != nil || d.distance([]float64{2, 4}) != (4+49)/2.0 || d.distance([]float64{1, 2}) <= 0 {
		t.Errorf("got %+v, %v", d, err)
	}
	for name, all := range map[string]map[string]*npy.Array{
		"no factor": {"mean": array32(1, 2)},
		"width":     {"mean": array32(1), "factor": array32(1)},
		"infinite":  {"mean": array32(1, float32(math.Inf(1))), "factor": array32(2, 0, 1, 3)},
	} {
		if _, err := read(all); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// An improbable answer is withheld, a probable one is passed on once; that of the least
// familiar input counts, and an answer by a tool has no confidence.
func TestWithhold(t *testing.T) {
	sure := &modules.Confidence{Likelihood: 1, Beyond: -10, Edge: 1, Least: 0.5}
	for name, c := range map[string]struct {
		distances []float64
		calls     int
		withheld  bool
	}{
		"near": {[]float64{1}, 0, false}, "far": {[]float64{20}, 0, true}, "one of two far": {[]float64{20, 1}, 0, true}, "far, by a tool": {[]float64{20}, 1, false},
	} {
		var passed []string
		w := &weigher{likelihood: -0.1, emit: func(s string) error { passed = append(passed, s); return nil }}
		for _, d := range c.distances {
			w.about = append(w.about, familiar{Confidence: sure, distance: d})
		}
		a := &Answer{Text: " red", Tokens: []int32{1}, Called: make([]CallRecord, c.calls)}
		if err := (&telling{weigher: w, answer: a}).weigh(); err != nil {
			t.Fatal(err)
		}
		want, was := " red", ""
		if c.withheld {
			want, was = CannotTell, " red"
		}
		if a.Text != want || a.Withheld != was || len(passed) != 1 || passed[0] != want || (a.Confidence == nil) != (c.calls > 0) || (len(a.Doubts()) == 1) != c.withheld {
			t.Errorf("%s: got %+v, passed %q", name, a, passed)
		}
	}
}

// The probability of an answer falls with its likelihood and, beyond the edge, with the
// distance.
func TestProbability(t *testing.T) {
	c := &modules.Confidence{Likelihood: 1, Beyond: -2, Edge: 1, With: []string{"a@1.0.0"}}
	for _, x := range []struct{ likelihood, distance, want float64 }{
		{math.Log(0.8), 1, 0.8}, {math.Log(0.8), math.E, 0.8}, {math.Log(0.8), math.Exp(2), 1 / (1 + math.Exp(2)/4)}, {0, 1, 1 - 1e-6},
	} {
		if got := c.Probability(x.likelihood, x.distance); math.Abs(got-x.want) > 1e-9 {
			t.Errorf("%v: got %v", x, got)
		}
	}
	if !c.Holds([]string{"a@1.0.0"}) || c.Holds([]string{"a@1.0.0", "b@1.0.0"}) || c.Holds([]string{"a@1.0.1"}) {
		t.Error("the core and the adapters are compared wrongly")
	}
}

// The probability that an answer needs is enough.
func TestLeast(t *testing.T) {
	c := &modules.Confidence{Likelihood: 1, Beyond: -2, Edge: 1}
	p := c.Probability(-0.1, 1)
	for least, withheld := range map[float64]bool{p: false, math.Nextafter(p, 1): true} {
		c.Least = least
		a := &Answer{Text: " red", Tokens: []int32{1}}
		w := &weigher{likelihood: -0.1, about: []familiar{{Confidence: c, distance: 1}}}
		if err := (&telling{weigher: w, answer: a}).weigh(); err != nil || (a.Withheld != "") != withheld {
			t.Errorf("least %v of %v: got %+v, %v", least, p, a, err)
		}
	}
}

// The distance of an input is that of the mean of its states alone, and an input without
// states has none.
func TestMeasureInputs(t *testing.T) {
	d := &domain{mean: []float32{0, 0}, factor: []float32{1, 0, 0, 1}}
	held, states := []int32{7, -1, -1, 8, -2}, []float32{90, 90, 1, 2, 3, 4, 80, 80, 5, 5}
	w := &weigher{about: []familiar{{domain: d}, {domain: d}}}
	c := &media.Encoding{Inputs: []*media.Encoded{{Held: media.Held{ID: -1}}, {Held: media.Held{ID: -2}}}}
	if !w.measure(held, states, 2, c) || w.about[0].distance != (4+9)/2.0 || w.about[1].distance != 25 {
		t.Errorf("got %+v", w.about)
	}
	if c.Inputs[1].ID = -3; w.measure(held, states, 2, c) {
		t.Error("an input without states was measured")
	}
}

// A continued text has a limit and does not go on in circles; options of sampling stay.
func TestContinueText(t *testing.T) {
	free := Preferences{}
	if limit := free.ContinueText(true); !free.EndLoops || free.MaxTokens != continuedTokens || !strings.Contains(limit, "256 tokens") || free.Temperature == 0 {
		t.Errorf("got %+v, %q", free, limit)
	}
	bound := Preferences{MaxTokens: 3}
	if limit := bound.ContinueText(false); !bound.EndLoops || bound.MaxTokens != 3 || limit != "" || bound.Temperature != 0 {
		t.Errorf("got %+v, %q", bound, limit)
	}
}

// Only an answer that stopped at its budget missed it, and only a full context is explained.
func TestFaultsOfAnswers(t *testing.T) {
	code := func(err error) diag.Code {
		if list, ok := diag.From(err); ok {
			return list[0].Code
		}
		return ""
	}
	if got := code((&Answer{Stop: StopBudget}).CheckBudget(5)); got != diag.BudgetMissed {
		t.Errorf("budget: got %q", got)
	}
	if err := (&Answer{Stop: StopWord}).CheckBudget(5); err != nil {
		t.Errorf("no budget: got %v", err)
	}
	if got := code(Explain(fmt.Errorf("feeding: %w", runtimes.ErrFull))); got != diag.PromptTooLong {
		t.Errorf("full: got %q", got)
	}
	if other := errors.New("other"); Explain(other) != other || Explain(nil) != nil {
		t.Error("another error was changed")
	}
}
