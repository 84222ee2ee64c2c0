package experiment

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/chain"
	"mm-abi.org/mm/train/plot"
)

// Summary holds the figures of a run.
type Summary struct {
	Run       string        `json:"run"`
	Name      string        `json:"name"`
	Plan      string        `json:"plan"` // hex SHA-256
	Simulated bool          `json:"simulated"`
	Rows      int           `json:"rows"`
	Head      string        `json:"head"`
	Key       string        `json:"key"`
	Elapsed   string        `json:"elapsed"`
	Resumes   int           `json:"resumes"`
	Choices   int           `json:"choices"`           // of arms
	Running   bool          `json:"running,omitempty"` // a process is executing it
	Reason    string        `json:"reason,omitempty"`  // of the last stop; empty if the run is running or was killed
	Detail    string        `json:"detail,omitempty"`
	Complete  bool          `json:"complete"`
	Steps     []StepFigures `json:"steps"`
	HeatC     *Range        `json:"heat_c,omitempty"`
	Battery   *Range        `json:"battery_pct,omitempty"`
	DiskMiB   *Range        `json:"disk_mib,omitempty"`

	steps     map[string]*StepFigures
	telemetry map[string][]plot.Point
}

// StepFigures holds the figures of a step, or of STEP/ARM. Times are in milliseconds, of
// successful runs, without loading.
type StepFigures struct {
	Step     string  `json:"step"`
	Rows     int     `json:"rows"`
	Failed   int     `json:"failed"`  // rows
	Partial  int     `json:"partial"` // interrupted rows, whose finished runs count
	Runs     int     `json:"runs"`
	P50      float64 `json:"p50_ms"`
	P95      float64 `json:"p95_ms"`
	Min      float64 `json:"min_ms"`
	Max      float64 `json:"max_ms"`
	LoadP50  float64 `json:"load_p50_ms"`
	Outputs  int     `json:"outputs"`  // distinct
	Unstable int     `json:"unstable"` // rows whose outputs differ

	runs, loads []float64
	outputs     map[string]bool
	curve       []plot.Point
}

// Range holds the figures of a sensor.
type Range struct {
	First float64 `json:"first"`
	Last  float64 `json:"last"`
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`

	values []float64
}

// Summarize verifies the chain of the run in dir and computes its figures. If the error is
// [chain.ErrUnfinished], they cover all rows but the last; other errors have none.
func Summarize(dir string, v chain.Verifier, c Check) (Summary, error) {
	s := Summary{steps: map[string]*StepFigures{}, telemetry: map[string][]plot.Point{}}
	report, err := verify(dir, v, c, s.add)
	s.Rows, s.Head, s.Key, s.Running = report.Rows, report.Head, report.Key, report.Running
	for _, name := range slices.Sorted(maps.Keys(s.steps)) {
		s.Steps = append(s.Steps, s.steps[name].figures())
	}
	for _, r := range []*Range{s.HeatC, s.Battery, s.DiskMiB} {
		r.close()
	}
	return s, err
}

// add adds a row.
func (s *Summary) add(row chain.Row) error {
	if foreign(row, s.Run) {
		return nil
	}
	var p Payload
	if err := json.Unmarshal(row.Payload, &p); err != nil {
		return fmt.Errorf("chain row %d: %w", row.Seq, err)
	}
	s.Elapsed, s.Reason, s.Detail, s.Complete = micro(p.ElapsedUS).String(), "", "", false
	minutes := micro(p.ElapsedUS).Minutes()
	switch row.Event {
	case Start:
		s.Run, s.Name, s.Plan, s.Simulated = row.Run, p.Name, p.Plan, p.Simulated
	case Resume:
		s.Resumes++
	case Choice:
		s.Choices++
	case Stop:
		s.Reason, s.Detail, s.Complete = p.Reason, p.Detail, p.Complete
	case StepDone:
		name := p.Step
		if p.Arm != "" {
			name += "/" + p.Arm
		}
		f := s.steps[name]
		if f == nil {
			f = &StepFigures{Step: name, outputs: map[string]bool{}}
			s.steps[name] = f
		}
		f.add(p, minutes)
	}
	if r := p.Reading; r != nil {
		s.HeatC = s.HeatC.add(r.HeatC)
		s.Battery = s.Battery.add(r.BatteryPct)
		s.DiskMiB = s.DiskMiB.add(r.DiskMiB)
		for name, v := range map[string]*float64{"heat, °C": r.HeatC, "battery, %": r.BatteryPct} {
			if v != nil {
				s.telemetry[name] = append(s.telemetry[name], plot.Point{X: minutes, Y: max(*v, 0)})
			}
		}
	}
	return nil
}

func (f *StepFigures) add(p Payload, minutes float64) {
	f.Rows++
	if p.Error != "" {
		f.Failed++
		return
	}
	if p.Partial {
		f.Partial++
	}
	if p.Unstable {
		f.Unstable++
	}
	if len(p.RunsUS) == 0 {
		return
	}
	f.outputs[p.Output] = true
	f.loads = append(f.loads, ms(p.LoadUS))
	var runs []float64
	for _, us := range p.RunsUS {
		runs = append(runs, ms(us))
	}
	f.runs = append(f.runs, runs...)
	slices.Sort(runs)
	f.curve = append(f.curve, plot.Point{X: minutes, Y: percentile(runs, 50)})
}

func (f *StepFigures) figures() StepFigures {
	slices.Sort(f.runs)
	slices.Sort(f.loads)
	f.Runs, f.Outputs = len(f.runs), len(f.outputs)
	f.P50, f.P95, f.LoadP50 = percentile(f.runs, 50), percentile(f.runs, 95), percentile(f.loads, 50)
	f.Min, f.Max = percentile(f.runs, 0), percentile(f.runs, 100)
	return *f
}

// percentile returns the nearest-rank percentile p of sorted values, or 0 if there are
// none.
func percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(p/100*float64(len(sorted))))-1)]
}

func ms(us int64) float64 {
	return float64(time.Duration(us)*time.Microsecond) / float64(time.Millisecond)
}

func (r *Range) add(v *float64) *Range {
	switch {
	case v == nil:
		return r
	case r == nil:
		r = &Range{First: *v, Least: *v, Most: *v}
	}
	r.Last, r.Least, r.Most = *v, min(r.Least, *v), max(r.Most, *v)
	r.values = append(r.values, *v)
	return r
}

// close computes the percentiles.
func (r *Range) close() {
	if r != nil {
		slices.Sort(r.values)
		r.P50, r.P95 = percentile(r.values, 50), percentile(r.values, 95)
	}
}

// colors are the line colors of a chart, used in turn.
var colors = []string{"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b"}

// Plot draws both plots of the run into a folder.
func (s *Summary) Plot(dir string) error {
	for name, draw := range map[string]func(io.Writer) error{"steps.svg": s.PlotSteps, "telemetry.svg": s.PlotTelemetry} {
		if err := fsx.Replace(filepath.Join(dir, name), 0o644, draw); err != nil {
			return err
		}
	}
	return nil
}

// PlotSteps draws the run times of each step over the time of the run.
func (s *Summary) PlotSteps(w io.Writer) error {
	c := plot.Chart{Title: s.title("median of a step's runs"), X: "minutes", Y: "ms"}
	for i, f := range s.Steps {
		c.Lines = append(c.Lines, plot.Line{Name: f.Step, Color: colors[i%len(colors)], Points: f.curve})
	}
	return plot.SVG(w, c)
}

// PlotTelemetry draws heat and battery over the time of the run. Negative values are drawn
// as 0.
func (s *Summary) PlotTelemetry(w io.Writer) error {
	c := plot.Chart{Title: s.title("telemetry"), X: "minutes", Y: "°C, %"}
	for i, name := range slices.Sorted(maps.Keys(s.telemetry)) {
		c.Lines = append(c.Lines, plot.Line{Name: name, Color: colors[i%len(colors)], Points: s.telemetry[name]})
	}
	return plot.SVG(w, c)
}

func (s *Summary) title(text string) string {
	if s.Simulated {
		text += " (simulated)"
	}
	return s.Name + ": " + text
}

// state describes whether the run goes on and why it stopped.
func (s *Summary) state() string {
	state := "killed"
	switch {
	case s.Running:
		state = "running"
	case s.Reason != "":
		state = strings.TrimSpace("stopped by " + s.Reason + " " + s.Detail)
	}
	if s.Simulated {
		state += "; simulated"
	}
	return state
}

// Write writes the figures of the run, of its sensors and of each step.
func (s *Summary) Write(to io.Writer) error {
	diag.Line(to, "%s: %s, %s, %s, %s", s.Run, s.Elapsed, diag.Count(s.Rows, "row"), diag.Count(s.Resumes, "resumption"), s.state())
	for _, r := range []struct {
		name string
		v    *Range
	}{{"heat, °C", s.HeatC}, {"battery, %", s.Battery}, {"disk, MiB", s.DiskMiB}} {
		if r.v != nil {
			fmt.Fprintf(to, "%s: first %.1f, last %.1f, least %.1f, most %.1f, p50 %.1f, p95 %.1f\n", r.name, r.v.First, r.v.Last, r.v.Least, r.v.Most, r.v.P50, r.v.P95)
		}
	}
	var rows [][]string
	for _, f := range s.Steps {
		rows = append(rows, []string{f.Step, fmt.Sprint(f.Rows), fmt.Sprint(f.Failed), fmt.Sprint(f.Runs), fmt.Sprintf("%.3f", f.P50), fmt.Sprintf("%.3f", f.P95), fmt.Sprintf("%.3f", f.Min), fmt.Sprintf("%.3f", f.Max), fmt.Sprint(f.Outputs)})
	}
	return diag.Table(to, []string{"STEP", "ROWS", "FAILED", "RUNS", "P50 MS", "P95 MS", "MIN MS", "MAX MS", "OUTPUTS"}, rows)
}
