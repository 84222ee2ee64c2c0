package runner

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/modules"
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
