package train

import (
	"context"
	"math"
	"testing"
)

// spy records the calls of an optimizer.
type spy struct {
	mover
	rates, scales []float64
}

func (s *spy) Step(rate, scale float64) {
	s.rates, s.scales = append(s.rates, rate), append(s.scales, scale)
	s.mover.Step(rate, scale)
}

// A gradient above the bound is scaled down to it, one below is unchanged, and
// the rate is the peak times the schedule.
func TestClip(t *testing.T) {
	for _, bound := range []float64{2, 1e-3, -1} {
		dir := t.TempDir()
		cfg := smallConfig(t, dir)
		cfg.Clip, cfg.LogEvery, cfg.Stop.Steps = bound, 1, 12
		r := &recorder{}
		tr, err := NewLM(cfg, prepare(t, cfg, dir), Options{Observer: r})
		if err != nil {
			t.Fatal(err)
		}
		s := &spy{mover: tr.mover}
		tr.mover = s
		if err := tr.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		tr.Close()
		i, clipped := 0, 0
		for _, e := range r.events {
			e, ok := e.(Step)
			if !ok {
				continue
			}
			want := 1.0
			if bound > 0 && e.GradNorm > bound {
				want = bound / e.GradNorm
				clipped++
			}
			if math.Abs(s.scales[i]-want) > 1e-12 {
				t.Errorf("clip %v, norm %v: gradient scaled by %v, want %v", bound, e.GradNorm, s.scales[i], want)
			}
			if rate := cfg.WithDefaults().Optimizer.Rate * cfg.Schedule.At(i, float64(i)/12); math.Abs(s.rates[i]-rate) > 1e-12 || rate != e.Rate {
				t.Errorf("step %d: rate %v, reported %v, want %v", i, s.rates[i], e.Rate, rate)
			}
			i++
		}
		if i != 12 || bound == 1e-3 && clipped != 12 || bound == -1 && clipped != 0 || bound == 2 && (clipped == 0 || clipped == 12) {
			t.Errorf("clip %v: %d steps, %d clipped", bound, i, clipped)
		}
	}
}
