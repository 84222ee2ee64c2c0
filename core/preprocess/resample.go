package preprocess

import (
	"fmt"
	"math"
)

// halfTaps is the reach of the filter to each side, in periods of the lower
// rate, and beta the shape of its Kaiser window: SciPy's resample_poly.
const (
	halfTaps = 10
	beta     = 5.0
)

// ResampleTo returns the sound at another rate: a polyphase low-pass of windowed
// sinc, zeros beyond the ends, ⌈n·to/from⌉ samples.
func (w *Wave) ResampleTo(to int) (*Wave, error) {
	if to == w.Rate {
		return w, nil
	}
	if to < minRate || to > maxRate || w.Rate < minRate || w.Rate > maxRate {
		return nil, fmt.Errorf("resampling from %d to %d Hz: want %d to %d", w.Rate, to, minRate, maxRate)
	}
	g := gcd(w.Rate, to)
	up, down := to/g, w.Rate/g
	n := (int64(len(w.Samples))*int64(up) + int64(down) - 1) / int64(down)
	if tooManySamples(n) {
		return nil, fmt.Errorf("resampling to %d Hz: %d samples exceed the limit of %d", to, n, maxSamples)
	}
	filter := lowPass(up, down)
	half := len(filter) / 2
	out := &Wave{Rate: to, Samples: make([]float32, n)}
	for i := range out.Samples {
		// The filter of output i is centered at i·down among the inputs, which
		// are up apart.
		center := i * down
		first := max((center-half+up-1)/up, 0)
		if center < half {
			first = 0
		}
		last := min((center+half)/up, len(w.Samples)-1)
		sum := 0.0
		for k := first; k <= last; k++ {
			sum += float64(w.Samples[k]) * filter[center-k*up+half]
		}
		out.Samples[i] = float32(sum)
	}
	return out, nil
}

// lowPass returns the windowed sinc at up times the rate, of gain up.
func lowPass(up, down int) []float64 {
	slower := max(up, down)
	half := halfTaps * slower
	h := make([]float64, 2*half+1)
	sum := 0.0
	for i := range h {
		x := float64(i-half) / float64(slower)
		v := 1.0
		if x != 0 {
			v = math.Sin(math.Pi*x) / (math.Pi * x)
		}
		edge := float64(i-half) / float64(half)
		h[i] = v * bessel(beta*math.Sqrt(1-edge*edge)) / bessel(beta)
		sum += h[i]
	}
	for i := range h {
		h[i] *= float64(up) / sum
	}
	return h
}

// bessel is the modified Bessel function of the first kind of order 0, by its
// series.
func bessel(x float64) float64 {
	sum, term := 1.0, 1.0
	for k := 1.0; term > sum*1e-17; k++ {
		term *= x / 2 / k * (x / 2 / k)
		sum += term
	}
	return sum
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
