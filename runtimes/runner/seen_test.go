package runner_test

import (
	"slices"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
)

// A fit receives the core's mean state at each input; a confidence of other parts is ignored.
func TestSeen(t *testing.T) {
	b := seeing(t)
	r, err := runner.Open(t.Context(), b, runner.Options{Engines: []runtimes.Engine{engines.Core{}, &functions{name: "onnx"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	req := ask("what is it", 4)
	picture := talk.Part{Type: abi.Image, Data: red(t)}
	req.Inputs = slices.Insert(req.Inputs, 0, picture, picture)
	var got [][]float64
	req.Seen = func(states [][]float64) { got = states }
	seen := answer(t, r, req)
	if len(got) != 2 || len(got[0]) == 0 || slices.Max(got[0]) == 0 || len(got[0]) != len(got[1]) || seen.Confidence != nil {
		t.Errorf("got %d states, confidence %v", len(got), seen.Confidence)
	}
	for _, m := range b.Manifests {
		if m.Modality == abi.Image {
			m.Confidence = &modules.Confidence{With: []string{"other@1.0.0"}, Domain: "gone.npz", Least: 2}
		}
	}
	req.Seen = nil
	if a := answer(t, r, req); a.Confidence != nil || a.Withheld != "" || a.Text != seen.Text {
		t.Errorf("got %v, %q", a.Confidence, a.Withheld)
	}
}
