package experiment_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/chain"
	"mm-abi.org/mm/lab/experiment"
	"mm-abi.org/mm/lab/telemetry"
	"mm-abi.org/mm/registry/sign"
)

func newKey(t *testing.T) *sign.PrivateKey {
	t.Helper()
	private, _, err := sign.Generate(sign.Ed25519, nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := sign.LoadPrivate(private, nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// night is a run of six hours with two steps, as in Polymath.
const night = `
name: night
seed: 7
duration: 6h
interval: 60s
telemetry: 5m
limits: {heat_c: 45, battery_pct: 15, disk_mib: 512}
steps:
  - {name: block, function: product, with: {size: 8}, repeat: 20}
  - {name: frozen, function: product, with: {size: 8}, repeat: 3, every: 10}
simulate:
  sensors:
    - {at: 0s, heat_c: 30, battery_pct: 100, disk_mib: 4096}
    - {at: 6h, heat_c: 32, battery_pct: 60, disk_mib: 4000}
  steps:
    block: {takes: 19ms, load: 50ms}
    frozen: {takes: 576ms}
`

func readPlan(t *testing.T, text string) experiment.Plan {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := experiment.ReadPlan(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// simulate executes a plan in dir.
func simulate(t *testing.T, text, dir string, key *sign.PrivateKey, change func(*experiment.Options)) (experiment.Result, error) {
	t.Helper()
	p := readPlan(t, text)
	opt, err := experiment.Simulation(experiment.Options{Dir: dir, Key: key, Verifier: key.Public()}, p)
	if err != nil {
		t.Fatal(err)
	}
	opt.Files.Hook = unsynced
	if change != nil {
		change(&opt)
	}
	return experiment.Run(context.Background(), p, opt)
}

// unsynced skips fsync, which only matters after a power failure and is slow.
func unsynced(op *fsx.Op, do func() error) error {
	if op.Kind == fsx.OpSync || op.Kind == fsx.OpSyncDir {
		return nil
	}
	return do()
}

// rows returns the rows of a run except for resumptions, without the members that depend on
// their position.
func rows(t *testing.T, dir string, key *sign.PrivateKey) (out []string, resumes int) {
	t.Helper()
	_, err := chain.Verify(filepath.Join(dir, experiment.ChainDir), key.Public(), chain.Options{Each: func(r chain.Row) error {
		if r.Event == experiment.Resume {
			resumes++
			return nil
		}
		out = append(out, r.Time+" "+r.Event+" "+string(r.Payload))
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return out, resumes
}

func TestNight(t *testing.T) {
	t.Parallel()
	key, dir := newKey(t), t.TempDir()
	got, err := simulate(t, night, dir, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Reason != experiment.ByDuration || !got.Complete || got.Iterations != 360 || got.Elapsed != "6h0m0s" || !got.Simulated {
		t.Errorf("%+v", got)
	}
	s, err := experiment.Summarize(dir, key.Public(), experiment.Check{Noted: got.Head})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Steps) != 2 || s.Steps[0].Step != "block" || s.Steps[0].Runs != 7200 || s.Steps[1].Runs != 108 {
		t.Fatalf("%+v", s.Steps)
	}
	if b := s.Steps[0]; b.P50 < 18.5 || b.P50 > 19.5 || b.P95 < 20.5 || b.P95 > 20.9 || b.LoadP50 != 50 || b.Min < 17.1 || b.Max > 20.9 || b.Outputs != 1 || b.Failed != 0 {
		t.Errorf("%+v", b)
	}
	if s.Battery.P50 < 79 || s.Battery.P50 > 81 || s.Battery.P95 < 97 || s.Battery.P95 > 99 || s.HeatC.P95 <= s.HeatC.P50 {
		t.Errorf("%+v %+v", s.Battery, s.HeatC)
	}
	if s.Battery.First != 100 || s.Battery.Least > 60.2 || s.HeatC.Most < 31.9 || s.Elapsed != "6h0m0s" {
		t.Errorf("%+v %+v", s.Battery, s.HeatC)
	}
	var svg strings.Builder
	if err := errors.Join(s.PlotSteps(&svg), s.PlotTelemetry(&svg)); err != nil || !strings.Contains(svg.String(), "frozen") || !strings.Contains(svg.String(), "battery, %") || strings.Count(svg.String(), "</svg>") != 2 || !strings.Contains(svg.String(), "(simulated)") {
		t.Error(err, svg.Len())
	}
	b, err := experiment.ReadStatus(filepath.Join(dir, experiment.HeartbeatFile), time.Date(2026, 1, 1, 6, 1, 0, 0, time.UTC))
	if err != nil || b.Beats != 74 || b.Alive || b.Event != experiment.Stop {
		t.Errorf("%+v, %v", b, err)
	}
	// Every row is marked as simulated.
	all, _ := rows(t, dir, key)
	for _, row := range all {
		if !strings.Contains(row, `"simulated":true`) {
			t.Fatal(row)
		}
	}
	if _, err := simulate(t, night, dir, key, func(o *experiment.Options) { o.Resume = true }); !errors.Is(err, experiment.ErrComplete) {
		t.Errorf("resumed a complete run: %v", err)
	}
	if _, err := simulate(t, night, dir, key, nil); !errors.Is(err, experiment.ErrExists) {
		t.Errorf("started twice: %v", err)
	}
	if _, err := simulate(t, night+"# changed\n", dir, key, func(o *experiment.Options) { o.Resume = true }); err == nil || !strings.Contains(err.Error(), "plan mismatch") {
		t.Errorf("different plan: %v", err)
	}
	if _, err := simulate(t, night, dir, newKey(t), func(o *experiment.Options) { o.Resume = true }); !errors.Is(err, chain.ErrBroken) {
		t.Errorf("different key: %v", err)
	}
	if _, err := simulate(t, night, t.TempDir(), key, func(o *experiment.Options) { o.Resume = true }); err == nil {
		t.Error("resumed a missing run")
	}
}

// Each limit stops the run at its time and not earlier. The row holds value and limit.
func TestStops(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		old, new, reason, detail string
		least, most              time.Duration
	}{
		"heat":       {"at: 6h, heat_c: 32", "at: 6h, heat_c: 60", experiment.ByHeat, "45.0 °C, limit 45.0", 3 * time.Hour, 3*time.Hour + time.Second},
		"battery":    {"battery_pct: 60", "battery_pct: 0", experiment.ByBattery, "15 %, limit 15", 306 * time.Minute, 307 * time.Minute},
		"disk":       {"disk_mib: 4000", "disk_mib: 0", experiment.ByDisk, "512 MiB, limit 512", 315 * time.Minute, 316 * time.Minute},
		"sensor":     {"at: 6h, heat_c: 32,", "at: 6h,", experiment.BySensor, "heat_c", 0, time.Second},
		"failures":   {"takes: 19ms", "fails_every: 1, takes: 19ms", experiment.ByFailures, "3 consecutive", 2 * time.Minute, 3 * time.Minute},
		"iterations": {"duration: 6h", "iterations: 5", experiment.ByIterations, "5", 4 * time.Minute, 5*time.Minute + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && tc.least > 4*time.Hour {
				t.Skip("short")
			}
			text := strings.Replace(night, tc.old, tc.new, 1)
			if text == night {
				t.Fatal("unchanged plan")
			}
			dir, key := t.TempDir(), newKey(t)
			got, err := simulate(t, text, dir, key, nil)
			if err != nil {
				t.Fatal(err)
			}
			elapsed, _ := time.ParseDuration(got.Elapsed)
			if got.Reason != tc.reason || got.Detail != tc.detail || elapsed < tc.least || elapsed > tc.most || got.Complete != (name == "iterations") {
				t.Errorf("%+v", got)
			}
			if s, err := experiment.Summarize(dir, key.Public(), experiment.Check{}); err != nil || s.Reason != tc.reason {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
}

// A file STOP ends the run while it waits. After its removal the run continues without
// repeating a step.
func TestStopFile(t *testing.T) {
	t.Parallel()
	key, dir := newKey(t), t.TempDir()
	night := strings.Replace(night, "duration: 6h", "duration: 1h", 1)
	stop := filepath.Join(dir, experiment.StopFile)
	n := 0
	got, err := simulate(t, night, dir, key, func(o *experiment.Options) {
		o.Each = func(chain.Row) {
			if n++; n == 20 {
				if err := os.WriteFile(stop, nil, 0o644); err != nil {
					t.Error(err)
				}
			}
		}
	})
	if err != nil || got.Reason != experiment.ByFile || got.Complete || got.Rows != 21 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err = simulate(t, night, dir, key, func(o *experiment.Options) { o.Resume = true }); err != nil || got.Reason != experiment.ByFile {
		t.Fatalf("the file still exists: %+v, %v", got, err)
	}
	if err := os.Remove(stop); err != nil {
		t.Fatal(err)
	}
	got, err = simulate(t, night, dir, key, func(o *experiment.Options) { o.Resume = true })
	if err != nil || !got.Complete || got.Iterations != 60 {
		t.Errorf("%+v, %v", got, err)
	}
}

// bare is a machine with a given reading.
type bare struct {
	experiment.Clock
	reading telemetry.Reading
}

func (b bare) Read(context.Context) (telemetry.Reading, error) { return b.reading, nil }

// Real steps: processes and functions, one that fails with a code, one that times out, and
// one that is missing.
func TestMachine(t *testing.T) {
	text := `
name: real
iterations: 2
limits: {disk_mib: 1, failures: 1000}
steps:
  - {name: product, function: product, with: {size: 16}, repeat: 3}
  - {name: echo, command: [sh, -c, "echo hello"]}
  - {name: fails, command: [sh, -c, "echo why >&2; exit 7"]}
  - {name: slow, command: [sleep, "60"], timeout: 50ms}
  - {name: absent, command: [no-such-program-of-mine]}
  - {name: unknown, function: unknown}
`
	key, dir := newKey(t), t.TempDir()
	p := readPlan(t, text)
	opt := experiment.Machine(experiment.Options{Dir: dir, Key: key, Verifier: key.Public()}, experiment.Functions())
	if got, err := experiment.Run(context.Background(), p, opt); err != nil || !got.Complete || got.Simulated {
		t.Fatalf("%+v, %v", got, err)
	}
	want := map[string]string{"product": "", "echo": "", "fails": "run 1: exit status 7: why", "slow": "run 1: timeout of 50ms exceeded", "absent": "not found", "unknown": `unknown function "unknown"`}
	all, _ := rows(t, dir, key)
	seen := map[string]int{}
	for _, row := range all {
		var pay experiment.Payload
		if err := json.Unmarshal([]byte(row[strings.Index(row, "{"):]), &pay); err != nil {
			t.Fatal(err)
		}
		if pay.Step == "" {
			continue
		}
		seen[pay.Step]++
		if !strings.Contains(pay.Error, want[pay.Step]) || want[pay.Step] == "" && pay.Error != "" {
			t.Errorf("%s: %q", pay.Step, pay.Error)
		}
		if pay.Step == "product" && (len(pay.RunsUS) != 3 || pay.Bytes != 4*16*16) || pay.Step == "echo" && pay.Bytes != 6 || pay.Step == "fails" && pay.Code != 7 {
			t.Errorf("%+v", pay)
		}
	}
	if diff := cmp.Diff(map[string]int{"product": 2, "echo": 2, "fails": 2, "slow": 2, "absent": 2, "unknown": 2}, seen); diff != "" {
		t.Error(diff)
	}
	// A limit without a sensor is refused before the run starts.
	p.Limits.BatteryPct = new(15.0)
	opt.Dir, opt.Sensor = t.TempDir(), bare{}
	if _, err := experiment.Run(context.Background(), p, opt); err == nil || !strings.Contains(err.Error(), "battery_pct") {
		t.Error(err)
	}
}

// An interrupted run has a row, and so has its partial step.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	key, dir := newKey(t), t.TempDir()
	p := readPlan(t, "name: a\niterations: 3\nsteps: [{name: nap, function: sleep, with: {seconds: 600}}]\n")
	ctx, cancel := context.WithCancel(context.Background())
	opt := experiment.Machine(experiment.Options{Dir: dir, Key: key, Verifier: key.Public()}, experiment.Functions())
	opt.Each = func(r chain.Row) {
		if r.Event == experiment.Telemetry {
			time.AfterFunc(20*time.Millisecond, cancel)
		}
	}
	got, err := experiment.Run(ctx, p, opt)
	if !errors.Is(err, context.Canceled) || got.Reason != experiment.ByInterrupt || got.Complete || got.Rows != 4 {
		t.Errorf("%+v, %v", got, err)
	}
}

// long is a plan whose steps dominate the run.
const long = `
name: long
seed: 5
duration: 150s
telemetry: 7s
limits: {heat_c: 45, failures: 9}
steps:
  - {name: many, function: product, repeat: 4}
  - {name: short, function: product}
  - name: drawn
    policy: {kind: epsilon-greedy, epsilon: 0.4}
    arms: [{name: a, function: product}, {name: b, function: product}]
simulate:
  sensors: [{at: 0s, heat_c: 30}, {at: 150s, heat_c: 35}]
  steps:
    many: {takes: 12s, load: 3s}
    short: {takes: 300ms}
    drawn: {arms: {a: {takes: 20s}, b: {takes: 25s}}}
`

// During a step the run records telemetry on time, and a limit ends the step at its time;
// the finished runs count.
func TestLongSteps(t *testing.T) {
	for name, tc := range map[string]struct {
		old, new, reason string
		at               time.Duration
	}{
		"duration": {"", "", experiment.ByDuration, 150 * time.Second},
		"heat":     {"at: 150s, heat_c: 35", "at: 50s, heat_c: 45", experiment.ByHeat, 50 * time.Second},
	} {
		key, dir := newKey(t), t.TempDir()
		got, err := simulate(t, strings.Replace(long, tc.old, tc.new, 1), dir, key, nil)
		elapsed, _ := time.ParseDuration(got.Elapsed)
		if err != nil || got.Reason != tc.reason || elapsed != tc.at {
			t.Fatalf("%s: %+v, %v", name, got, err)
		}
		s, err := experiment.Summarize(dir, key.Public(), experiment.Check{})
		if err != nil {
			t.Fatal(err)
		}
		partial, runs := 0, 0
		for _, f := range s.Steps {
			partial, runs = partial+f.Partial, runs+f.Runs
		}
		all, _ := rows(t, dir, key)
		readings := 0
		for _, row := range all {
			if strings.Contains(row, " telemetry ") {
				readings++
			}
		}
		if want := int(tc.at/(7*time.Second)) + 1; partial != 1 || runs < 3 || readings != want {
			t.Errorf("%s: %d partial steps, %d runs, %d of %d rows of telemetry", name, partial, runs, readings, want)
		}
	}
}

// The same with real steps: the file STOP and the duration.
func TestLongRealSteps(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ old, new, reason string }{
		"duration":  {"duration: 1h", "duration: 1500ms", experiment.ByDuration},
		"stop file": {"", "", experiment.ByFile},
	} {
		if testing.Short() && name == "duration" {
			continue // waits
		}
		key, dir := newKey(t), t.TempDir()
		text := "name: a\nduration: 1h\ntelemetry: 100ms\nsteps:\n  - {name: nap, function: sleep, with: {seconds: 0.2}, repeat: 2}\n  - {name: long, command: [sleep, \"600\"]}\n"
		p := readPlan(t, strings.Replace(text, tc.old, tc.new, 1))
		opt := experiment.Machine(experiment.Options{Dir: dir, Key: key, Verifier: key.Public(), Poll: 20 * time.Millisecond}, experiment.Functions())
		readings, naps := 0, 0
		opt.Each = func(r chain.Row) {
			switch {
			case r.Event == experiment.Telemetry && strings.Contains(string(r.Payload), `"step":"long"`):
				if readings++; readings == 2 && tc.reason == experiment.ByFile {
					if err := os.WriteFile(filepath.Join(dir, experiment.StopFile), nil, 0o644); err != nil {
						t.Error(err)
					}
				}
			case r.Event == experiment.StepDone && strings.Contains(string(r.Payload), `"step":"nap"`):
				naps++
			}
		}
		got, err := experiment.Run(context.Background(), p, opt)
		if err != nil || got.Reason != tc.reason || naps != 1 {
			t.Fatalf("%s: %+v, %d naps, %v", name, got, naps, err)
		}
		all, _ := rows(t, dir, key)
		if row := all[len(all)-2]; !strings.Contains(row, `"step":"long","partial":true`) {
			t.Errorf("%s: before the stop: %s", name, row)
		}
		if tc.reason == experiment.ByFile && readings < 2 {
			t.Errorf("%s: %d rows of telemetry during the step", name, readings)
		}
	}
}

// Two processes cannot run in one folder.
func TestOneProcess(t *testing.T) {
	key, dir := newKey(t), t.TempDir()
	l, err := chain.Open(context.Background(), filepath.Join(dir, experiment.ChainDir), key, key.Public(), fsx.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := simulate(t, night, dir, key, nil); !errors.Is(err, fsx.ErrLocked) {
		t.Error(err)
	}
}

// Rows of other writers in the chain of a run are ignored: the run stays complete and its
// figures do not change.
func TestForeignRows(t *testing.T) {
	key, dir := newKey(t), t.TempDir()
	plan := strings.Replace(night, "duration: 6h", "iterations: 3", 1)
	note := func(run, event string, payload any) {
		t.Helper()
		l, err := chain.Open(context.Background(), filepath.Join(dir, experiment.ChainDir), key, key.Public(), fsx.Options{Hook: unsynced}, nil)
		if err == nil {
			_, err = l.Append("2026-01-02T00:00:00Z", run, event, payload)
			err = errors.Join(err, l.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	note("falsify", "falsifier", "before it")
	got, err := simulate(t, plan, dir, key, nil)
	if err != nil || !got.Complete {
		t.Fatalf("%+v, %v", got, err)
	}
	want, err := experiment.Summarize(dir, key.Public(), experiment.Check{})
	if err != nil || want.Run != got.Run || want.Reason != experiment.ByIterations {
		t.Fatalf("%+v, %v", want, err)
	}
	note("falsify", "falsifier", map[string]any{"result": "pass"})
	note("falsify", "falsifier", "no object")
	note(got.Run, "note", "the name of the run with another event")
	note("other", experiment.StepDone, experiment.Payload{Step: "block", Iteration: 9, ElapsedUS: 1, RunsUS: []int64{1}})
	note("other", experiment.Start, experiment.Payload{Name: "other"})
	s, err := experiment.Summarize(dir, key.Public(), experiment.Check{})
	if err != nil || s.Run != want.Run || s.Name != want.Name || s.Elapsed != want.Elapsed || s.Reason != want.Reason || !s.Complete || s.Steps[0].Runs != want.Steps[0].Runs {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := experiment.ReadHistory(dir, key.Public(), experiment.Check{}); err != nil {
		t.Error(err)
	}
	if got, err = simulate(t, plan, dir, key, func(o *experiment.Options) { o.Resume = true }); !errors.Is(err, experiment.ErrComplete) {
		t.Errorf("resumed: %+v, %v", got, err)
	}
}

func TestPlanFaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plan.yaml")
	text := `name: x
duration: soon
steps:
  - {name: a, function: f, command: [x]}
  - {name: b, function: f}
  - {name: b, function: g}
simulate:
  steps: {c: {takes: 1s}}
`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := experiment.ReadPlan(path)
	list, ok := diag.From(err)
	if !ok || len(list) < 2 {
		t.Fatalf("%v", err)
	}
	text = strings.NewReplacer("soon", "1s", ", command: [x]", "").Replace(text)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = experiment.ReadPlan(path)
	if list, ok = diag.From(err); !ok || len(list) != 2 || list[0].Pos.Line != 6 || list[1].Pos.Line != 8 {
		t.Fatalf("%v", list)
	}
}
