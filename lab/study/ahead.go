package study

import (
	"context"
	"sync"
	"time"
)

// pending are trials that run before the plan reaches them.
type pending struct {
	runner Runner
	most   int
	trials map[string]*future // by spec
	group  sync.WaitGroup
}

// future is the result of a trial in progress.
type future struct {
	done   chan struct{}
	result []byte
	took   time.Duration
	err    error
}

// start starts a trial, unless it runs or all places are taken, and reports whether it runs.
func (p *pending) start(ctx context.Context, spec []byte) bool {
	if p.trials[string(spec)] != nil {
		return true
	}
	if len(p.trials) >= p.most {
		return false
	}
	f := &future{done: make(chan struct{})}
	p.trials[string(spec)] = f
	p.group.Go(func() {
		defer close(f.done)
		begin := time.Now()
		f.result, f.err = p.runner.Run(ctx, spec)
		f.took = time.Since(begin)
	})
	return true
}

// run returns the result of a trial, which it starts unless it runs.
func (p *pending) run(ctx context.Context, spec []byte) ([]byte, time.Duration, error) {
	f := p.trials[string(spec)]
	if f == nil {
		begin := time.Now()
		result, err := p.runner.Run(ctx, spec)
		return result, time.Since(begin), err
	}
	<-f.done
	delete(p.trials, string(spec))
	return f.result, f.took, f.err
}

// wait waits for the trials without a row; their context is done.
func (p *pending) wait() { p.group.Wait() }

// ahead starts a and the trials after it that do not depend on its result, within the
// budget of tokens.
func (r *runner) ahead(ctx context.Context, p plan, a action) error {
	if r.opt.AtOnce <= 1 || a.event != Trained && a.event != Judged {
		return nil
	}
	all, score := p.judges, judgeFile
	if a.event == Trained {
		all, score = p.trials, chooseFile
	}
	tokens := r.at.tokens
	for _, b := range all() {
		if tokens += b.cost; b.rung == 0 || r.s.Budget.Tokens > 0 && tokens > r.s.Budget.Tokens {
			continue // models of token counts are quick
		}
		spec, err := r.s.spec(r.part, b.arm, b.seed, b.rung, score)
		if err != nil {
			return err
		}
		if !r.pool.start(ctx, spec) {
			return nil
		}
	}
	return nil
}
