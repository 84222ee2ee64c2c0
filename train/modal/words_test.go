package modal

import (
	"slices"
	"testing"

	"mm-abi.org/mm/train/dataset/scene"
)

// The target of a vector is its sign; with owners, also the owner's name and
// the place in the row, which differs for all places.
func TestTargets(t *testing.T) {
	signs := map[string][]float32{"3": {1, 0}, "7": {0, 1}, "c": {2, 2}}
	e := Example{Scene: &scene.Scene{Kind: scene.Charts, Truth: scene.Truth{Top: 100, Bars: []scene.Bar{{Label: "C", Value: 33, Colour: "red"}}}}}
	w := &words{of: signs, texts: map[string][]float32{}, embed: func(text string) []float32 {
		if text != " c" {
			t.Errorf("looked up name %q", text)
		}
		return []float32{10, 20}
	}}
	for i := range w.columns {
		w.columns[i] = []float32{float32(i) * 100, 0}
	}
	row := scene.Row
	if got := w.targets(e); !slices.Equal(got[row+3], signs["3"]) || got[row+5] != nil || got[0] != nil {
		t.Errorf("without owners: %v, %v, %v", got[row+3], got[row+5], got[0])
	}
	w.owners = true
	got := w.targets(e)
	if !slices.Equal(got[row], signs["c"]) || !slices.Equal(got[row+3], []float32{311, 20}) || !slices.Equal(got[row+4], []float32{411, 20}) {
		t.Errorf("with owners: %v, %v, %v", got[row], got[row+3], got[row+4])
	}
	if !slices.Equal(signs["3"], []float32{1, 0}) {
		t.Error("embedding changed")
	}
	grads := make([]float32, 2*len(got))
	w.size = 4
	w.pull(got, func(int) []float32 { return []float32{311, 10} }, grads, 2, 8)
	if grads[2*(row+3)] != 0 || grads[2*(row+3)+1] != -20 || grads[0] != 0 {
		t.Errorf("gradient %v", grads[2*(row+3):2*(row+3)+2])
	}
}
