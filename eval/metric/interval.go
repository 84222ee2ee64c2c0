package metric

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Normal quantiles: of a two-sided interval of 95 %, of a one-sided test at 5 %, and of
// a power of 80 %.
const (
	z95      = 1.959963984540054
	oneSided = 1.6448536269514722
	power80  = 0.8416212335729143
)

// Interval bounds a figure.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Wilson returns the 95 % interval of a proportion of n independent items; n need not be
// an integer (Wilson, J. Am. Stat. Assoc. 22, 1927).
func Wilson(p, n float64) Interval {
	const zz = z95 * z95
	mid := (p + zz/(2*n)) / (1 + zz/n)
	half := z95 / (1 + zz/n) * math.Sqrt(p*(1-p)/n+zz/(4*n*n))
	return Interval{max(0, mid-half), min(1, mid+half)}
}

// Effective returns the number of independent items that a proportion of clustered items
// is worth: items of a cluster agree more than others do. It is at most their number, and
// if all items agree, the number of clusters.
func Effective(values []float64, clusters []int) float64 {
	sums, sizes := map[int]float64{}, map[int]float64{}
	total := 0.0
	for i, v := range values {
		sums[clusters[i]] += v
		sizes[clusters[i]]++
		total += v
	}
	n, groups := float64(len(values)), float64(len(sums))
	p := total / n
	if groups == n {
		return n
	}
	variance := 0.0
	for _, c := range sortedKeys(sums) {
		d := sums[c] - sizes[c]*p
		variance += d * d
	}
	if groups > 1 {
		variance *= groups / (groups - 1)
	}
	variance /= n * n
	if p*(1-p) == 0 || variance == 0 {
		return groups
	}
	return max(1, min(n, p*(1-p)/variance))
}

// Resamples is the number of draws of a bootstrap.
const Resamples = 2000

// Draws returns the values of a figure for samples of the items drawn with replacement,
// sorted. clusters groups items that are drawn together; nil: none are. The seed is
// fixed: the same items have the same draws.
func Draws(items [][]float64, clusters []int, value func(sum []float64, n int) float64) []float64 {
	if len(items) == 0 {
		return nil
	}
	groups, sizes := summed(items, clusters)
	rng := rand.New(rand.NewPCG(0, uint64(len(items))))
	out := make([]float64, Resamples)
	sum := make([]float64, len(items[0]))
	for i := range out {
		clear(sum)
		n := 0
		for range groups {
			g := rng.IntN(len(groups))
			for k, x := range groups[g] {
				sum[k] += x
			}
			n += sizes[g]
		}
		out[i] = value(sum, n)
	}
	slices.Sort(out)
	return out
}

// summed returns the sum and the size of each cluster, in the order of the first items.
func summed(items [][]float64, clusters []int) (sums [][]float64, sizes []int) {
	if clusters == nil {
		return items, slices.Repeat([]int{1}, len(items))
	}
	at := map[int]int{}
	for i, item := range items {
		g, seen := at[clusters[i]]
		if !seen {
			g = len(sums)
			at[clusters[i]] = g
			sums, sizes = append(sums, make([]float64, len(item))), append(sizes, 0)
		}
		sizes[g]++
		for k, x := range item {
			sums[g][k] += x
		}
	}
	return sums, sizes
}

// Percentiles returns the middle part of sorted draws that covers a share.
func Percentiles(draws []float64, share float64) Interval {
	at := func(q float64) float64 {
		x := q * float64(len(draws)-1)
		low := int(x)
		high := min(low+1, len(draws)-1)
		return draws[low] + (x-float64(low))*(draws[high]-draws[low])
	}
	return Interval{at((1 - share) / 2), at((1 + share) / 2)}
}

// Deviation returns the standard deviation of draws: the standard error of the figure.
func Deviation(draws []float64) float64 {
	if len(draws) < 2 {
		return 0
	}
	mean := 0.0
	for _, x := range draws {
		mean += x / float64(len(draws))
	}
	sum := 0.0
	for _, x := range draws {
		sum += (x - mean) * (x - mean)
	}
	return math.Sqrt(sum / float64(len(draws)-1))
}

func sortedKeys(m map[int]float64) []int {
	var out []int
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// Beyond returns the two-sided p value of a difference of zero by draws of it. Draws of
// zero count on both sides.
func Beyond(draws []float64) float64 {
	below, above := 1, 1
	for _, x := range draws {
		if x <= 0 {
			below++
		}
		if x >= 0 {
			above++
		}
	}
	return min(1, 2*float64(min(below, above))/float64(len(draws)+1))
}
