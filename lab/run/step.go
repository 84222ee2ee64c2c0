package run

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// maxError bounds what a row says of a failure, in bytes.
const maxError = 1 << 10

// step does the step that is due and writes its row. A run that was ended from
// outside, by a limit or by the context, leaves no row: the step is done again.
func (r *runner) step(ctx context.Context) (*halt, error) {
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
	h, err := r.runs(ctx, s, &p)
	if h != nil || ctx.Err() != nil {
		return h, ctx.Err()
	}
	if err != nil {
		p.Error = err.Error()
		p.Error = p.Error[:min(len(p.Error), maxError)]
	}
	return nil, r.row(StepDone, p)
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

// runs does a step's runs, each timed by itself. An error is the step's own
// failure.
func (r *runner) runs(ctx context.Context, s Step, p *Payload) (h *halt, err error) {
	from := r.opt.Clock.Now()
	w, err := r.opt.Executor.Open(ctx, s, p.Iteration)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	p.LoadUS = r.opt.Clock.Now().Sub(from).Microseconds()
	for n := range s.Repeat {
		if n > 0 {
			if err := r.sense(ctx); err != nil {
				return nil, err
			}
			if h := r.halted(); h != nil && h.reason != ByDuration {
				return h, nil
			}
		}
		out, err := r.one(ctx, w, s, n, p)
		if err != nil {
			return nil, fmt.Errorf("run %d: %w", n+1, err)
		}
		p.Unstable = p.Unstable || n > 0 && out.SHA256 != p.Output
		p.Output, p.Bytes = out.SHA256, out.Bytes
	}
	return nil, nil
}

func (r *runner) one(ctx context.Context, w Work, s Step, n int, p *Payload) (Output, error) {
	within, cancel := context.WithTimeout(ctx, time.Duration(s.Timeout))
	defer cancel()
	from := r.opt.Clock.Now()
	out, err := w.Do(within, n)
	p.RunsUS = append(p.RunsUS, r.opt.Clock.Now().Sub(from).Microseconds())
	p.Code = out.Code
	if within.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("it took longer than %v", time.Duration(s.Timeout))
	}
	return out, err
}
