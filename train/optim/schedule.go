package optim

import (
	"fmt"
	"math"
)

// Schedule is the learning rate over a run as a factor of its peak: a linear
// warm-up, then a curve by Kind.
type Schedule struct {
	// Kind is "wsd" (warm-up, stable, decay: flat, then linear to Floor; Hu et
	// al., arXiv 2404.06395), "cosine" (half a cosine to Floor), "linear" or
	// "constant". Empty means "wsd".
	Kind   string  `json:"kind,omitempty"`
	Warmup int     `json:"warmup,omitempty"` // steps of linear warm-up
	Floor  float64 `json:"floor,omitempty"`  // factor at the end
	// Stable is the share of the run, warm-up included, after which wsd decays;
	// 0 means 0.6.
	Stable float64 `json:"stable,omitempty"`
}

// Validate reports invalid fields.
func (s Schedule) Validate() error {
	switch s.Kind {
	case "", "wsd", "cosine", "linear", "constant":
	default:
		return fmt.Errorf("unknown schedule %q, want wsd, cosine, linear or constant", s.Kind)
	}
	if s.Warmup < 0 || !(s.Floor >= 0 && s.Floor <= 1) || !(s.Stable >= 0 && s.Stable <= 1) {
		return fmt.Errorf("schedule with warmup %d, floor %v, stable %v: want warmup of at least 0, the others in [0, 1]", s.Warmup, s.Floor, s.Stable)
	}
	return nil
}

// Warm returns the factor of the warm-up alone at a step.
func (s Schedule) Warm(step int) float64 {
	if step < s.Warmup {
		return float64(step+1) / float64(s.Warmup)
	}
	return 1
}

// At returns the factor at a step. done is the completed share of the run, in
// [0, 1], of its steps, tokens or time, whichever ends it.
func (s Schedule) At(step int, done float64) float64 {
	if step < s.Warmup {
		return s.Warm(step)
	}
	done = min(max(done, 0), 1)
	fall := done
	if s.Warmup > 0 && s.Kind != "" && s.Kind != "wsd" { // decays from the end of warm-up
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
