package infer

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestPace: for given costs the share of steps with a draft is the optimum.
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
			if n := p.proposals(4); n > 0 {
				drafted++
				p.recordDraft(min(c.gain, n+1), c.alone+(c.helped-c.alone)*time.Duration(n)/4)
			} else {
				p.recordAlone(1, c.alone)
			}
		}
		if share := float64(drafted) / float64(steps); share < c.least || share > c.most {
			t.Errorf("%s: %.3f of the steps have one, want %v to %v", name, share, c.least, c.most)
		}
	}
}

// TestPaceFollows: a draft that stops paying is dropped, one that starts paying
// is used.
func TestPaceFollows(t *testing.T) {
	var p pace
	run := func(steps, gain int) (share float64) {
		n := 0
		for range steps {
			if k := p.proposals(4); k > 0 {
				n++
				p.recordDraft(min(gain, k+1), 20)
			} else {
				p.recordAlone(1, 10)
			}
		}
		return float64(n) / float64(steps)
	}
	if s := run(1000, 4); s < 0.75 {
		t.Errorf("while it pays: %.2f", s)
	}
	run(400, 1)
	if s := run(1000, 1); s > 0.1 {
		t.Errorf("when it has stopped paying: %.2f", s)
	}
	run(6000, 4)
	if s := run(1000, 4); s < 0.75 {
		t.Errorf("when it does again: %.2f", s)
	}
}

// TestPaceBegins: pace starts without a draft, since short texts gain nothing.
func TestPaceBegins(t *testing.T) {
	var p pace
	for i := range warmSteps + countSteps {
		if p.proposals(4) > 0 {
			t.Fatalf("step %d has a draft", i)
		}
		p.recordAlone(1, 10)
	}
	if n := p.proposals(4); n != 1 {
		t.Errorf("a trial of %d tokens follows, want 1", n)
	}
}

// TestPaceGivesUp: a draft with few accepted tokens is dropped after a few
// guesses, whatever the clock; a trial at twice the time ends early, one close
// to paying is completed.
func TestPaceGivesUp(t *testing.T) {
	for _, c := range []struct {
		gain    int           // tokens of a step
		helped  time.Duration // of a step with four proposals
		guesses int
		want    int // full steps
	}{
		{1, 10, guessSteps, 0},          // none accepted
		{2, 130, guessSteps, 0},         // a guess takes too long for a trial
		{2, 40, guessSteps, fewSteps},   // a trial shows it
		{2, 24, guessSteps, countSteps}, // and one close to paying is completed
	} {
		var p pace
		for p.proposals(4) == 0 {
			p.recordAlone(1, 10)
		}
		guesses, steps := 0, 0
		for n := p.proposals(4); n > 0; n = p.proposals(4) {
			if n == 1 {
				guesses++
			} else {
				steps++
			}
			p.recordDraft(c.gain, 10+(c.helped-10)*time.Duration(n)/4)
		}
		if guesses != c.guesses || steps != c.want {
			t.Errorf("%d tokens at %d against 10: %d guesses and %d steps, want %d and %d", c.gain, c.helped, guesses, steps, c.guesses, c.want)
		}
	}
}

// TestPaceOnABusyMachine: interrupted steps do not count.
func TestPaceOnABusyMachine(t *testing.T) {
	var p pace
	drafted := 0
	for i := range 3000 {
		busy := time.Duration(1)
		if i%3 == 0 {
			busy = 100
		}
		if n := p.proposals(4); n > 0 {
			drafted++
			p.recordDraft(2, 10+5*time.Duration(n))
		} else {
			p.recordAlone(1, 10*busy)
		}
	}
	if drafted > 60 {
		t.Errorf("%d of 3000 steps have a draft that costs more than it gains", drafted)
	}
}

// A draft that is never right proposes a handful of tokens and does not change
// the text.
func TestBadDraft(t *testing.T) {
	cfg := tiny("llama", 10)
	cfg.Context = 256
	w := random(cfg, 1)
	blank := random(cfg, 2)
	for name := range blank {
		clear(blank[name].Data) // proposes the first token of the vocabulary
	}
	generate := func(opt GenerateOptions) (got []int32, stats Stats) {
		t.Helper()
		s := open(t, cfg, w, SessionOptions{})
		if err := s.Feed(t.Context(), []int32{1, 2}); err != nil {
			t.Fatal(err)
		}
		opt.MaxTokens = 240
		// A different token each time, never the first one.
		opt.Mask = func(history []int32, logits []float32) error {
			logits[0], logits[history[len(history)-1]] = float32(math.Inf(-1)), float32(math.Inf(-1))
			return nil
		}
		stats, err := s.Generate(t.Context(), opt, func(tok Token) error { got = append(got, tok.ID); return nil })
		if err != nil {
			t.Fatal(err)
		}
		return got, stats
	}
	want, _ := generate(GenerateOptions{})
	got, stats := generate(GenerateOptions{Draft: open(t, cfg, blank, SessionOptions{})})
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if stats.Drafted > guessSteps || stats.Accepted >= guessRight {
		t.Errorf("%d tokens proposed, %d accepted; want at most %d", stats.Drafted, stats.Accepted, guessSteps)
	}
}
