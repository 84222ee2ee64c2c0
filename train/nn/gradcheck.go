package nn

import "math"

// Comparison compares one tensor's gradient with central differences.
type Comparison struct {
	Tensor string  // name
	Probed int     // elements compared
	Error  float64 // ‖analytic - numeric‖ / max(‖analytic‖, ‖numeric‖)
	Norm   float64 // ‖numeric‖ over the probed elements
}

// distances are the steps of the differences. The smaller one is tried if the
// curvature of the loss makes the first inexact.
var distances = []float64{2e-5, 4e-6}

// Compare checks grad, the gradient of loss with respect to data, against
// central differences at up to entries elements spread evenly over data. loss
// must read data on every call. data is restored.
func Compare(name string, data, grad []float64, loss func() float64, entries int) Comparison {
	analytic := append([]float64(nil), grad...)
	best := Comparison{Error: math.Inf(1)}
	for _, h := range distances {
		if c := compare(data, analytic, loss, entries, h); c.Error < best.Error {
			best = c
		}
		if best.Error < 1e-7 {
			break
		}
	}
	best.Tensor = name
	return best
}

// compare uses a difference of fourth order, f' = (8·(f(+h) - f(-h)) - (f(+2h)
// - f(-2h))) / 12h.
func compare(data, analytic []float64, loss func() float64, entries int, h float64) Comparison {
	c := Comparison{Probed: min(entries, len(data))}
	var diff, norm float64
	for k := range c.Probed {
		i := k * len(data) / c.Probed
		at := func(step float64) float64 {
			old := data[i]
			data[i] += step
			defer func() { data[i] = old }()
			return loss()
		}
		numeric := (8*(at(h)-at(-h)) - (at(2*h) - at(-2*h))) / (12 * h)
		diff += (numeric - analytic[i]) * (numeric - analytic[i])
		c.Norm += numeric * numeric
		norm += analytic[i] * analytic[i]
	}
	c.Norm = math.Sqrt(c.Norm)
	if scale := max(c.Norm, math.Sqrt(norm)); scale > 0 {
		c.Error = math.Sqrt(diff) / scale
	}
	return c
}
