package suite

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"mm-abi.org/mm/eval/metric"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// Verdict is the result of a comparison.
type Verdict string

// The verdicts: the second run is better or worse than the first beyond chance, equal
// within the margin, or the questions do not decide.
const (
	Better       Verdict = "better"
	Worse        Verdict = "worse"
	Equal        Verdict = "equal"
	Inconclusive Verdict = "inconclusive"

	Passed Verdict = "passed" // of the gate: not worse by more than the margin
	Failed Verdict = "failed"
)

// Compared is the difference of a figure between two runs on the same questions.
type Compared struct {
	Task     string          `json:"task"`
	Metric   string          `json:"metric"`
	Filter   string          `json:"filter"`
	N        int             `json:"n"`
	First    float64         `json:"first"`
	Second   float64         `json:"second"`
	Delta    float64         `json:"difference"`            // second less first
	Interval metric.Interval `json:"interval"`              // of it, 95 %
	OnlyA    int             `json:"only_first,omitempty"`  // right only in the first run
	OnlyB    int             `json:"only_second,omitempty"` // right only in the second
	P        float64         `json:"p"`
	Adjusted float64         `json:"p_holm"`
	Test     string          `json:"test"`
	Verdict  Verdict         `json:"verdict"`
	Margin   float64         `json:"margin,omitempty"` // the loss that the gate accepts
	Gate     Verdict         `json:"gate,omitempty"`   // of the margin: passed, failed or inconclusive
	Needed   int             `json:"needed,omitempty"` // questions that would decide the gate

	bound  metric.Interval // one-sided bounds of 95 %
	higher bool
	units  int // questions or clusters that a bootstrap draws from; 0: none
}

// minUnits is the number of questions or clusters below which a bootstrap decides nothing:
// equal values of a few would have an interval of no width.
const minUnits = 20

// significant is the level of p values.
const significant = 0.05

// CompareOptions configures [Compare].
type CompareOptions struct {
	Margin   float64  // the loss that the gate accepts; 0: no gate
	Relative float64  // the loss as a part of the first figure, instead of Margin
	Tasks    []string // nil: all common ones
	Metric   []string // nil: all
	Filter   string   // "": all
}

// gated reports whether the second run must not be worse by more than a margin.
func (o CompareOptions) gated() bool { return o.Margin > 0 || o.Relative > 0 }

// Run holds the samples of a run.
type Run struct {
	Results Results
	Dir     string // with the images and sounds of samples
	samples map[string][]Sample
	cluster map[string]string // column of a task
}

// Samples returns the samples of a task; nil without them.
func (r *Run) Samples(task string) []Sample { return r.samples[task] }

// Higher reports whether a higher figure is a better one.
func (c Compared) Higher() bool { return c.higher }

// ReadRun reads results and their samples.
func ReadRun(path string) (*Run, diag.List) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, ResultsFile)
	}
	data, err := fsx.ReadFile(path, maxOutcome)
	if err != nil {
		return badRun(path, err)
	}
	return ParseRun(path, data, true)
}

// CheckBuild reports results that were measured on a build that differs from the described one.
// A missing run and results without a digest, such as those of lm-evaluation-harness, are
// accepted.
func (r *Run) CheckBuild(describe func() (Source, error)) error {
	if r == nil || r.Results.MM.Digest == "" {
		return nil
	}
	got := r.Results.MM.Digest
	source, err := describe()
	want := source.Digest
	if err != nil || got == want {
		return err
	}
	var list diag.List
	list.Add(diag.EvalOther, diag.Pos{File: filepath.Join(r.Dir, ResultsFile)}, fmt.Sprintf("results of another build: got %s, want %s", got, want), "run mm eval suite on this build")
	return list.Err()
}

// badRun returns the fault of a file of results.
func badRun(file string, err error) (*Run, diag.List) {
	var list diag.List
	list.Add(diag.BadResults, diag.Pos{File: file}, err.Error(), "want results.json of mm eval suite --out")
	return nil, list
}

// ParseRun returns the run of results that were read from a file, with or without the samples next to it.
func ParseRun(path string, data []byte, samples bool) (*Run, diag.List) {
	r := &Run{Dir: filepath.Dir(path), samples: map[string][]Sample{}, cluster: map[string]string{}}
	err := json.Unmarshal(data, &r.Results)
	if err != nil {
		return badRun(path, err)
	}
	if !samples {
		return r, nil
	}
	for _, task := range r.Results.Tasks() {
		file := filepath.Join(r.Dir, SamplesFile(task))
		if filepath.Dir(file) != r.Dir {
			return badRun(path, fmt.Errorf("task %q: not a file name", task))
		}
		if r.samples[task], err = readSamples(file); err != nil {
			return badRun(file, err)
		}
		var s spec
		if json.Unmarshal(r.Results.Configs[task], &s) == nil {
			r.cluster[task] = s.Metadata.Cluster
		}
	}
	return r, nil
}

// maxSample is the length in bytes of the longest line of samples.
const maxSample = 1 << 24

func readSamples(file string) (out []Sample, err error) {
	data, err := fsx.ReadFile(file, maxOutcome)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxSample)
	for lines.Scan() {
		var s Sample
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(out)+1, err)
		}
		out = append(out, s)
	}
	if err := even(out); err != nil {
		return nil, err
	}
	return out, lines.Err()
}

// even reports a metric that has another number of values in a sample than in those before.
func even(samples []Sample) error {
	width := map[string]int{}
	for i, s := range samples {
		for _, name := range s.Names {
			n := len(s.Metrics[name])
			if _, ok := width[name]; !ok {
				width[name] = n
			}
			if n == 0 || n != width[name] {
				return fmt.Errorf("line %d: %s: got %d values, want %d", i+1, name, n, max(1, width[name]))
			}
		}
	}
	return nil
}

// Compare compares two runs question by question: right and wrong answers by McNemar's
// exact test with Tango's interval, other figures and clustered questions by a paired
// bootstrap. The p values of all rows are adjusted together (Holm).
func Compare(a, b *Run, opt CompareOptions) ([]Compared, diag.List) {
	var list diag.List
	var out []Compared
	for _, task := range a.Results.Tasks() {
		if len(opt.Tasks) > 0 && !slices.Contains(opt.Tasks, task) || b.samples[task] == nil {
			continue
		}
		if detail := differ(a.samples[task], b.samples[task]); detail != "" {
			list.Add(diag.RunsDiffer, diag.Pos{}, "task "+task+": "+detail, "run the same suite on both builds")
			continue
		}
		for _, key := range columns(a.samples[task]) {
			if len(opt.Metric) > 0 && !slices.Contains(opt.Metric, key[0]) || opt.Filter != "" && key[1] != opt.Filter {
				continue
			}
			out = append(out, pair(a, b, task, key, opt))
		}
	}
	if len(out) == 0 && !list.Failed() {
		list.Add(diag.RunsDiffer, diag.Pos{}, "no common task and metric", "run the same suite on both builds")
	}
	if list.Failed() {
		return nil, list
	}
	judge(out, opt)
	return out, gate(out, opt)
}

// Comparable reports whether two runs have a common figure of a task and asked the same
// questions, so that [Compare] compares it.
func Comparable(a, b *Run, task string) bool {
	return b.samples[task] != nil && differ(a.samples[task], b.samples[task]) == "" && len(columns(a.samples[task])) > 0
}

// differ returns how the questions of two runs differ, or "".
func differ(a, b []Sample) string {
	if len(a) != len(b) {
		return fmt.Sprintf("%d and %d samples", len(a), len(b))
	}
	for i := range a {
		x, _ := json.Marshal(a[i].Arguments)
		y, _ := json.Marshal(b[i].Arguments)
		if a[i].ID != b[i].ID || a[i].Filter != b[i].Filter || !bytes.Equal(x, y) || !bytes.Equal(a[i].Target, b[i].Target) {
			return fmt.Sprintf("document %d has another prompt or target", a[i].ID)
		}
		if !slices.Equal(a[i].Names, b[i].Names) {
			return fmt.Sprintf("metrics %v and %v", a[i].Names, b[i].Names)
		}
	}
	return ""
}

// columns returns the metrics and filters of samples, in order.
func columns(samples []Sample) (out [][2]string) {
	for _, s := range samples {
		for _, name := range s.Names {
			if key := [2]string{name, s.Filter}; !slices.Contains(out, key) {
				out = append(out, key)
			}
		}
	}
	return out
}

// pair compares a figure, a metric with a filter.
func pair(a, b *Run, task string, column [2]string, opt CompareOptions) Compared {
	name, filter := column[0], column[1]
	value, higher, yes, ok := Value(name)
	if !ok {
		value, higher = metric.Mean, true
	}
	c := Compared{Task: task, Metric: name, Filter: filter, higher: higher}
	var joined [][]float64 // of the first run, then of the second
	var clusters []int
	seen := map[string]int{}
	for i, s := range a.samples[task] {
		if s.Filter != filter {
			continue
		}
		x, y := s.Metrics[name], b.samples[task][i].Metrics[name]
		joined = append(joined, append(slices.Clone(x), y...))
		if yes && x[0] != y[0] {
			if x[0] > y[0] {
				c.OnlyA++
			} else {
				c.OnlyB++
			}
		}
		if column := a.cluster[task]; column != "" {
			var doc map[string]json.RawMessage
			json.Unmarshal(s.Doc, &doc)
			key := string(doc[column])
			if _, ok := seen[key]; !ok {
				seen[key] = len(seen)
			}
			clusters = append(clusters, seen[key])
		}
	}
	c.N = len(joined)
	sum := make([]float64, len(joined[0]))
	for _, item := range joined {
		for k, x := range item {
			sum[k] += x
		}
	}
	half := len(sum) / 2
	c.First, c.Second = value(sum[:half], c.N), value(sum[half:], c.N)
	c.Delta = c.Second - c.First
	c.Margin = opt.Margin
	if opt.Relative > 0 {
		c.Margin = opt.Relative * math.Abs(c.First)
	}
	if yes && clusters == nil {
		c.Test, c.P = "McNemar, exact", metric.McNemar(c.OnlyA, c.OnlyB)
		c.Interval = metric.Tango(c.N, c.OnlyA, c.OnlyB, metric.Quantile95)
		c.bound = metric.Tango(c.N, c.OnlyA, c.OnlyB, metric.QuantileGate)
		return c
	}
	delta := func(sum []float64, n int) float64 { return value(sum[half:], n) - value(sum[:half], n) }
	draws := metric.Draws(joined, clusters, delta)
	c.Test, c.P = "paired bootstrap", metric.Beyond(draws)
	if clusters != nil {
		c.Test = "paired bootstrap of clusters"
	}
	c.units = c.N
	if clusters != nil {
		c.units = len(seen)
	}
	c.Interval, c.bound = metric.Percentiles(draws, 0.95), metric.Percentiles(draws, 0.90)
	if opt.Relative > 0 { // the margin varies with the first figure
		part := opt.Relative
		if !c.higher {
			part = -part
		}
		moved := metric.Draws(joined, clusters, func(sum []float64, n int) float64 {
			first := math.Abs(value(sum[:half], n))
			return delta(sum, n) + part*(first-math.Abs(c.First))
		})
		c.bound = metric.Percentiles(moved, 0.90)
	}
	return c
}

// judge sets the verdicts.
func judge(all []Compared, opt CompareOptions) {
	p := make([]float64, len(all))
	for i, c := range all {
		p[i] = c.P
	}
	for i, adjusted := range metric.Holm(p) {
		c := &all[i]
		c.Adjusted = adjusted
		gain, low, high := c.Delta, c.bound.Low, c.bound.High
		if !c.higher {
			gain, low, high = -gain, -high, -low
		}
		wide, few := c.Interval, c.units > 0 && c.units < minUnits
		switch {
		case few:
			c.Verdict = Inconclusive
		case c.Margin > 0 && wide.Low > -c.Margin && wide.High < c.Margin:
			c.Verdict = Equal
		case adjusted < significant && gain > 0:
			c.Verdict = Better
		case adjusted < significant && gain < 0:
			c.Verdict = Worse
		default:
			c.Verdict = Inconclusive
		}
		switch {
		case !opt.gated():
		case few:
			c.Gate, c.Needed = Inconclusive, minUnits*c.N/c.units
		case low > -c.Margin:
			c.Gate = Passed
		case high < -c.Margin:
			c.Gate = Failed
		default:
			c.Gate = Inconclusive
			c.Needed = needed(*c, c.Margin)
		}
	}
}

// needed returns the number of questions that would decide the gate, by the discordance
// or the width of the interval of the questions asked.
func needed(c Compared, margin float64) int {
	if margin <= 0 {
		return 0
	}
	if c.OnlyA+c.OnlyB > 0 {
		return max(c.N+1, metric.Needed(float64(c.OnlyA+c.OnlyB)/float64(c.N), margin))
	}
	half := (c.Interval.High - c.Interval.Low) / 2
	return max(c.N+1, int(math.Ceil(float64(c.N)*half*half/(margin*margin))))
}

// gate reports the figures that miss the margin.
func gate(all []Compared, opt CompareOptions) (list diag.List) {
	for _, c := range all {
		detail := fmt.Sprintf("%s %s,%s: %+.4f [%+.4f, %+.4f] on %d questions, margin %.4g", c.Task, c.Metric, c.Filter, c.Delta, c.Interval.Low, c.Interval.High, c.N, c.Margin)
		if opt.Relative > 0 {
			detail += fmt.Sprintf(" (%g %% of %.4f)", 100*opt.Relative, c.First)
		}
		switch {
		case c.Gate == Failed:
			list.Add(diag.GateWorse, diag.Pos{}, detail, "")
		case c.Gate == Inconclusive && c.Needed == 0:
			list.Add(diag.GateOpen, diag.Pos{}, detail, "no part of 0 is a margin: want --margin")
		case c.Gate == Inconclusive:
			list.Add(diag.GateOpen, diag.Pos{}, detail, fmt.Sprintf("about %d questions would decide it", c.Needed))
		}
	}
	return list
}
