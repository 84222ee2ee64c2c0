package optim

import (
	"fmt"
	"math"
)

// Schedule is the learning rate over a run, as a factor of its peak: a linear
// warm-up, then what Kind says.
type Schedule struct {
	// Kind is "wsd" (warm-up, stable, decay: flat, then linear to Floor; Hu et
	// al., arXiv 2404.06395), "cosine" (half a cosine to Floor), "linear" or
	// "constant". Empty means "wsd".
	Kind   string  `json:"kind,omitempty"`
	Warmup int     `json:"warmup,omitempty"` // steps of linear warm-up
	Floor  float64 `json:"floor,omitempty"`  // factor at the end
	// Stable is the share of the run, warm-up included, after which wsd falls;
	// 0 means 0.6.
	Stable float64 `json:"stable,omitempty"`
}

// Validate says what is wrong with s.
func (s Schedule) Validate() error {
	switch s.Kind {
	case "", "wsd", "cosine", "linear", "constant":
	default:
		return fmt.Errorf("schedule %q is none of wsd, cosine, linear, constant", s.Kind)
	}
	if s.Warmup < 0 || !(s.Floor >= 0 && s.Floor <= 1) || !(s.Stable >= 0 && s.Stable <= 1) {
		return fmt.Errorf("schedule with warmup %d, floor %v, stable %v: warmup must not be negative, the others lie in [0, 1]", s.Warmup, s.Floor, s.Stable)
	}
	return nil
}

// Warm is the factor of warm-up alone at the given step.
func (s Schedule) Warm(step int) float64 {
	if step < s.Warmup {
		return float64(step+1) / float64(s.Warmup)
	}
	return 1
}

// At is the factor at a step of a run whose done share, in [0, 1], is known:
// of its steps, tokens or time, whichever ends it.
func (s Schedule) At(step int, done float64) float64 {
	if step < s.Warmup {
		return s.Warm(step)
	}
	done = min(max(done, 0), 1)
	fall := done
	if s.Warmup > 0 && s.Kind != "" && s.Kind != "wsd" { // falls from the end of warm-up on
		warm := min(done*float64(s.Warmup)/float64(step), 1)
		if fall = 1; warm < 1 {
			fall = (done - warm) / (1 - warm)
		}
	}
	switch s.Kind {
	case "constant":
		return 1
	case "cosine":
		fall = (1 - math.Cos(math.Pi*fall)) / 2
	case "", "wsd":
		stable := s.Stable
		if stable == 0 {
			stable = 0.6
		}
		fall = 0
		if stable < 1 {
			fall = max(0, (done-stable)/(1-stable))
		}
	}
	return 1 - (1-s.Floor)*fall
}
