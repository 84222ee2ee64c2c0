package metric

import "math"

// McNemar returns the p value of the exact test that b and c items, right in only one of
// two runs, are equally likely (McNemar, Psychometrika 12, 1947).
func McNemar(b, c int) float64 {
	n, least := b+c, min(b, c)
	if b == c {
		return 1
	}
	sum, log := 0.0, -float64(n)*math.Ln2
	for k := 0; k <= least; k++ {
		sum += math.Exp(log)
		log += math.Log(float64(n-k)) - math.Log(float64(k+1))
	}
	return min(1, 2*sum)
}

// Tango returns the score interval of the difference of two paired proportions, of n
// items, b right only in the first run and c only in the second, for a normal quantile
// (Tango, Stat. Med. 17, 1998). The difference is that of the second run.
func Tango(n, b, c int, z float64) Interval {
	d := float64(c-b) / float64(n)
	edge := func(to float64, sign float64) float64 {
		low, high := d, to
		for range 60 {
			mid := (low + high) / 2
			if sign*tangoScore(n, b, c, mid) < z {
				low = mid
			} else {
				high = mid
			}
		}
		return low
	}
	return Interval{edge(-1, 1), edge(1, -1)}
}

// tangoScore returns how many standard errors the difference is above delta.
func tangoScore(n, b, c int, delta float64) float64 {
	m, onlyA, onlyB := float64(n), float64(b), float64(c)
	// The likelihood of the share right only in the first run at the difference delta.
	p, q := 2*m, -onlyA-onlyB+(2*m-onlyB+onlyA)*delta
	share := (math.Sqrt(max(0, q*q-4*p*(-onlyA*delta*(1-delta)))) - q) / (2 * p)
	variance := m * (2*share + delta*(1-delta))
	if variance <= 0 {
		return math.Copysign(math.Inf(1), onlyB-onlyA-m*delta)
	}
	return (onlyB - onlyA - m*delta) / math.Sqrt(variance)
}

// Quantile95 and QuantileGate are the quantiles of a two-sided interval of 95 % and of a
// one-sided bound of 95 %.
const (
	Quantile95   = z95
	QuantileGate = oneSided
)

// Needed returns the number of paired items that show, with a power of 80 %, that a run
// is less than a margin worse, if a share of the items is right in only one run.
func Needed(discordance, margin float64) int {
	z := oneSided + power80
	return int(math.Ceil(z * z * discordance / (margin * margin)))
}

// Holm returns p values adjusted for their number (Holm, Scand. J. Stat. 6, 1979).
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	for i := 1; i < len(order); i++ {
		for j := i; j > 0 && p[order[j]] < p[order[j-1]]; j-- {
			order[j], order[j-1] = order[j-1], order[j]
		}
	}
	out, most := make([]float64, len(p)), 0.0
	for rank, i := range order {
		most = max(most, min(1, p[i]*float64(len(p)-rank)))
		out[i] = most
	}
	return out
}
