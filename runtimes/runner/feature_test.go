package runner

import (
	"testing"

	"mm-abi.org/mm/abi"
)

// What is remembered is bounded, what was used last stays, and what comes back
// is another than what went: positions of the two are not taken for one.
func TestFeaturesAreBounded(t *testing.T) {
	var c features
	k := func(n byte) key { return key{abi.Image, [32]byte{n}} }
	third := make([]float32, maxFeatures/3) // three fit
	ids := map[int32]bool{}
	for n := range byte(3) {
		ids[c.put(k(n), third, nil).id] = true
	}
	if _, ok := c.get(k(0)); !ok {
		t.Error("three do not fit")
	}
	ids[c.put(k(3), third, nil).id] = true
	for n, want := range map[byte]bool{0: true, 1: false, 2: true, 3: true} {
		if _, ok := c.get(k(n)); ok != want {
			t.Errorf("input %d is remembered: %v", n, ok)
		}
	}
	again := c.put(k(1), third, nil)
	if ids[again.id] || len(ids) != 4 || again.id >= 0 {
		t.Errorf("ids %v, then %d", ids, again.id)
	}
	if twice := c.put(k(1), third, nil); twice.id != again.id {
		t.Errorf("put twice: %d, then %d", again.id, twice.id)
	}
	if other := c.put(key{abi.Audio, [32]byte{1}}, third[:1], nil); other.id == again.id {
		t.Error("the same bytes as a sound are the same")
	}
	// One that is larger than all there is room for is remembered alone.
	if c.put(k(9), make([]float32, maxFeatures+1), nil); len(c.held) != 1 || c.size != maxFeatures+1 {
		t.Errorf("%d are held, of %d numbers", len(c.held), c.size)
	}
}
