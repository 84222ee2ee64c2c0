package study

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"mm-abi.org/mm/lab/chain"
	"mm-abi.org/mm/train"
)

// The quantiles are those of tables (Student, Biometrika 6).
func TestStudent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ p, freedom, want float64 }{{0.975, 1, 12.7062}, {0.975, 2, 4.3027}, {0.975, 10, 2.2281}, {0.995, 30, 2.7500}, {0.975, 1e6, 1.9600}} {
		if got := student(c.p, c.freedom); math.Abs(got-c.want) > 1e-4 {
			t.Errorf("p %v, %v degrees: got %.4f, want %v", c.p, c.freedom, got, c.want)
		}
	}
}

// drawn returns results of seeds on documents: the loss of a document, an effect of the
// seed, noise, and a shift.
func drawn(rng *rand.Rand, seeds, docs int, shift, ofSeed, noise float64) []Result {
	out := make([]Result, seeds)
	for s := range out {
		e := rng.NormFloat64() * ofSeed
		for d := range docs {
			n := 50 + d%17
			out[s].Nats = append(out[s].Nats, float64(n)*(5+float64(d%5)/10+shift+e+rng.NormFloat64()*noise))
			out[s].Counts, out[s].Bytes = append(out[s].Counts, n), append(out[s].Bytes, 3*n)
		}
	}
	return out
}

// Intervals of 95 % hold the true difference in about 95 % of studies, whether it varies
// with documents, with seeds or with both.
func TestCoverage(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		seeds         int
		ofSeed, noise float64
	}{{3, 0, 0.3}, {3, 0.05, 0.01}, {5, 0.05, 0.3}, {1, 0, 0.3}} {
		hits, studies := 0, 600
		for range studies {
			p := pairs{drawn(rng, c.seeds, 40, -0.2, c.ofSeed, c.noise), drawn(rng, c.seeds, 40, 0, c.ofSeed, c.noise)}
			if d := compare(p, "loss", 0.95); d.Interval.Low <= -0.2 && -0.2 <= d.Interval.High {
				hits++
			}
		}
		if share := float64(hits) / float64(studies); share < 0.92 || share > 1 {
			t.Errorf("%+v: the intervals hold the difference in %.3f of the studies", c, share)
		}
	}
}

// The fit finds the law that made the cells, and reports when the cells do not bind it.
func TestLaw(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("skipped in short mode: fits hundreds of samples")
	}
	cells := func(sizes, tokens []float64, loss func(n, d float64) float64) (*Law, [][]Result) {
		l, rng := &Law{}, rand.New(rand.NewPCG(3, 4))
		var results [][]Result
		for _, n := range sizes {
			for _, d := range tokens {
				r := drawn(rng, 2, 50, loss(n, d)-5.2, 0, 0.001)
				l.Points = append(l.Points, LawPoint{Parameters: int(n), Tokens: int(d), Loss: (r[0].loss() + r[1].loss()) / 2})
				results = append(results, r)
			}
		}
		return l, results
	}
	law := func(n, d float64) float64 { return 2 + 1.5*math.Pow(n/1000, -0.5) + 2*math.Pow(d/1000, -0.3) }
	sizes, tokens := []float64{1000, 4000, 16000, 64000}, []float64{1000, 4000, 16000, 64000}
	l, results := cells(sizes, tokens, law)
	c := l.curve()
	c.fit()
	if math.Abs(c.alpha-0.5) > 0.05 || math.Abs(c.beta-0.3) > 0.05 || math.Abs(c.e-2) > 0.3 {
		t.Errorf("got E %.3f, alpha %.3f, beta %.3f", c.e, c.alpha, c.beta)
	}
	l.A, l.B = c.a, c.b
	l.bootstrap(results)
	if l.judge(); !l.Identified || math.Abs(l.Intervals["alpha"].Low-0.5) > 0.02 || math.Abs(l.Intervals["alpha"].High-0.5) > 0.02 {
		t.Errorf("got %+v, %v", l.Intervals, l.Why)
	}
	if few, _ := cells(sizes[:2], tokens, law); few.short() == nil {
		t.Error("two sizes bind the law")
	}
	flat, results := cells(sizes, tokens, func(_, d float64) float64 { return 2 + 2*math.Pow(d/1000, -0.3) })
	c = flat.curve()
	c.fit()
	flat.A, flat.B = c.a, c.b
	flat.bootstrap(results)
	if flat.judge(); flat.Identified {
		t.Errorf("a loss that does not depend on the size binds alpha: %+v", flat.Intervals)
	}
}

// played is a [Runner] that trains nothing: the loss is a function of the rate.
type played struct {
	t      *testing.T
	sealed *bool
	opened []string
}

func (p *played) Run(_ context.Context, text []byte) ([]byte, error) {
	var s Spec
	var cfg train.Config
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(s.Recipe, &cfg); err != nil {
		return nil, err
	}
	if s.Score == judgeFile && !*p.sealed {
		p.t.Error("a trial opened the sealed documents before the choice")
	}
	p.opened = append(p.opened, fmt.Sprintf("%v@%d %s", cfg.Optimizer.Rate, s.Until, filepath.Base(s.Score)))
	sum := sha256.Sum256(text)
	r := Result{Spec: hex.EncodeToString(sum[:]), Step: s.Until, Tokens: s.Until * stepTokens(cfg)}
	for d := range 12 {
		r.Nats, r.Counts, r.Bytes = append(r.Nats, 10*(cfg.Optimizer.Rate+1)+float64(d)), append(r.Counts, 10), append(r.Bytes, 30)
	}
	return json.Marshal(r)
}

// Halving keeps the best arms, the base and the arms of hypotheses; the sealed documents
// are opened last.
func TestHalving(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, text := write(t, dir, `
name: halving
recipe: recipe.yaml
tokens: 1024
seeds: [1]
held_out: {choose: 0.15, judge: 0.15, documents: 12}
scheduler: {kind: halving, eta: 2, rungs: [256, 512]}
mutations: [{kind: rate, values: [1.0e-5, 2.0e-5, 1, 2, 3]}]
hypotheses: [{name: worst, claim: c, arm: rate=3, expect: {below: 0}, refute: {above: 0}}]
`)
	key, sealed := newKey(t), false
	r := &played{t: t, sealed: &sealed}
	_, err := Run(context.Background(), s, Options{Dir: filepath.Join(dir, "run"), Key: key, Verifier: key.Public(), Text: text, Runner: r,
		Each: func(row chain.Row) { sealed = sealed || row.Event == Sealed }})
	if err != nil {
		t.Fatal(err)
	}
	v := openView(t, filepath.Join(dir, "run"), key)
	dropped := map[string]int{"rate=1": 256, "rate=2": 256, "rate=2e-05": 512}
	for name, rung := range dropped {
		if v.at.dropped[name] != rung {
			t.Errorf("%s: dropped at %d, want %d", name, v.at.dropped[name], rung)
		}
	}
	if len(v.at.dropped) != len(dropped) || v.at.winner != "rate=1e-05" {
		t.Errorf("dropped %v, winner %s", v.at.dropped, v.at.winner)
	}
	if n := len(r.opened); n != 6+4+3+3 || slices.ContainsFunc(r.opened[:n-3], func(s string) bool { return filepath.Ext(s) != ".jsonl" }) {
		t.Errorf("got %d trials: %q", n, r.opened)
	}
	if want := v.Study.Plan().Tokens; v.at.tokens != want {
		t.Errorf("got %d tokens, planned %d", v.at.tokens, want)
	}
}
