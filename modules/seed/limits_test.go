package seed

import (
	"testing"

	"mm-abi.org/mm/abi"
)

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		opt Options
		ok  bool
	}{
		{Options{DModel: maxDModel}, true}, {Options{DModel: maxDModel + 1}, false},
		{Options{DEnc: maxDEnc}, true}, {Options{DEnc: maxDEnc + 1}, false},
		{Options{TCap: maxTCap}, true}, {Options{TCap: maxTCap + 1}, false},
	} {
		if err := c.opt.sizes(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.opt, err)
		}
	}
}

// A seeded core of any width that the options accept has a shape that engines
// accept: no head is wider than maxHead.
func TestHeads(t *testing.T) {
	vocab := len(Bytes().Tokens)
	for width := 1; width <= maxDModel; width++ {
		opt := Options{Type: abi.Core, DModel: width}
		heads := headsOf(width)
		if opt.sizes() != nil {
			if width%(2*heads) == 0 {
				t.Errorf("width %d is refused", width)
			}
			continue
		}
		s := shape{layers: seededLayers, heads: heads, kvHeads: heads / 2, hidden: 2 * width, context: 512}.model(width, vocab)
		if err := s.Check(); err != nil || s.HeadDim > maxHead || s.HeadDim*heads != width {
			t.Errorf("width %d: %d heads of %d: %v", width, heads, s.HeadDim, err)
		}
	}
	if headsOf(4*maxHead) != 4 || headsOf(4*maxHead+8) != 8 {
		t.Errorf("heads: %d and %d", headsOf(4*maxHead), headsOf(4*maxHead+8))
	}
}
