package study

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Interval bounds a difference.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Comparison is a paired difference of an arm and another, or a model of token counts, on
// the sealed documents.
type Comparison struct {
	Arm        string     `json:"arm"`
	Against    string     `json:"against"`
	Metric     string     `json:"metric"`
	Values     [2]float64 `json:"values"` // of arm and against
	Difference float64    `json:"difference"`
	Interval   Interval   `json:"interval"`
	Level      float64    `json:"level"` // of the interval, after the correction
	Documents  int        `json:"documents"`
	Seeds      int        `json:"seeds"`
	Freedom    float64    `json:"degrees_of_freedom"`
	Error      float64    `json:"standard_error"`
}

// pairs are the results of two sides on the same documents, by seed. A side without seeds
// has one result.
type pairs struct{ a, b []Result }

// compare returns the paired difference with its interval at a level. The difference is
// that of the means per token, or per byte in bits. Its error has two parts: of the
// documents, with the seeds averaged, as a ratio of sums, and of the seeds. Their degrees of
// freedom are joined as Satterthwaite does (Biometrics 2, 1946).
func compare(p pairs, metric string, level float64) Comparison {
	seeds, docs := len(p.a), len(p.a[0].Nats)
	c := Comparison{Metric: metric, Level: level, Documents: docs, Seeds: seeds}
	weight := make([]float64, docs)
	total := 0.0
	for i := range weight {
		weight[i] = float64(p.a[0].Counts[i])
		if metric == "bits_per_byte" {
			weight[i] = float64(p.a[0].Bytes[i]) * math.Ln2
		}
		total += weight[i]
	}
	mean, bySeed := make([]float64, docs), make([]float64, seeds)
	for s := range seeds {
		for i := range docs {
			a, b := p.a[s].Nats[i], p.b[s%len(p.b)].Nats[i]
			mean[i] += (a - b) / float64(seeds)
			bySeed[s] += (a - b) / total
			c.Values[0] += a / total / float64(seeds)
			c.Values[1] += b / total / float64(seeds)
		}
		c.Difference += bySeed[s] / float64(seeds)
	}
	byDocument := 0.0
	for i, d := range mean {
		e := d - c.Difference*weight[i]
		byDocument += e * e
	}
	byDocument *= float64(docs) / float64(docs-1) / (total * total)
	between := 0.0
	for _, d := range bySeed {
		between += (d - c.Difference) * (d - c.Difference)
	}
	variance, low := byDocument, byDocument*byDocument/float64(docs-1)
	if seeds > 1 {
		between /= float64(seeds-1) * float64(seeds)
		variance += between
		low += between * between / float64(seeds-1)
	}
	c.Error, c.Freedom = math.Sqrt(variance), float64(docs-1)
	if low > 0 {
		c.Freedom = variance * variance / low
	}
	half := student(1-(1-level)/2, c.Freedom) * c.Error
	c.Interval = Interval{c.Difference - half, c.Difference + half}
	return c
}

// student returns the quantile of Student's distribution at p above 0.5.
func student(p, freedom float64) float64 {
	x := mathext.InvRegIncBeta(freedom/2, 0.5, 2*(1-p))
	return math.Sqrt(freedom * (1 - x) / x)
}
