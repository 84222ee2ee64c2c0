package runner

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/media"
	"mm-abi.org/mm/runtimes/part"
)

// CannotTell is the text in place of an answer that is withheld.
const CannotTell = " I cannot tell"

// weigher estimates how probably an answer about inputs is right. With several inputs it is
// as probable as about the least familiar one.
type weigher struct {
	about      []familiar
	likelihood float64 // of the tokens of the text
	emit       func(string) error
	seen       func(states [][]float64) // see [Request.Seen]
}

// familiar is an input and the confidence of its projector.
type familiar struct {
	*modules.Confidence
	domain   *domain
	distance float64
}

// domain is the distribution of the core's mean states at an input.
type domain struct{ mean, factor []float32 }

// weigher returns how to weigh the answer to a request; nil: it has no confidence.
func (r *Runner) weigher(req Request, c *media.Encoding) (*weigher, error) {
	if req.Guess || req.Plain || !req.wantsText() || req.Preferences.Grammar != nil || len(c.Inputs) == 0 {
		return nil, nil
	}
	a := r.build.Assembly
	parts := []string{a.Core.ID()}
	for _, ad := range a.Adapters {
		parts = append(parts, ad.Part.ID())
	}
	w := &weigher{seen: req.Seen}
	if w.seen != nil {
		w.about = make([]familiar, len(c.Inputs))
		return w, nil
	}
	for _, e := range c.Inputs {
		name := e.Parts()[1]
		m := r.build.Manifests[name].ConfidenceOf(e.Part.Type)
		if m == nil || !m.Holds(parts) {
			return nil, nil
		}
		d, err := r.domain(name, m.Domain)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		w.about = append(w.about, familiar{Confidence: m, domain: d})
	}
	return w, nil
}

// domain reads the domain of a projector once.
func (r *Runner) domain(name, file string) (*domain, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := r.domains[name]; d != nil {
		return d, nil
	}
	f := r.parts.Function(name)
	if f == nil {
		return nil, errors.New("not a projector")
	}
	path, err := f.Path(file)
	if err != nil {
		return nil, err
	}
	d, err := readDomain(path, r.model.Shape().Width)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if r.domains == nil {
		r.domains = map[string]*domain{}
	}
	r.domains[name] = d
	return d, nil
}

// readDomain reads the domain of states of a width.
func readDomain(path string, width int) (*domain, error) {
	all, err := npy.OpenArchive(path, part.MaxInput)
	if err != nil {
		return nil, err
	}
	d := &domain{}
	for _, x := range []struct {
		name string
		n    int
		into *[]float32
	}{{"mean", width, &d.mean}, {"factor", width * width, &d.factor}} {
		a := all[x.name]
		if a == nil || a.Type != "f4" || len(a.Data) != 4*x.n {
			return nil, fmt.Errorf("array %s: want %d numbers of float32", x.name, x.n)
		}
		for i := range x.n {
			v := math.Float32frombits(binary.LittleEndian.Uint32(a.Data[4*i:]))
			if v != v || math.IsInf(float64(v), 0) {
				return nil, fmt.Errorf("array %s: element %d is %v", x.name, i, v)
			}
			*x.into = append(*x.into, v)
		}
	}
	return d, nil
}

// distance returns the mean square of factor·(x − mean).
func (d *domain) distance(x []float64) float64 {
	n, sum := len(d.mean), 0.0
	for i := range n {
		y := 0.0
		for j, f := range d.factor[i*n : (i+1)*n] {
			y += float64(f) * (x[j] - float64(d.mean[j]))
		}
		sum += y * y
	}
	return max(sum/float64(n), math.SmallestNonzeroFloat64)
}

// states returns the core's states of a prompt if decoders or a confidence need them. An
// engine without states answers without a confidence.
func (t *telling) states(r *Runner, s *session, c *media.Encoding, req Request) ([]float32, error) {
	w, shown := t.weigher, len(req.shows()) > 0
	if t.weigher = nil; w == nil && !shown {
		return nil, nil
	}
	states, err := s.states(r.engine.Name(), len(s.held))
	if gone := (*runtimes.Unavailable)(nil); errors.As(err, &gone) && !shown {
		return nil, nil
	}
	if err == nil && w != nil && w.measure(s.held, states, r.model.Shape().Width, c) {
		t.weigher = w
		t.hold(r, req)
	}
	return states, err
}

// measure measures the distances of the inputs by the states of a prompt. It reports false
// if an input has no states or if they are for a fit.
func (w *weigher) measure(held []int32, states []float32, width int, c *media.Encoding) bool {
	var means [][]float64
	for i, e := range c.Inputs {
		mean, n := make([]float64, width), 0.0
		for at, id := range held {
			if id != e.ID {
				continue
			}
			n++
			for k, x := range states[at*width : (at+1)*width] {
				mean[k] += float64(x)
			}
		}
		if n == 0 {
			return false
		}
		for k := range mean {
			mean[k] /= n
		}
		if means = append(means, mean); w.seen == nil {
			w.about[i].distance = w.about[i].domain.distance(mean)
		}
	}
	if w.seen != nil {
		w.seen(means)
	}
	return w.seen == nil
}

// hold scores the tokens of an answer and delays its text until it is weighed.
func (t *telling) hold(r *Runner, req Request) {
	w := t.weigher
	w.emit, t.emit = t.emit, nil
	scored := req.Scored
	req.Scored = func(s TokenScore) {
		w.likelihood += s.LogProb
		if scored != nil {
			scored(s)
		}
	}
	t.scores = r.scores(req)
}

// weigh completes an answer that was held: it passes its text on, or withholds it.
func (t *telling) weigh() error {
	w, a := t.weigher, t.answer
	if w == nil {
		return nil
	}
	if len(a.Called) == 0 && len(a.Calls) == 0 && len(a.Tokens) > 0 {
		p, least := 1.0, 0.0
		for _, f := range w.about {
			if q := f.Probability(w.likelihood, f.distance); q <= p {
				p, least = q, f.Least
			}
		}
		if a.Confidence = &p; p < least {
			a.Withheld, a.Text = a.Text, CannotTell
		}
	}
	if w.emit == nil || a.Text == "" {
		return nil
	}
	return w.emit(a.Text)
}
