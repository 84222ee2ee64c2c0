package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// maxError bounds what a row says of a failure, in bytes.
const maxError = 1 << 10

// do does the step that is due and writes its row. One that a limit or the
// context cuts short is marked so, and done again by a resumption.
func (r *runner) do(ctx context.Context) (*halt, error) {
	s := r.plan.Steps[r.at.next]
	p := Payload{Iteration: r.at.iteration, Step: s.Name, Index: r.at.next, BeganUS: r.at.began.Microseconds()}
	if p.Iteration%s.Every != 0 {
		return nil, r.skip()
	}
	if len(s.Arms) > 0 {
		var err error
		if s, err = r.choose(s); err != nil {
			return nil, err
		}
		p.Arm = s.arm
	}
	r.step = s.Name
	h, err := r.runs(ctx, s, &p)
	r.step = ""
	if err != nil {
		return nil, err
	}
	return h, r.row(StepDone, p)
}

// skip passes over a step that is not of this iteration. It needs no row: a
// resumption passes over it as well.
func (r *runner) skip() error {
	r.at.next++
	if r.at.next >= len(r.plan.Steps) {
		r.at.iteration, r.at.next = r.at.iteration+1, 0
	}
	return nil
}

// runs does a step's runs, each timed by itself, and notes in p how they went: a
// failure of the step's own is no error. What cuts it short is the halt, or the
// context.
func (r *runner) runs(ctx context.Context, s Step, p *Payload) (h *halt, err error) {
	var w Work
	var own error
	from := r.opt.Clock.Now()
	h, err = r.during(ctx, func(ctx context.Context) { w, own = r.opt.Executor.Open(ctx, s, p.Iteration) })
	p.LoadUS = r.opt.Clock.Now().Sub(from).Microseconds()
	opened := own == nil
	cut := func() bool { return h != nil || err != nil || ctx.Err() != nil }
	for n := 0; own == nil && n < s.Repeat; n++ {
		if n > 0 && !cut() {
			h, err = r.look(ctx)
		}
		if cut() {
			p.Partial = true
			break
		}
		h, err = r.during(ctx, func(ctx context.Context) { own = r.one(ctx, w, s, n, p) })
	}
	p.Partial = p.Partial || own != nil && cut()
	if opened {
		own = errors.Join(own, w.Close())
	}
	switch {
	case p.Partial:
		return h, err
	case own != nil:
		text := own.Error()
		p.Error = text[:min(len(text), maxError)]
	}
	return nil, err // a halt that came with the end is asked for again before the next step
}

// during does something and looks around meanwhile.
func (r *runner) during(ctx context.Context, do func(context.Context)) (h *halt, err error) {
	r.opt.Clock.During(ctx, r.pause(), do, func() time.Duration {
		if h, err = r.look(ctx); h != nil || err != nil {
			return -1
		}
		return r.pause()
	})
	return h, err
}

// one does the run n and notes what it took and gave, unless it was cut short.
func (r *runner) one(ctx context.Context, w Work, s Step, n int, p *Payload) error {
	within, cancel := context.WithTimeout(ctx, time.Duration(s.Timeout))
	defer cancel()
	from := r.opt.Clock.Now()
	out, err := w.Do(within, n)
	took := r.opt.Clock.Now().Sub(from)
	if err != nil && ctx.Err() != nil {
		return err
	}
	p.RunsUS = append(p.RunsUS, took.Microseconds())
	p.Code = out.Code
	if within.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("it took longer than %v", time.Duration(s.Timeout))
	}
	if err != nil {
		return fmt.Errorf("run %d: %w", n+1, err)
	}
	p.Unstable = p.Unstable || n > 0 && out.SHA256 != p.Output
	p.Output, p.Bytes = out.SHA256, out.Bytes
	return nil
}
