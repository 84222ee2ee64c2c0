package study

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Law is the fit of L = E + A/(N/n)^a + B/(D/d)^b to the cells of a grid: N are parameters,
// D tokens of training, L the loss on the sealed documents, n and d the smallest N and D.
type Law struct {
	Points       []LawPoint          `json:"points"`
	Identified   bool                `json:"identified"`
	Why          []string            `json:"why,omitempty"` // not identified
	E            float64             `json:"e"`
	A            float64             `json:"a"`
	B            float64             `json:"b"`
	Alpha        float64             `json:"alpha"`
	Beta         float64             `json:"beta"`
	Intervals    map[string]Interval `json:"intervals,omitempty"` // 95 %, by bootstrap of documents and seeds
	ResidualRoot float64             `json:"residual_rms"`
}

// LawPoint is a cell with its residual.
type LawPoint struct {
	Arm        string  `json:"arm"`
	Parameters int     `json:"parameters"`
	Tokens     int     `json:"tokens"`
	Loss       float64 `json:"loss"`
	Residual   float64 `json:"residual"`
}

// The exponents that the fit searches, and the draws of its bootstrap.
const (
	leastExponent = 0.05
	mostExponent  = 2.0
	coarse        = 0.05
	lawDraws      = 200
	minLawCells   = 7
)

// curve is a law with its data in units of the smallest cell.
type curve struct {
	n, d, loss  []float64
	e, a, b     float64
	alpha, beta float64
	sum         float64 // of squared residuals
}

// fitLaw fits the law to the judged cells of the grid; nil without a grid.
func fitLaw(s Study, at *state) *Law {
	if s.Grid == nil {
		return nil
	}
	law := &Law{}
	var results [][]Result // by cell and seed
	for _, arm := range s.gridArms() {
		loss, ok := at.mean(arm.Name, s.Seeds, 0)
		if !ok {
			continue
		}
		var of []Result
		for _, seed := range s.Seeds {
			of = append(of, at.results[cell{arm.Name, seed, 0}].Result)
		}
		results = append(results, of)
		trained := at.results[cell{arm.Name, s.Seeds[0], arm.Tokens}]
		law.Points = append(law.Points, LawPoint{Arm: arm.Name, Parameters: trained.Parameters, Tokens: trained.Tokens, Loss: loss})
	}
	if law.Why = law.short(); law.Why != nil {
		return law
	}
	c := law.curve()
	c.fit()
	law.E, law.A, law.B, law.Alpha, law.Beta = c.e, c.a, c.b, c.alpha, c.beta
	for i := range law.Points {
		law.Points[i].Residual = c.loss[i] - c.at(i)
	}
	law.ResidualRoot = math.Sqrt(c.sum / float64(len(c.loss)))
	law.bootstrap(results)
	law.judge()
	return law
}

// short returns why the cells cannot bind the law.
func (l *Law) short() (why []string) {
	sizes, tokens := map[int]bool{}, map[int]bool{}
	for _, p := range l.Points {
		sizes[p.Parameters], tokens[p.Tokens] = true, true
	}
	if len(sizes) < 3 || len(tokens) < 3 || len(l.Points) < minLawCells {
		why = append(why, fmt.Sprintf("%d cells of %d sizes and %d numbers of tokens; five unknowns need at least %d cells of 3 sizes and 3 numbers", len(l.Points), len(sizes), len(tokens), minLawCells))
	}
	return why
}

// curve returns the data of the law.
func (l *Law) curve() *curve {
	c := &curve{}
	least := l.Points[0]
	for _, p := range l.Points {
		least.Parameters, least.Tokens = min(least.Parameters, p.Parameters), min(least.Tokens, p.Tokens)
	}
	for _, p := range l.Points {
		c.n = append(c.n, float64(p.Parameters)/float64(least.Parameters))
		c.d = append(c.d, float64(p.Tokens)/float64(least.Tokens))
		c.loss = append(c.loss, p.Loss)
	}
	return c
}

func (c *curve) at(i int) float64 {
	return c.e + c.a*math.Pow(c.n[i], -c.alpha) + c.b*math.Pow(c.d[i], -c.beta)
}

// fit searches the exponents on a lattice that is refined twice; the factors follow from
// least squares without negative ones.
func (c *curve) fit() {
	c.sum = math.Inf(1)
	lo, hi, step := [2]float64{leastExponent, leastExponent}, [2]float64{mostExponent, mostExponent}, coarse
	for range 3 {
		for alpha := lo[0]; alpha <= hi[0]+step/2; alpha += step {
			for beta := lo[1]; beta <= hi[1]+step/2; beta += step {
				c.try(alpha, beta)
			}
		}
		for k, v := range []float64{c.alpha, c.beta} {
			lo[k], hi[k] = max(v-step, leastExponent), min(v+step, mostExponent)
		}
		step /= 5
	}
}

// try keeps the exponents if they fit better.
func (c *curve) try(alpha, beta float64) {
	columns := make([][]float64, 3)
	for i := range c.loss {
		columns[0] = append(columns[0], 1)
		columns[1] = append(columns[1], math.Pow(c.n[i], -alpha))
		columns[2] = append(columns[2], math.Pow(c.d[i], -beta))
	}
	for set := 7; set > 0; set-- { // all columns first: without negative factors they fit best
		w, ok := solve(columns, c.loss, set)
		if !ok {
			continue
		}
		sum := 0.0
		for i, y := range c.loss {
			e := y - w[0] - w[1]*columns[1][i] - w[2]*columns[2][i]
			sum += e * e
		}
		if sum < c.sum*(1-1e-12) {
			c.sum, c.e, c.a, c.b, c.alpha, c.beta = sum, w[0], w[1], w[2], alpha, beta
		}
		if set == 7 {
			return
		}
	}
}

// solve solves least squares for the columns in set. ok is false if a factor is negative or
// the columns depend on each other.
func solve(columns [][]float64, y []float64, set int) (w [3]float64, ok bool) {
	var use []int
	for k := range columns {
		if set>>k&1 == 1 {
			use = append(use, k)
		}
	}
	m := make([][]float64, len(use))
	for r, k := range use {
		for _, j := range use {
			m[r] = append(m[r], dot(columns[k], columns[j]))
		}
		m[r] = append(m[r], dot(columns[k], y))
	}
	for i := range m {
		p := i
		for r := i + 1; r < len(m); r++ {
			if math.Abs(m[r][i]) > math.Abs(m[p][i]) {
				p = r
			}
		}
		m[i], m[p] = m[p], m[i]
		if math.Abs(m[i][i]) < 1e-9 {
			return w, false
		}
		for r := range m {
			if r == i {
				continue
			}
			f := m[r][i] / m[i][i]
			for k := i; k < len(m[r]); k++ {
				m[r][k] -= f * m[i][k]
			}
		}
	}
	for i, k := range use {
		if w[k] = m[i][len(use)] / m[i][i]; w[k] < 0 {
			return w, false
		}
	}
	return w, true
}

func dot(a, b []float64) (sum float64) {
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// bootstrap draws documents and seeds with replacement, the same for all cells, and fits
// each draw.
func (l *Law) bootstrap(results [][]Result) {
	seeds, docs := len(results[0]), len(results[0][0].Nats)
	rng := rand.New(rand.NewPCG(uint64(docs), uint64(len(results))))
	var all [5][]float64
	for range lawDraws {
		counts, drawn := make([]float64, docs), make([]int, seeds)
		for range docs {
			counts[rng.IntN(docs)]++
		}
		for i := range drawn {
			drawn[i] = rng.IntN(seeds)
		}
		c := l.curve()
		for i, of := range results {
			nats, n := 0.0, 0.0
			for _, k := range drawn {
				for d, times := range counts {
					nats += times * of[k].Nats[d]
					n += times * float64(of[k].Counts[d])
				}
			}
			c.loss[i] = nats / n
		}
		c.fit()
		for k, v := range []float64{c.e, c.a, c.b, c.alpha, c.beta} {
			all[k] = append(all[k], v)
		}
	}
	l.Intervals = map[string]Interval{}
	for k, name := range []string{"e", "a", "b", "alpha", "beta"} {
		slices.Sort(all[k])
		l.Intervals[name] = Interval{all[k][lawDraws/40], all[k][lawDraws-1-lawDraws/40]}
	}
}

// judge decides whether the data bind every unknown.
func (l *Law) judge() {
	for _, x := range []struct {
		name   string
		factor float64
		at     Interval
	}{{"alpha", l.A, l.Intervals["alpha"]}, {"beta", l.B, l.Intervals["beta"]}} {
		switch {
		case x.factor == 0:
			l.Why = append(l.Why, x.name+": its term is zero")
		case x.at.Low <= leastExponent+1e-9 || x.at.High >= mostExponent-1e-9:
			l.Why = append(l.Why, fmt.Sprintf("%s: the interval %.2f to %.2f reaches the end of the search, %v to %v", x.name, x.at.Low, x.at.High, leastExponent, mostExponent))
		}
	}
	if at := l.Intervals["e"]; at.Low == 0 {
		l.Why = append(l.Why, "e: the interval reaches zero")
	}
	l.Identified = len(l.Why) == 0
}
