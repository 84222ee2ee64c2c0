package suite

import (
	"math"
	"slices"

	"mm-abi.org/mm/eval/metric"
)

// The methods of intervals.
const (
	byWilson    = "Wilson, 95 %"
	byClusters  = "Wilson, 95 %, effective n of clusters"
	byBootstrap = "bootstrap, 95 %, 2000 draws"
)

// figure returns a metric of items with its standard error and its interval.
func figure(k kind, items [][]float64, clusters []int) Score {
	n := len(items)
	sum := make([]float64, len(items[0]))
	for _, item := range items {
		for i, x := range item {
			sum[i] += x
		}
	}
	s := Score{Metric: k.name, Value: k.value(sum, n), N: n, Higher: k.higher}
	if clusters != nil {
		s.Clusters = slices.Max(clusters) + 1
	}
	values := make([]float64, n)
	for i, item := range items {
		values[i] = item[0]
	}
	if k.yes {
		s.Method, s.Interval = byWilson, metric.Wilson(s.Value, float64(n))
		if clusters != nil {
			s.Method, s.Interval = byClusters, metric.Wilson(s.Value, metric.Effective(values, clusters))
		}
	}
	var draws []float64
	if !k.yes || clusters != nil {
		draws = metric.Draws(items, clusters, k.value)
	}
	if !k.yes {
		s.Method, s.Interval = byBootstrap, metric.Percentiles(draws, 0.95)
	}
	switch {
	case n < 2:
	case k.aggregation == "mean" && clusters == nil:
		e := metric.Deviation(values) / math.Sqrt(float64(n)) // the harness's
		s.Error = &e
	default:
		if draws == nil {
			draws = metric.Draws(items, clusters, k.value)
		}
		e := metric.Deviation(draws)
		s.Error = &e
	}
	return s
}
