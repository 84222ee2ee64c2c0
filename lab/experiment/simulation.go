package experiment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"mm-abi.org/mm/lab/telemetry"
)

// epoch is the start time of simulated runs.
const epoch = "2026-01-01T00:00:00Z"

// Simulation sets the options of a simulated run: the plan describes sensors and steps,
// nothing is executed, the clock jumps, and every row is marked as simulated. The same plan
// yields the same rows, however often the run is killed.
func Simulation(opt Options, p Plan) (Options, error) {
	if p.Simulate == nil {
		return opt, fmt.Errorf("plan %s: missing simulate", p.Name)
	}
	for _, s := range p.Steps {
		pretence, ok := p.Simulate.Steps[s.Name]
		for _, a := range s.Arms {
			if _, ok := pretence.Arms[a.Name]; !ok {
				return opt, fmt.Errorf("plan %s: no simulation of arm %s of step %s", p.Name, a.Name, s.Name)
			}
		}
		if !ok || len(s.Arms) == 0 && pretence.Arms != nil {
			return opt, fmt.Errorf("plan %s: no simulation of step %s", p.Name, s.Name)
		}
	}
	from, err := time.Parse(time.RFC3339, epoch)
	if err != nil {
		return opt, err
	}
	c := &jumping{from: from, now: from}
	curve := telemetry.Curve{Now: func() time.Duration { return c.now.Sub(c.from) }}
	for _, s := range p.Simulate.Sensors {
		curve.Points = append(curve.Points, telemetry.Point{At: time.Duration(s.At), Reading: s.Reading})
	}
	opt.Clock, opt.Sensor, opt.Simulated = c, curve, true
	opt.Executor = pretender{clock: c, steps: p.Simulate.Steps, seed: p.Seed}
	opt.Settle = func(elapsed time.Duration) { c.now = c.from.Add(elapsed) }
	return opt, nil
}

// jumping is a clock that moves only when it is asked to sleep, and stops for each due
// check.
type jumping struct {
	from, now time.Time
	next      time.Duration // until the next check
	look      func() time.Duration
}

// Now implements Clock.
func (j *jumping) Now() time.Time { return j.now }

// Sleep implements Clock.
func (j *jumping) Sleep(ctx context.Context, d time.Duration) error {
	for j.look != nil && d > j.next {
		j.now, d = j.now.Add(j.next), d-j.next
		j.next = j.look()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	j.now, j.next = j.now.Add(d), j.next-d
	return ctx.Err()
}

// During implements Clock.
func (j *jumping) During(ctx context.Context, first time.Duration, do func(context.Context), look func() time.Duration) {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	j.next, j.look = first, func() time.Duration {
		next := look()
		if next < 0 {
			cancel()
		}
		return next
	}
	do(within)
	j.look = nil
}

// pretender executes simulated steps.
type pretender struct {
	clock *jumping
	steps map[string]Pretence
	seed  uint64
}

// Open implements Executor.
func (p pretender) Open(ctx context.Context, s Step, iteration int) (Work, error) {
	how, name := p.steps[s.Name], s.Name
	if s.arm != "" {
		how, name = how.Arms[s.arm], s.Name+"/"+s.arm
	}
	if err := p.clock.Sleep(ctx, time.Duration(how.Load)); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%s/%d", p.seed, name, iteration))
	return &pretence{pretender: p, how: how, step: s, iteration: iteration, chance: rand.New(rand.NewChaCha8(sum))}, nil
}

type pretence struct {
	pretender
	how       Pretence
	step      Step
	iteration int
	chance    *rand.Rand
}

// Do implements Work. A run takes its time, up to a tenth more or less.
func (p *pretence) Do(ctx context.Context, n int) (Output, error) {
	took := float64(p.how.Takes) * (0.9 + 0.2*p.chance.Float64())
	if err := p.clock.Sleep(ctx, time.Duration(took).Truncate(time.Microsecond)); err != nil {
		return Output{}, err
	}
	if e := p.how.FailsEvery; e > 0 && ((p.iteration-1)*p.step.Repeat+n+1)%e == 0 {
		return Output{Code: 1}, errors.New("simulated failure")
	}
	sum := sha256.Sum256([]byte(p.step.Name))
	return Output{SHA256: hex.EncodeToString(sum[:])}, nil
}

// Close implements Work.
func (*pretence) Close() error { return nil }
