package optim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/pool"
)

// stepper is the common interface of the optimizers.
type stepper interface {
	Step(rate, scale float64)
	State() State
	Restore(State) error
}

// all returns one of each optimizer.
func all(params []Param, p *pool.Pool) map[string]stepper {
	return map[string]stepper{
		"adamw": NewAdamW(params, AdamWOptions{Decay: 0.1}, p),
		"lion":  NewLion(params, LionOptions{Decay: 0.1}, p),
		"sf":    NewScheduleFree(params, AdamWOptions{Decay: 0.1}, p),
		"muon":  NewMuon(params, MuonOptions{Decay: 0.1}, p),
	}
}

// someParams returns a hidden matrix, a wide one, an embedding and a gain.
func someParams(seed uint64) []Param {
	r := rand.New(rand.NewPCG(seed, 1))
	ps := []Param{
		{Name: "tall", Shape: []int{48, 20}, Decay: true, Hidden: true},
		{Name: "wide", Shape: []int{20, 48}, Decay: true, Hidden: true},
		{Name: "embed", Shape: []int{1000, 20}, Decay: true, Rate: 0.5},
		{Name: "gain", Shape: []int{21}},
	}
	for i := range ps {
		n := 1
		for _, d := range ps[i].Shape {
			n *= d
		}
		ps[i].Data, ps[i].Grad = make([]float32, n), make([]float32, n)
		for j := range n {
			ps[i].Data[j], ps[i].Grad[j] = float32(r.NormFloat64()), float32(r.NormFloat64())
		}
	}
	return ps
}

// refresh draws new gradients, the same for the same step.
func refresh(ps []Param, step uint64) {
	r := rand.New(rand.NewPCG(step, 2))
	for _, p := range ps {
		for j := range p.Grad {
			p.Grad[j] = float32(r.NormFloat64())
		}
	}
}

// Every element-wise optimizer equals its formula in float64.
func TestFormulas(t *testing.T) {
	const rate, scale, decay = 0.01, 0.5, 0.1
	type memory struct{ w, m, v, z, x float64 }
	formulas := map[string]func(s *memory, g, rate, decay float64, step int){
		"adamw": func(s *memory, g, rate, decay float64, step int) {
			s.m, s.v = 0.9*s.m+0.1*g, 0.95*s.v+0.05*g*g
			mh, vh := s.m/(1-math.Pow(0.9, float64(step))), s.v/(1-math.Pow(0.95, float64(step)))
			s.w -= rate*decay*s.w + rate*mh/(math.Sqrt(vh)+1e-8)
		},
		"lion": func(s *memory, g, rate, decay float64, _ int) {
			u := 0.9*s.m + 0.1*g
			s.w -= rate*decay*s.w + rate*math.Copysign(1, u)
			s.m = 0.99*s.m + 0.01*g
		},
		"sf": func(s *memory, g, rate, decay float64, step int) {
			s.v = 0.999*s.v + 0.001*g*g
			s.z -= rate * (g/(math.Sqrt(s.v/(1-math.Pow(0.999, float64(step))))+1e-8) + decay*s.w)
			c := 1 / float64(step) // rates are equal here
			s.x = (1-c)*s.x + c*s.z
			s.w = 0.1*s.z + 0.9*s.x
		},
	}
	for name, formula := range formulas {
		t.Run(name, func(t *testing.T) {
			ps := someParams(1)
			var states [][]memory
			for _, p := range ps {
				var m []memory
				for _, w := range p.Data {
					v := float64(w)
					m = append(m, memory{w: v, z: v, x: v})
				}
				states = append(states, m)
			}
			o := all(ps, nil)[name]
			for step := 1; step <= 7; step++ {
				refresh(ps, uint64(step))
				for i, p := range ps {
					d := decay
					if !p.Decay {
						d = 0
					}
					for j, g := range p.Grad {
						formula(&states[i][j], float64(g)*scale, p.rate(rate), d, step)
					}
				}
				o.Step(rate, scale)
			}
			for i, p := range ps {
				for j, w := range p.Data {
					if want := states[i][j].w; math.Abs(float64(w)-want) > 2e-5*max(1, math.Abs(want)) {
						t.Fatalf("%s[%d] = %v, want %v", p.Name, j, w, want)
					}
				}
			}
		})
	}
}

// Muon's step has singular values around one, in the direction of the momentum,
// scaled for tall matrices. AdamW updates the other parameters.
func TestMuonOrthogonalises(t *testing.T) {
	ps, same := someParams(3), someParams(3)
	old := someParams(3)
	const rate = 0.003
	NewMuon(ps, MuonOptions{}, nil).Step(rate, 1)
	NewAdamW(same, AdamWOptions{}, nil).Step(rate, 1)
	for i, p := range ps {
		if !p.Hidden {
			if d := cmp.Diff(same[i].Data, p.Data); d != "" {
				t.Errorf("%s not updated by AdamW", p.Name)
			}
			continue
		}
		rows, cols := p.Shape[0], p.Shape[1]
		scale := rate * 20 / 3 * math.Sqrt(max(1, float64(rows)/float64(cols)))
		step := make([]float64, len(p.Data))
		var along float64
		for j := range step {
			step[j] = float64(old[i].Data[j]-p.Data[j]) / scale
			along += step[j] * float64(p.Grad[j])
		}
		if along <= 0 {
			t.Errorf("%s: the step does not descend", p.Name)
		}
		for _, s := range squaredSingular(step, rows, cols) {
			if s < 0.45 || s > 1.6 { // σ in 0.67…1.27
				t.Errorf("%s: a singular value of %v", p.Name, math.Sqrt(s))
			}
		}
	}
}

// squaredSingular returns the eigenvalues of the smaller Gram matrix of u, by
// Jacobi rotations.
func squaredSingular(u []float64, rows, cols int) []float64 {
	n, inner := min(rows, cols), max(rows, cols)
	at := func(i, k int) float64 {
		if rows <= cols {
			return u[i*cols+k]
		}
		return u[k*cols+i]
	}
	g := make([][]float64, n)
	for i := range n {
		g[i] = make([]float64, n)
		for j := range n {
			for k := range inner {
				g[i][j] += at(i, k) * at(j, k)
			}
		}
	}
	for range 30 {
		for p := range n {
			for q := p + 1; q < n; q++ {
				if g[p][q] == 0 {
					continue
				}
				th := 0.5 * math.Atan2(2*g[p][q], g[p][p]-g[q][q])
				s, c := math.Sincos(th)
				for k := range n {
					a, b := g[p][k], g[q][k]
					g[p][k], g[q][k] = c*a+s*b, c*b-s*a
				}
				for k := range n {
					a, b := g[k][p], g[k][q]
					g[k][p], g[k][q] = c*a+s*b, c*b-s*a
				}
			}
		}
	}
	var e []float64
	for i := range n {
		e = append(e, g[i][i])
	}
	return e
}

// The result is bit-identical for any number of threads and across saving and
// resuming.
func TestThreadsAndResumeBitwise(t *testing.T) {
	for name := range all(someParams(1), nil) {
		t.Run(name, func(t *testing.T) {
			var want [][]float32
			for threads := 1; threads <= 3; threads++ {
				p := pool.New(threads)
				defer p.Close()
				ps := someParams(1)
				o := all(ps, p)[name]
				for step := range 6 {
					refresh(ps, uint64(step))
					o.Step(0.01, 1)
					if step == 2 && threads == 3 { // continue on another optimizer
						s := o.State()
						for i := range s.Slots {
							s.Slots[i].Data = append([]float32(nil), s.Slots[i].Data...)
						}
						o = all(ps, p)[name]
						if err := o.Restore(s); err != nil {
							t.Fatal(err)
						}
					}
				}
				var got [][]float32
				for _, q := range ps {
					got = append(got, q.Data)
				}
				if threads == 1 {
					want = got
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("%d threads differ from one", threads)
				}
			}
		})
	}
}

func TestRestoreRefusesAnotherShape(t *testing.T) {
	for name, o := range all(someParams(1), nil) {
		other := someParams(1)
		other[0].Data = other[0].Data[1:]
		for what, s := range map[string]State{
			"missing": {}, "shorter": all(other, nil)[name].State(), "negative": {Step: -1, Slots: o.State().Slots},
		} {
			if o.Restore(s) == nil {
				t.Errorf("%s: a %s state was accepted", name, what)
			}
		}
	}
}

// Schedule-free trains at y, is evaluated at x, and continues at y.
func TestScheduleFreeAverage(t *testing.T) {
	ps := someParams(1)
	s := NewScheduleFree(ps, AdamWOptions{}, nil)
	for step := range 3 {
		refresh(ps, uint64(step))
		s.Step(0.01, 1)
	}
	y := append([]float32(nil), ps[0].Data...)
	s.Average()
	if d := cmp.Diff(s.x[0], ps[0].Data); d != "" || cmp.Equal(y, ps[0].Data) {
		t.Error("Average did not show the mean")
	}
	s.Continue()
	if !cmp.Equal(y, ps[0].Data) {
		t.Error("Continue did not return to the training point")
	}
}

// Every optimizer finds the minimum of a parabola from far away.
func TestConverges(t *testing.T) {
	for name := range all(someParams(1), nil) {
		ps := someParams(1)
		o := all(ps, nil)[name]
		loss := func() (sum float64) {
			for _, p := range ps {
				for j, w := range p.Data {
					d := w - 0.25
					p.Grad[j] = d
					sum += float64(d * d)
				}
			}
			return sum
		}
		first := loss()
		for i := range 400 {
			loss()
			rate := 0.03 * (1 - float64(i)/400)
			if name == "sf" {
				rate = 0.1 // constant, as the method requires
			}
			o.Step(rate, 1)
		}
		if last := loss(); last > first/50 {
			t.Errorf("%s: loss from %v to %v", name, first, last)
		}
	}
}

func TestNorm(t *testing.T) {
	ps := someParams(1)
	var want float64
	for _, p := range ps {
		for _, g := range p.Grad {
			want += float64(g) * float64(g)
		}
	}
	p := pool.New(2)
	defer p.Close()
	one, two := NewGauge(ps, nil).Norm(), NewGauge(ps, p).Norm()
	if one != two || math.Abs(one-math.Sqrt(want)) > 1e-5*one {
		t.Errorf("norm %v and %v, want %v", one, two, math.Sqrt(want))
	}
	ps[1].Grad[3] = float32(math.NaN())
	if n := NewGauge(ps, nil).Norm(); !math.IsNaN(n) {
		t.Errorf("norm of NaN is %v", n)
	}
}

func TestStepDoesNotAllocate(t *testing.T) {
	p := pool.New(2)
	defer p.Close()
	ps := someParams(1)
	g := NewGauge(ps, p)
	for name, o := range all(ps, p) {
		o.Step(0.01, 1)
		if n := testing.AllocsPerRun(5, func() { g.Norm(); o.Step(0.01, 1) }); n > 0 {
			t.Errorf("%s: %v allocations a step", name, n)
		}
	}
}

func TestSchedule(t *testing.T) {
	for _, c := range []struct {
		s    Schedule
		step int
		done float64
		want float64
	}{
		{Schedule{Warmup: 10}, 0, 0, 0.1},
		{Schedule{Warmup: 10}, 9, 0.09, 1},
		{Schedule{}, 5, 0.6, 1},
		{Schedule{}, 5, 0.8, 0.5},
		{Schedule{Floor: 0.1}, 5, 1, 0.1},
		{Schedule{Floor: 0.1}, 5, 2, 0.1},
		{Schedule{Kind: "cosine"}, 5, 0, 1},
		{Schedule{Kind: "cosine", Floor: 0.2}, 5, 0.5, 0.6},
		{Schedule{Kind: "cosine", Floor: 0.2}, 5, 1, 0.2},
		{Schedule{Kind: "linear"}, 5, 0.25, 0.75},
		{Schedule{Kind: "constant"}, 5, 1, 1},
		{Schedule{Stable: 1}, 5, 1, 1},
	} {
		if got := c.s.At(c.step, c.done); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v at step %d, %v done: %v, want %v", c.s, c.step, c.done, got, c.want)
		}
	}
	for _, bad := range []Schedule{{Kind: "triangle"}, {Warmup: -1}, {Floor: 2}, {Stable: -1}, {Floor: math.NaN()}} {
		if bad.Validate() == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

func ExampleSchedule() {
	s := Schedule{Kind: "wsd", Warmup: 100, Floor: 0.03}
	for step := 0; step <= 1000; step += 200 {
		fmt.Printf("%4d %.3f\n", step, s.At(step, float64(step)/1000))
	}
	// Output:
	//    0 0.010
	//  200 1.000
	//  400 1.000
	//  600 1.000
	//  800 0.515
	// 1000 0.030
}

// Without gradient and momentum Lion changes nothing: the sign of zero is zero.
func TestLionRests(t *testing.T) {
	w := []float32{1, -2, 0, 3}
	g := []float32{0, 0, 0, 1}
	p := Param{Name: "w", Shape: []int{4}, Data: w, Grad: g}
	l := NewLion([]Param{p}, LionOptions{}, nil)
	for range 3 {
		l.Step(0.5, 1)
	}
	if d := cmp.Diff([]float32{1, -2, 0, 1.5}, w); d != "" {
		t.Error(d)
	}
}
