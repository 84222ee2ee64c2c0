package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// maxError is the maximum length of a recorded error in bytes.
const maxError = 1 << 10

// do executes the due step and writes its row. If a limit or the context interrupts it, the
// row is partial and a resumed run repeats the step.
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

// skip moves past a step that is not due in this iteration. It needs no row, since a
// resumed run skips it, too.
func (r *runner) skip() error {
	r.at.next++
	if r.at.next >= len(r.plan.Steps) {
		r.at.iteration, r.at.next = r.at.iteration+1, 0
	}
	return nil
}

// runs executes and times the runs of a step and records them in p. A failed run is not an
// error. If a limit interrupts the step, runs returns the halt.
func (r *runner) runs(ctx context.Context, s Step, p *Payload) (h *halt, err error) {
	var w Work
	var failure error
	from := r.opt.Clock.Now()
	h, err = r.during(ctx, func(ctx context.Context) { w, failure = r.opt.Executor.Open(ctx, s, p.Iteration) })
	p.LoadUS = r.opt.Clock.Now().Sub(from).Microseconds()
	opened := failure == nil
	cut := func() bool { return h != nil || err != nil || ctx.Err() != nil }
	for n := 0; failure == nil && n < s.Repeat; n++ {
		if n > 0 && !cut() {
			h, err = r.look(ctx)
		}
		if cut() {
			p.Partial = true
			break
		}
		h, err = r.during(ctx, func(ctx context.Context) { failure = r.one(ctx, w, s, n, p) })
	}
	p.Partial = p.Partial || failure != nil && cut()
	if opened {
		failure = errors.Join(failure, w.Close())
	}
	switch {
	case p.Partial:
		return h, err
	case failure != nil:
		text := failure.Error()
		p.Error = text[:min(len(text), maxError)]
	}
	return nil, err // the limits are checked again before the next step
}

// during calls do and checks the limits meanwhile.
func (r *runner) during(ctx context.Context, do func(context.Context)) (h *halt, err error) {
	r.opt.Clock.During(ctx, r.pause(), do, func() time.Duration {
		if h, err = r.look(ctx); h != nil || err != nil {
			return -1
		}
		return r.pause()
	})
	return h, err
}

// one executes run n and records its time and output, unless it is interrupted.
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
		err = fmt.Errorf("timeout of %v exceeded", time.Duration(s.Timeout))
	}
	if err != nil {
		return fmt.Errorf("run %d: %w", n+1, err)
	}
	p.Unstable = p.Unstable || n > 0 && out.SHA256 != p.Output
	p.Output, p.Bytes = out.SHA256, out.Bytes
	return nil
}
