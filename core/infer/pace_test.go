package infer

import (
	"testing"
	"time"
)

// TestPace: with the costs given the share of steps with a draft is what
// serves best.
func TestPace(t *testing.T) {
	for name, c := range map[string]struct {
		alone, helped time.Duration // of a step
		gain          int           // tokens of a step with the draft
		least, most   float64       // share of steps with the draft
	}{
		"a draft that pays":              {10, 15, 3, 0.75, 1},
		"a draft that just pays":         {10, 29, 3, 0.75, 1},
		"a draft that just does not":     {10, 31, 3, 0, 0.03},
		"a draft as dear as the model":   {10, 50, 4, 0, 0.03},
		"a draft that is never right":    {10, 12, 1, 0, 0.03},
		"what takes no time to be found": {0, 0, 1, 0, 0.03},
	} {
		var p pace
		drafted, steps := 0, 5000
		for range steps {
			if p.draft() {
				drafted++
				p.drafted(c.gain, c.helped)
			} else {
				p.walked(1, c.alone)
			}
		}
		if share := float64(drafted) / float64(steps); share < c.least || share > c.most {
			t.Errorf("%s: %.3f of the steps have one, want %v to %v", name, share, c.least, c.most)
		}
	}
}

// TestPaceFollows: a draft that stops to pay is left, one that begins to is
// taken up.
func TestPaceFollows(t *testing.T) {
	var p pace
	run := func(steps, gain int) (share float64) {
		n := 0
		for range steps {
			if p.draft() {
				n++
				p.drafted(gain, 20)
			} else {
				p.walked(1, 10)
			}
		}
		return float64(n) / float64(steps)
	}
	if s := run(1000, 4); s < 0.75 {
		t.Errorf("while it pays: %.2f", s)
	}
	run(200, 1)
	if s := run(1000, 1); s > 0.1 {
		t.Errorf("when it does not any more: %.2f", s)
	}
	run(3000, 4)
	if s := run(1000, 4); s < 0.75 {
		t.Errorf("when it does again: %.2f", s)
	}
}

// TestPaceBegins without a draft, for who says little has nothing to gain.
func TestPaceBegins(t *testing.T) {
	var p pace
	for i := range warmSteps + countSteps {
		if p.draft() {
			t.Fatalf("step %d has a draft", i)
		}
		p.walked(1, 10)
	}
	if !p.draft() {
		t.Error("no trial follows")
	}
}

// TestPaceGivesUp: a trial that costs twice the time ends early, one that is
// near what would pay goes on to its end.
func TestPaceGivesUp(t *testing.T) {
	for _, c := range []struct {
		helped time.Duration
		want   int
	}{{20, warmSteps + fewSteps}, {12, warmSteps + countSteps}} {
		var p pace
		for !p.draft() {
			p.walked(1, 10)
		}
		steps := 0
		for p.draft() {
			p.drafted(1, c.helped)
			steps++
		}
		if steps != c.want {
			t.Errorf("a trial at %d against 10 takes %d steps, want %d", c.helped, steps, c.want)
		}
	}
}
