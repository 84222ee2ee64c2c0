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

// The files of a run in its folder.
const (
	ChainDir      = "chain"
	StopFile      = "STOP"
	HeartbeatFile = "heartbeat.jsonl"
)

// The errors that callers tell apart.
var (
	// ErrExists says that the folder holds a run already.
	ErrExists = errors.New("there is a run already")
	// ErrComplete says that nothing is left to be done.
	ErrComplete = errors.New("the run is complete")
)

// Clock is the time that a run lives in. During does something and looks around
// meanwhile, after first and then as often as look says; below 0 it ends do's
// context. It returns when do has.
type Clock interface {
	Now() time.Time
	Sleep(ctx context.Context, d time.Duration) error
	During(ctx context.Context, first time.Duration, do func(context.Context), look func() time.Duration)
}

// Sensor is asked before each run of a step and while it lasts.
type Sensor interface {
	Read(ctx context.Context) (telemetry.Reading, error)
}

// Executor makes a step ready.
type Executor interface {
	Open(ctx context.Context, s Step, iteration int) (Work, error)
}

// Work is a step that is ready.
type Work interface {
	Do(ctx context.Context, n int) (Output, error) // the run n of the step, from 0
	Close() error
}

// Output is what a run of a step gave.
type Output struct {
	SHA256 string
	Bytes  int64
	Code   int // exit code of a command
}

// Options of [Run]. Clock, Sensor and Executor are those of [Machine] or of
// [Simulation].
type Options struct {
	Dir       string // the run's folder
	Resume    bool
	Key       chain.Signer
	Verifier  chain.Verifier
	Clock     Clock
	Sensor    Sensor
	Executor  Executor
	Simulated bool
	Poll      time.Duration       // how long a sleep or a run may last before the limits are looked at; 1 s
	Note      func(string)        // is told of events; nil: nobody
	Files     fsx.Options         // seam for tests
	Each      func(chain.Row)     // is shown each new row; nil: nobody
	Settle    func(time.Duration) // is told how far a resumed run is; nil: nobody
}

// Result is how a run ended.
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

// runner is a run under way.
type runner struct {
	plan    Plan
	opt     Options
	log     *chain.Log
	at      state
	since   time.Time     // when this process took over
	before  time.Duration // elapsed until then
	beat    time.Duration // of the last heartbeat; below 0: none
	reading telemetry.Reading
	step    string // that is being done; empty: none
}

// Run does the plan until it is complete or something stops it. What stops it
// is no error: the result says so. The context's end is one, and has its row.
func Run(ctx context.Context, p Plan, opt Options) (Result, error) {
	if opt.Poll <= 0 {
		opt.Poll = time.Second
	}
	r := &runner{plan: p, opt: opt, beat: -1}
	each := func(row chain.Row) error { return r.at.apply(len(p.Steps), row) }
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

// begin writes the row that opens a run, or that takes it up again.
func (r *runner) begin(ctx context.Context) error {
	fresh := r.at.run == ""
	switch {
	case fresh && r.opt.Resume:
		return fmt.Errorf("%s holds no run: %w", r.opt.Dir, fs.ErrNotExist)
	case !fresh && !r.opt.Resume:
		return fmt.Errorf("%s: %w", r.opt.Dir, ErrExists)
	case !fresh && r.at.plan != r.plan.Digest:
		return fmt.Errorf("the run was begun with the plan %.12s…, this one is %.12s…", r.at.plan, r.plan.Digest)
	case !fresh && r.at.simulated != r.opt.Simulated:
		return fmt.Errorf("a simulated run stays one, and a real run stays real")
	case !fresh && r.at.stopped != nil && r.at.stopped.Complete:
		return ErrComplete
	}
	r.before = r.at.elapsed
	if r.opt.Simulated { // a step that is done again begins when it did
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
		return fmt.Errorf("the plan watches %s, and there is no sensor of it; take the limit out to run without", lost)
	}
	if !fresh {
		return r.row(Resume, Payload{})
	}
	r.at.run = r.plan.Name + "-" + r.since.UTC().Format("20060102T150405Z")
	return r.row(Start, Payload{Plan: r.plan.Digest, Name: r.plan.Name})
}

// elapsed is the run's own time: that of the process, after what it took over.
func (r *runner) elapsed() time.Duration {
	return (r.before + r.opt.Clock.Now().Sub(r.since)).Truncate(time.Microsecond)
}

// row adds a row and takes it in as a resumption would.
func (r *runner) row(event string, p Payload) error {
	p.ElapsedUS, p.Simulated = r.elapsed().Microseconds(), r.opt.Simulated
	row, err := r.log.Append(r.opt.Clock.Now().UTC().Format(time.RFC3339Nano), r.at.run, event, p)
	if err != nil {
		return err
	}
	if r.opt.Each != nil {
		r.opt.Each(row)
	}
	return r.at.apply(len(r.plan.Steps), row)
}

// halt is the stop that a look around asks for.
type halt struct{ reason, detail string }

// loop does step after step.
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

// wait sleeps until the next iteration is due, and looks around meanwhile.
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

// pause is how long it is until the next look around. The times of looks are
// those of the run and not of what is being done, so that a step that is done
// again meets the same ones.
func (r *runner) pause() time.Duration {
	now := r.elapsed()
	next := now.Truncate(r.opt.Poll) + r.opt.Poll
	if told := r.at.told; told > now {
		next = min(next, told)
	} else {
		next = min(next, told+time.Duration(r.plan.Telemetry))
	}
	if r.plan.Duration > 0 {
		next = min(next, time.Duration(r.plan.Duration))
	}
	return max(next-now, time.Microsecond)
}

// look reads the sensors, writes them down where that is due, and says whether
// the run must stop.
func (r *runner) look(ctx context.Context) (*halt, error) {
	if err := r.sense(ctx); err != nil {
		return nil, err
	}
	if r.at.told < 0 || r.elapsed() >= r.at.told+time.Duration(r.plan.Telemetry) {
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

// halted holds the limits against the last reading.
func (r *runner) halted() *halt {
	over := func(limit, value *float64, below bool) bool {
		return limit != nil && value != nil && (below && *value < *limit || !below && *value >= *limit)
	}
	l, v := r.plan.Limits, r.reading
	_, err := os.Lstat(filepath.Join(r.opt.Dir, StopFile))
	switch lost := r.lost(); {
	case !errors.Is(err, fs.ErrNotExist): // one that cannot be looked for counts as there
		return &halt{ByFile, StopFile}
	case lost != "":
		return &halt{BySensor, lost}
	case over(l.HeatC, v.HeatC, false):
		return &halt{ByHeat, fmt.Sprintf("%.1f °C, the limit is %.1f", *v.HeatC, *l.HeatC)}
	case over(l.BatteryPct, v.BatteryPct, true):
		return &halt{ByBattery, fmt.Sprintf("%.0f %%, the limit is %.0f", *v.BatteryPct, *l.BatteryPct)}
	case over(l.DiskMiB, v.DiskMiB, true):
		return &halt{ByDisk, fmt.Sprintf("%.0f MiB, the limit is %.0f", *v.DiskMiB, *l.DiskMiB)}
	case r.at.failures >= l.Failures:
		return &halt{ByFailures, fmt.Sprintf("%d in a row", r.at.failures)}
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

// lost names the limit whose sensor gives nothing.
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

// pulse writes a line of the heartbeat. It is for whoever watches from afar and
// no part of the record: where it fails, the run goes on.
func (r *runner) pulse() {
	r.beat = r.elapsed()
	last := r.log.Last()
	b := Beat{Time: r.opt.Clock.Now().UTC().Format(time.RFC3339), Run: r.at.run, Rows: last.Seq, Event: last.Event, Hash: last.Hash,
		Iteration: r.at.iteration, Failures: r.at.failures, Reading: r.reading, Simulated: r.opt.Simulated}
	err := records.Append(context.Background(), filepath.Join(r.opt.Dir, HeartbeatFile), b)
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
