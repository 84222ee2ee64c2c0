package experiment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"time"

	"mm-abi.org/mm/lab/telemetry"
)

// epoch is when simulated runs begin.
const epoch = "2026-01-01T00:00:00Z"

// Simulation sets the options of a run on a clock that jumps: sensors and steps
// are what the plan says they are, nothing is executed, and every row says that
// it is simulated. The same plan gives the same rows, however often the run is
// killed in between.
func Simulation(opt Options, p Plan) (Options, error) {
	if p.Simulate == nil {
		return opt, fmt.Errorf("the plan %s does not say what a simulation meets (simulate)", p.Name)
	}
	for _, s := range p.Steps {
		how, ok := p.Simulate.Steps[s.Name]
		for _, a := range s.Arms {
			if _, told := how.Arms[a.Name]; !told {
				return opt, fmt.Errorf("the plan %s does not say how the arm %s of the step %s fares in a simulation", p.Name, a.Name, s.Name)
			}
		}
		if !ok || len(s.Arms) == 0 && how.Arms != nil {
			return opt, fmt.Errorf("the plan %s does not say how the step %s fares in a simulation", p.Name, s.Name)
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

// jumping is a clock that moves when it is told to, and stops for a look around
// where one is due.
type jumping struct {
	from, now time.Time
	next      time.Duration // until then
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

// pretender takes time and does nothing.
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

// Do implements Work: a run takes its time, up to a tenth more or less.
func (p *pretence) Do(ctx context.Context, n int) (Output, error) {
	took := float64(p.how.Takes) * (0.9 + 0.2*p.chance.Float64())
	if err := p.clock.Sleep(ctx, time.Duration(took).Truncate(time.Microsecond)); err != nil {
		return Output{}, err
	}
	if e := p.how.FailsEvery; e > 0 && ((p.iteration-1)*p.step.Repeat+n+1)%e == 0 {
		return Output{Code: 1}, fmt.Errorf("the plan has it fail")
	}
	sum := sha256.Sum256([]byte(p.step.Name))
	return Output{SHA256: hex.EncodeToString(sum[:])}, nil
}

// Close implements Work.
func (*pretence) Close() error { return nil }
