package decode

import (
	"errors"

	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/net"
	"mm-abi.org/mm/train/nn"
)

// Kind selects how an output is learned.
type Kind string

// The kinds.
const (
	// Flow integrates from noise to the target in Steps steps (rectified flow:
	// Liu et al., arXiv 2209.03003); the network's inputs are the current state
	// and time.
	Flow Kind = "flow"
	// Regression predicts the target directly.
	Regression Kind = "regression"
)

// Predicted selects the output of a flow's network.
type Predicted string

// The outputs of a flow's network.
const (
	// Clean is the target itself; the velocity is the remaining difference over
	// the remaining time. If the prompt determines nearly all of the target, it
	// needs far fewer training steps than the velocity, which contains the
	// noise.
	Clean    Predicted = "sample"
	Velocity Predicted = "velocity"
)

// Objective configures the loss.
type Objective struct {
	Kind     Kind         `json:"kind"`
	Distance net.Distance `json:"distance,omitempty"` // l1, l2, huber; l2

	// Of a flow.
	Steps    int       `json:"steps,omitempty"`    // from noise to the target; 6
	Predicts Predicted `json:"predicts,omitempty"` // sample, velocity; sample
	// Begin is the share of examples at the first step, at which only the
	// states are informative; 0.5. The others are spread evenly over the later
	// steps.
	Begin float64 `json:"begin,omitempty"`
}

func (o Objective) withDefaults() Objective {
	if o.Distance == "" {
		o.Distance = net.L2
	}
	if o.Kind != Flow {
		return o
	}
	if o.Steps == 0 {
		o.Steps = 6
	}
	if o.Predicts == "" {
		o.Predicts = Clean
	}
	if o.Begin == 0 {
		o.Begin = 0.5
	}
	return o
}

// maxSteps bounds the steps of a flow, all of which are unrolled in a model.
const maxSteps = 100

func (o Objective) validate() error {
	var errs []error
	fault := func(key string, bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, train.Atf("/objective"+key, format, args...))
		}
	}
	fault("/kind", o.Kind != Flow && o.Kind != Regression, "unknown kind %q, want flow or regression", o.Kind)
	fault("/distance", o.Distance != net.L1 && o.Distance != net.L2 && o.Distance != net.Huber, "unknown distance %q, want l1, l2 or huber", o.Distance)
	if o.Kind == Flow {
		fault("/steps", o.Steps < 1 || o.Steps > maxSteps, "steps out of range: got %d, want 1 to %d", o.Steps, maxSteps)
		fault("/predicts", o.Predicts != Clean && o.Predicts != Velocity, "unknown predicts %q, want sample or velocity", o.Predicts)
		fault("/begin", !(o.Begin > 0 && o.Begin <= 1), "begin out of range: got %v, want 0 < begin <= 1", o.Begin)
	} else {
		fault("", o.Steps != 0 || o.Predicts != "" || o.Begin != 0, "steps, predicts and begin require kind flow")
	}
	return errors.Join(errs...)
}

// when draws the step of an example.
func (o Objective) when(r *nn.Random) int {
	u, v := r.Uniform(), r.Uniform()
	if u < o.Begin || o.Steps == 1 {
		return 0
	}
	return 1 + int(v*float64(o.Steps-1))
}

// learner is a network with the inputs, outputs and targets of a run.
type learner struct {
	Objective
	pass   *net.Pass[float32]
	B      int
	rows   int // of an output
	states nn.Matrix[float32]
	x      nn.Matrix[float32] // [B·rows, cols]: state of a flow
	time   nn.Matrix[float32] // [B, 1]
	y, dy  nn.Matrix[float32] // output and its gradient; dy if it trains
	target nn.Matrix[float32] // of the loss
	noise  nn.Matrix[float32] // start of a flow
	aim    nn.Matrix[float32] // velocity or sample of a flow
}

func newLearner(o Objective, n *net.Net[float32], pass *net.Pass[float32], trains bool) *learner {
	name := n.Config().Outputs[0]
	l := &learner{Objective: o, pass: pass, B: pass.B, states: pass.In(States), y: pass.Out(name)}
	l.rows = l.y.Rows / l.B
	l.target = nn.NewMatrix[float32](l.y.Rows, l.y.Cols)
	if trains {
		l.dy = pass.OutGrad(name)
	}
	if o.Kind == Flow {
		l.x, l.time = pass.In(Noise), pass.In(Time)
		l.noise, l.aim = nn.NewMatrix[float32](l.y.Rows, l.y.Cols), nn.NewMatrix[float32](l.y.Rows, l.y.Cols)
	}
	return l
}

// part returns sample s of m, a matrix of B samples.
func (l *learner) part(m nn.Matrix[float32], s int) nn.Matrix[float32] {
	rows := m.Rows / l.B
	return m.Part(s*rows, (s+1)*rows)
}

// give sets sample s: its states, its target and, of a flow, its noise and
// step.
func (l *learner) give(s int, ex *example) {
	l.read(s, ex.states)
	put(l.part(l.target, s), ex.target)
	if l.Kind != Flow {
		return
	}
	t := float32(ex.step) / float32(l.Steps)
	put(l.part(l.noise, s), ex.noise)
	l.part(l.time, s).Row(0)[0] = t
	net.Interpolate(l.part(l.x, s), l.part(l.aim, s), l.part(l.noise, s), l.part(l.target, s), t)
	if l.Predicts == Velocity {
		over(l.part(l.target, s), l.part(l.aim, s))
	}
}

// read sets the states of sample s by the MM-ABI rule for decoders: the last
// T_dec, preceded by zeros if there are fewer.
func (l *learner) read(s int, states []float32) {
	m := l.part(l.states, s)
	have := len(states) / m.Cols
	if have > m.Rows {
		states, have = states[(have-m.Rows)*m.Cols:], m.Rows
	}
	if have < m.Rows {
		m.Part(0, m.Rows-have).Zero()
	}
	put(m.Part(m.Rows-have, m.Rows), states)
}

// loss returns the sum of the losses of n samples. If back is set, it sets dy
// to their gradient, multiplied by scale.
func (l *learner) loss(n int, scale float64, back bool) float64 {
	l.pass.Forward(n)
	y, target := l.y.Part(0, n*l.rows), l.target.Part(0, n*l.rows)
	dy := l.aim
	if back {
		dy = l.dy
	} else if dy.Data == nil {
		dy = nn.NewMatrix[float32](l.y.Rows, l.y.Cols)
	}
	return net.Regression(l.Distance, y, target, dy.Part(0, n*l.rows), float32(scale))
}

// make generates the output for the states of n samples: directly, or in the
// flow's steps from noise. It returns y or, for a flow, x.
func (l *learner) make(n int) nn.Matrix[float32] {
	if l.Kind != Flow {
		l.pass.Forward(n)
		return l.y
	}
	over(l.x.Part(0, n*l.rows), l.noise.Part(0, n*l.rows))
	x, v := l.x.Part(0, n*l.rows), l.aim.Part(0, n*l.rows)
	net.Euler(x, l.Steps, func(t float32) nn.Matrix[float32] {
		for s := range n {
			l.part(l.time, s).Row(0)[0] = t
		}
		l.pass.Forward(n)
		if l.Predicts == Velocity {
			return l.y.Part(0, n*l.rows)
		}
		left := 1 / (1 - t)
		for r := range v.Rows {
			to, from := v.Row(r), x.Row(r)
			for i, y := range l.y.Row(r) {
				to[i] = (y - from[i]) * left
			}
		}
		return v
	})
	return l.x
}

// Make generates the output of the network n, which the recipe trains, row by
// row, from a prompt's states [T, d_model], T at most Core.States, and, for a
// flow, noise of the output's size.
func (r Recipe) Make(n *net.Net[float32], states, noise []float32) []float32 {
	l := newLearner(r.WithDefaults().Objective, n, n.NewPass(nil, 1), false)
	l.read(0, states)
	if l.Kind == Flow {
		put(l.noise, noise)
	}
	return flat(nil, l.make(1))
}

// put fills m, row by row, from contiguous numbers.
func put(m nn.Matrix[float32], data []float32) {
	for r := range m.Rows {
		copy(m.Row(r), data[r*m.Cols:(r+1)*m.Cols])
	}
}

// over copies x over m, of the same shape.
func over(m, x nn.Matrix[float32]) {
	for r := range m.Rows {
		copy(m.Row(r), x.Row(r))
	}
}

// flat appends the rows of m to dst.
func flat(dst []float32, m nn.Matrix[float32]) []float32 {
	for r := range m.Rows {
		dst = append(dst, m.Row(r)...)
	}
	return dst
}
