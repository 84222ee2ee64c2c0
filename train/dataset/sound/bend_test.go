package sound

import (
	"math"
	"testing"
)

// A stretched tone keeps its pitch and level, a resampled one gets higher; both
// get shorter by the factor.
func TestBent(t *testing.T) {
	const pitch, n = 440, Rate
	v := make([]float64, n)
	for i := range v {
		v[i] = math.Sin(2 * math.Pi * pitch * float64(i) / Rate)
	}
	for name, c := range map[string]struct {
		bend  func([]float64, float64) []float64
		moves bool
	}{"stretched": {stretched, false}, "resampled": {resampled, true}} {
		for _, factor := range []float64{0.7, 1.3, 1.9} {
			got := c.bend(v, factor)
			if want := n / factor; math.Abs(float64(len(got))-want) > 1 {
				t.Errorf("%s by %v: %d samples, want %.0f", name, factor, len(got), want)
			}
			inner := got[len(got)/5 : len(got)*4/5]
			crossed, power := 0.0, 0.0
			for i := 1; i < len(inner); i++ {
				if (inner[i] > 0) != (inner[i-1] > 0) {
					crossed++
				}
				power += inner[i] * inner[i]
			}
			want := float64(pitch)
			if c.moves {
				want *= factor
			}
			if measured := crossed / 2 * Rate / float64(len(inner)); math.Abs(measured-want) > 0.02*want {
				t.Errorf("%s by %v: %.0f Hz, want %.0f", name, factor, measured, want)
			}
			if level := math.Sqrt(2 * power / float64(len(inner))); level < 0.9 || level > 1.05 {
				t.Errorf("%s by %v: of level %.2f", name, factor, level)
			}
		}
	}
	if got := stretched(v[:100], 2); len(got) != 100 {
		t.Errorf("sound shorter than a frame: %d samples", len(got))
	}
	if got := resampled(nil, 2); len(got) != 0 {
		t.Errorf("empty sound: %d samples", len(got))
	}
}

// A filter keeps its pass band and attenuates by 12 dB per octave outside of
// it.
func TestFilters(t *testing.T) {
	level := func(pitch, cut float64, high bool) float64 {
		v := make([]float64, Rate)
		for i := range v {
			v[i] = math.Sin(2 * math.Pi * pitch * float64(i) / Rate)
		}
		butterworth(v, cut, high)
		power := 0.0
		for _, x := range v[Rate/2:] {
			power += x * x
		}
		return 10 * math.Log10(4*power/Rate)
	}
	for _, c := range []struct {
		pitch, cut float64
		high       bool
		low, top   float64
	}{
		{200, 2000, false, -0.1, 0.1}, {2000, 2000, false, -3.2, -2.8}, {4000, 1000, false, -30, -22},
		{4000, 400, true, -0.1, 0.1}, {400, 400, true, -3.2, -2.8}, {100, 400, true, -25, -23},
	} {
		if got := level(c.pitch, c.cut, c.high); got < c.low || got > c.top {
			t.Errorf("%v Hz through %v (%v): %.1f dB", c.pitch, c.cut, c.high, got)
		}
	}
}
