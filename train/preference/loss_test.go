package preference

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// objectives returns each loss, with parameters off their defaults.
func objectives() []Objective {
	return []Objective{{Kind: DPO, Beta: 0.3}, {Kind: DPO, Beta: 0.1, Smoothing: 0.2}, {Kind: IPO, Beta: 0.7}, {Kind: ORPO, Beta: 0.25}, {Kind: KTO, Beta: 0.4, SFT: 0.5}}
}

// answers returns two pairs, with the answers of KTO if rows is 3.
func answers(rows int) []Answer {
	all := []Answer{{9, 11, 7}, {14, 12.5, 9}, {8, 8.75, 3}, {21, 20, 12}, {17, 17.5, 8}, {30, 31, 20}}
	if rows == 3 {
		return all
	}
	return append(all[:2:2], all[3:5]...)
}

// The factors are the derivatives of the loss, by central differences; KTO's
// baseline is constant in them.
func TestLossDerivatives(t *testing.T) {
	const h = 1e-5
	for _, o := range objectives() {
		a := answers(o.Rows())
		factors, unused := make([]float64, len(a)), make([]float64, len(a))
		o.Loss(a, 2, factors)
		for i := range a {
			if o.Rows() == 3 && i%3 == 2 {
				if factors[i] != 0 {
					t.Errorf("%+v: factor %v of an unrelated answer", o, factors[i])
				}
				continue
			}
			at := a[i].Nats
			a[i].Nats = at + h
			up := o.Loss(a, 1, unused)
			a[i].Nats = at - h
			down := o.Loss(a, 1, unused)
			a[i].Nats = at
			if want := 2 * (up - down) / (2 * h); math.Abs(want-factors[i]) > 1e-8 || factors[i] == 0 {
				t.Errorf("%+v: factor %d: %v, want %v", o, i, factors[i], want)
			}
		}
	}
}

// Losses and derivatives are those of PyTorch's formulas (testdata, written by
// scripts/preference.py).
func TestLossGolden(t *testing.T) {
	raw, err := os.ReadFile("testdata/losses.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Objective Objective
		Answers   [][3]float64
		Loss      float64
		Factors   []float64
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	seen := map[Kind]int{}
	for _, c := range cases {
		var a []Answer
		for _, one := range c.Answers {
			a = append(a, Answer{one[0], one[1], int(one[2])})
		}
		factors := make([]float64, len(a))
		if got := c.Objective.Loss(a, 1, factors); math.Abs(got-c.Loss) > 1e-9*max(1, math.Abs(c.Loss)) {
			t.Errorf("%+v: loss %v, want %v", c.Objective, got, c.Loss)
		}
		for i := range factors {
			if math.Abs(factors[i]-c.Factors[i]) > 1e-9*max(1, math.Abs(c.Factors[i])) {
				t.Errorf("%+v: factor %d: %v, want %v", c.Objective, i, factors[i], c.Factors[i])
			}
		}
		seen[c.Objective.Kind]++
	}
	for _, k := range kinds() {
		if seen[k] < 3 {
			t.Errorf("%d cases of %s", seen[k], k)
		}
	}
}

// Extreme losses stay finite: certain answers and answers without probability.
func TestLossExtremes(t *testing.T) {
	for _, o := range objectives() {
		for _, nats := range []float64{0, 1e-300, 1e4, 1e8} {
			a := make([]Answer, o.Rows())
			for i := range a {
				a[i] = Answer{Nats: nats, Reference: 3, Tokens: 5}
			}
			a[1].Nats = 0
			factors := make([]float64, len(a))
			loss := o.Loss(a, 1, factors)
			for _, v := range append(factors, loss) {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					t.Errorf("%+v, %v nats: loss %v, factors %v", o, nats, loss, factors)
				}
			}
		}
	}
}

func TestPrefers(t *testing.T) {
	better, worse := Answer{Nats: 20, Reference: 25, Tokens: 2}, Answer{Nats: 10, Reference: 12, Tokens: 2}
	for _, o := range objectives() {
		// The first has gained more, the second is likelier.
		if o.Prefers(better, worse) != o.Referenced() || o.Prefers(worse, better) == o.Referenced() {
			t.Errorf("%s prefers wrongly", o.Kind)
		}
	}
}
