package experiment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/chain"
	"mm-abi.org/mm/lab/records"
	"mm-abi.org/mm/lab/telemetry"
)

// The files of a run, relative to its folder.
const (
	ChainDir      = "chain"
	StopFile      = "STOP"
	HeartbeatFile = "heartbeat.jsonl"
)

// The errors of this package.
var (
	// ErrExists reports that the folder holds a run.
	ErrExists = errors.New("run exists")
	// ErrComplete reports that the run is complete and cannot be resumed.
	ErrComplete = errors.New("the run is complete")
)

// Clock is the time of a run. During calls do, and meanwhile look: after first, and then
// after each duration that look returns. If that is negative, During cancels do's context.
// It returns after do.
type Clock interface {
	Now() time.Time
	Sleep(ctx context.Context, d time.Duration) error
	During(ctx context.Context, first time.Duration, do func(context.Context), look func() time.Duration)
}

// Sensor is read before each run of a step and while it lasts.
type Sensor interface {
	Read(ctx context.Context) (telemetry.Reading, error)
}

// Executor opens steps.
type Executor interface {
	Open(ctx context.Context, s Step, iteration int) (Work, error)
}

// Work is an open step.
type Work interface {
	Do(ctx context.Context, n int) (Output, error) // run n of the step, from 0
	Close() error
}

// Output describes the result of a run of a step.
type Output struct {
	SHA256 string
	Bytes  int64
	Code   int // exit code of a command
}

// Options for [Run]. [Machine] or [Simulation] sets Clock, Sensor and Executor.
type Options struct {
	Dir       string // folder of the run
	Resume    bool
	Key       chain.Signer
	Verifier  chain.Verifier
	Clock     Clock
	Sensor    Sensor
	Executor  Executor
	Simulated bool
	Poll      time.Duration       // interval at which the limits are checked; if zero, 1 s
	Grace     time.Duration       // how long a process may take to end, and its children to close its output; if zero, 2 s
	Note      func(string)        // if not nil, called with warnings
	Files     fsx.Options         // for tests
	Each      func(chain.Row)     // if not nil, called with each new row
	Settle    func(time.Duration) // if not nil, called with the elapsed time of a resumed run
}

// Result describes how a run ended.
type Result struct {
	Run        string `json:"run"`
	Rows       int    `json:"rows"`
	Head       string `json:"head"` // hex SHA-256 of the last row
	Iterations int    `json:"iterations"`
	Elapsed    string `json:"elapsed"`
	Reason     string `json:"reason"`
	Detail     string `json:"detail,omitempty"`
	Complete   bool   `json:"complete"`
	Simulated  bool   `json:"simulated"`
}

// runner is a run in progress.
type runner struct {
	plan    Plan
	opt     Options
	log     *chain.Log
	at      state
	since   time.Time     // start of this process
	before  time.Duration // elapsed time before it
	beat    time.Duration // time of the last heartbeat, negative if none
	reading telemetry.Reading
	step    string // name of the present step, if any
}

// Run executes the plan until it is complete or something stops it, which the result
// reports. A canceled context also writes its row; its error is returned.
func Run(ctx context.Context, p Plan, opt Options) (Result, error) {
	if opt.Poll <= 0 {
		opt.Poll = time.Second
	}
	r := &runner{plan: p, opt: opt, beat: -1}
	i := identifier{dir: opt.Dir}
	each := func(row chain.Row) error {
		if !i.seen && row.Event == Start {
			i.run = row.Run // a run of an older version has no identity file
		}
		if err := i.row(row); err != nil {
			return err
		}
		return r.at.apply(len(p.Steps), row)
	}
	log, err := chain.Open(ctx, filepath.Join(opt.Dir, ChainDir), opt.Key, opt.Verifier, opt.Files, each)
	if err != nil {
		return Result{}, err
	}
	r.log = log
	err = r.begin(ctx)
	if err == nil {
		err = r.loop(ctx)
	}
	return r.result(), errors.Join(err, log.Close())
}

// begin writes the row that starts or resumes a run.
func (r *runner) begin(ctx context.Context) error {
	fresh := r.at.run == ""
	switch {
	case fresh && r.opt.Resume:
		return fmt.Errorf("%s: no run: %w", r.opt.Dir, fs.ErrNotExist)
	case !fresh && !r.opt.Resume:
		return fmt.Errorf("%s: %w", r.opt.Dir, ErrExists)
	case !fresh && r.at.plan != r.plan.Digest:
		return fmt.Errorf("plan mismatch: the run has %.12s…, got %.12s…", r.at.plan, r.plan.Digest)
	case !fresh && r.at.simulated != r.opt.Simulated:
		return errors.New("cannot resume a simulated run as a real one, nor a real run as a simulation")
	case !fresh && r.at.stopped != nil && r.at.stopped.Complete:
		return ErrComplete
	}
	r.before = r.at.elapsed
	if r.opt.Simulated { // a repeated step starts at its previous time
		r.before = r.at.settled
	}
	if r.opt.Settle != nil {
		r.opt.Settle(r.before)
	}
	r.since = r.opt.Clock.Now()
	if err := r.sense(ctx); err != nil {
		return err
	}
	if lost := r.lost(); lost != "" {
		return fmt.Errorf("no sensor for limit %s; remove the limit to run without it", lost)
	}
	if !fresh {
		return r.row(Resume, Payload{})
	}
	r.at.run = r.plan.Name + "-" + r.since.UTC().Format("20060102T150405Z")
	began := r.opt.Clock.Now().UTC().Format(time.RFC3339Nano)
	if err := (identity{r.at.run, began, r.plan.Digest}).write(r.opt.Dir, r.opt.Files); err != nil {
		return fmt.Errorf("writing the identity of the run: %w", err)
	}
	return r.rowAt(began, Start, Payload{Plan: r.plan.Digest, Name: r.plan.Name})
}

// elapsed returns the time of the run, without that between its processes.
func (r *runner) elapsed() time.Duration {
	return (r.before + r.opt.Clock.Now().Sub(r.since)).Truncate(time.Microsecond)
}

// row appends a row and applies it as a resumed run would.
func (r *runner) row(event string, p Payload) error {
	return r.rowAt(r.opt.Clock.Now().UTC().Format(time.RFC3339Nano), event, p)
}

func (r *runner) rowAt(at, event string, p Payload) error {
	p.ElapsedUS, p.Simulated = r.elapsed().Microseconds(), r.opt.Simulated
	row, err := r.log.Append(at, r.at.run, event, p)
	if err != nil {
		return err
	}
	if r.opt.Each != nil {
		r.opt.Each(row)
	}
	return r.at.apply(len(r.plan.Steps), row)
}

// halt is a reason to stop.
type halt struct{ reason, detail string }

// loop executes the steps in turn.
func (r *runner) loop(ctx context.Context) error {
	for {
		h, err := r.wait(ctx)
		if err == nil && h == nil {
			h, err = r.do(ctx)
		}
		if ctx.Err() != nil {
			h = &halt{reason: ByInterrupt}
		} else if err != nil {
			return err
		}
		if h == nil {
			continue
		}
		if err := r.row(Stop, Payload{Reason: h.reason, Detail: h.detail, Reading: &r.reading, Complete: h.reason == ByDuration || h.reason == ByIterations}); err != nil {
			return err
		}
		r.pulse()
		return ctx.Err()
	}
}

// wait sleeps until the next iteration is due, and checks the limits meanwhile.
func (r *runner) wait(ctx context.Context) (*halt, error) {
	for {
		if h, err := r.look(ctx); h != nil || err != nil {
			return h, err
		}
		now := r.elapsed()
		due := r.at.began + time.Duration(r.plan.Interval)
		if r.at.next > 0 || r.at.began < 0 || now >= due {
			if r.at.next == 0 {
				r.at.began = now
			}
			return nil, nil
		}
		if err := r.opt.Clock.Sleep(ctx, min(r.pause(), due-now)); err != nil {
			return nil, err
		}
	}
}

// pause returns the time until the next check. The times of checks depend on the time of
// the run only, so that a repeated step meets the same ones.
func (r *runner) pause() time.Duration {
	now := r.elapsed()
	next := now.Truncate(r.opt.Poll) + r.opt.Poll
	if last := r.at.telemetry; last > now {
		next = min(next, last)
	} else {
		next = min(next, last+time.Duration(r.plan.Telemetry))
	}
	if r.plan.Duration > 0 {
		next = min(next, time.Duration(r.plan.Duration))
	}
	return max(next-now, time.Microsecond)
}

// look reads the sensors, writes due rows of telemetry and heartbeats, and checks the
// limits.
func (r *runner) look(ctx context.Context) (*halt, error) {
	if err := r.sense(ctx); err != nil {
		return nil, err
	}
	if r.at.telemetry < 0 || r.elapsed() >= r.at.telemetry+time.Duration(r.plan.Telemetry) {
		reading := r.reading
		if err := r.row(Telemetry, Payload{Reading: &reading, Step: r.step}); err != nil {
			return nil, err
		}
	}
	if r.beat < 0 || r.elapsed() >= r.beat+time.Duration(r.plan.Heartbeat) {
		r.pulse()
	}
	return r.halted(), nil
}

// halted compares the last reading with the limits.
func (r *runner) halted() *halt {
	over := func(limit, value *float64, below bool) bool {
		return limit != nil && value != nil && (below && *value < *limit || !below && *value >= *limit)
	}
	l, v := r.plan.Limits, r.reading
	_, err := os.Lstat(filepath.Join(r.opt.Dir, StopFile))
	switch lost := r.lost(); {
	case !errors.Is(err, fs.ErrNotExist): // if the check fails, assume that it exists
		return &halt{ByFile, StopFile}
	case lost != "":
		return &halt{BySensor, lost}
	case over(l.HeatC, v.HeatC, false):
		return &halt{ByHeat, fmt.Sprintf("%.1f °C, limit %.1f", *v.HeatC, *l.HeatC)}
	case over(l.BatteryPct, v.BatteryPct, true):
		return &halt{ByBattery, fmt.Sprintf("%.0f %%, limit %.0f", *v.BatteryPct, *l.BatteryPct)}
	case over(l.DiskMiB, v.DiskMiB, true):
		return &halt{ByDisk, fmt.Sprintf("%.0f MiB, limit %.0f", *v.DiskMiB, *l.DiskMiB)}
	case r.at.failures >= l.Failures:
		return &halt{ByFailures, fmt.Sprintf("%d consecutive", r.at.failures)}
	case r.plan.Iterations > 0 && r.at.iteration > r.plan.Iterations:
		return &halt{ByIterations, fmt.Sprint(r.plan.Iterations)}
	case r.plan.Duration > 0 && r.elapsed() >= time.Duration(r.plan.Duration):
		return &halt{ByDuration, time.Duration(r.plan.Duration).String()}
	}
	return nil
}

func (r *runner) sense(ctx context.Context) (err error) {
	if r.reading, err = r.opt.Sensor.Read(ctx); err != nil {
		return fmt.Errorf("reading the sensors: %w", err)
	}
	return nil
}

// lost returns the name of a limit whose sensor has no value.
func (r *runner) lost() string {
	for _, w := range []struct {
		limit, value *float64
		name         string
	}{{r.plan.Limits.HeatC, r.reading.HeatC, "heat_c"}, {r.plan.Limits.BatteryPct, r.reading.BatteryPct, "battery_pct"}, {r.plan.Limits.DiskMiB, r.reading.DiskMiB, "disk_mib"}} {
		if w.limit != nil && w.value == nil {
			return w.name
		}
	}
	return ""
}

// pulse appends a heartbeat. It is not part of the record: the run goes on if it fails.
func (r *runner) pulse() {
	r.beat = r.elapsed()
	last := r.log.Last()
	b := Beat{Time: r.opt.Clock.Now().UTC().Format(time.RFC3339), Run: r.at.run, Rows: last.Seq, Event: last.Event, Hash: last.Hash,
		Iteration: r.at.iteration, Failures: r.at.failures, Reading: r.reading, Simulated: r.opt.Simulated}
	err := records.AppendWith(context.Background(), filepath.Join(r.opt.Dir, HeartbeatFile), r.opt.Files, b)
	if err != nil && r.opt.Note != nil {
		r.opt.Note("heartbeat: " + err.Error())
	}
}

func (r *runner) result() Result {
	last := r.log.Last()
	out := Result{Run: r.at.run, Rows: last.Seq, Head: last.Hash, Iterations: r.at.iteration - 1, Elapsed: r.at.elapsed.String(), Simulated: r.opt.Simulated}
	if s := r.at.stopped; s != nil {
		out.Reason, out.Detail, out.Complete = s.Reason, s.Detail, s.Complete
	}
	return out
}
