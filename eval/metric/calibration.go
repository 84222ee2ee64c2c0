package metric

import "math"

// CalibrationBins is the number of bins of [CalibrationError].
const CalibrationBins = 15

// Calibration returns the numbers that an answer contributes to [CalibrationError]:
// the excess of its probability p of being right, in the bin of p.
func Calibration(p float64, right bool) []float64 {
	out := make([]float64, CalibrationBins)
	// Bins are open below and closed above.
	bin := max(0, min(CalibrationBins-1, int(math.Ceil(p*CalibrationBins))-1))
	if out[bin] = p; right {
		out[bin]--
	}
	return out
}

// CalibrationError returns the expected calibration error of summed excesses (Naeini et
// al., 2015, with the bins of Guo et al., 2017): the mean distance of the probability
// from the share of right answers in bins of equal width, weighted by their sizes.
func CalibrationError(sum []float64, n int) float64 {
	total := 0.0
	for _, x := range sum {
		total += math.Abs(x)
	}
	return total / float64(n)
}
