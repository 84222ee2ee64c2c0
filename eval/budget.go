package eval

import (
	"context"
	"fmt"
	"slices"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/eval/suite"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/schemas"
)

// Budgets are the limits of a build.
type Budgets struct {
	Latency *Latency  `json:"latency"`
	Memory  *Memory   `json:"memory"`
	Size    *Size     `json:"size"`
	Quality []Quality `json:"quality"`

	Baselines map[string]Baseline `json:"baselines"`

	doc *schemas.Document
}

// Latency limits the times of answers to a prompt.
type Latency struct {
	Prompt     string      `json:"prompt"`
	Tokens     int         `json:"tokens"`
	Runs       int         `json:"runs"`
	FirstToken Percentiles `json:"first_token_ms"`
	Token      Percentiles `json:"token_ms"`
	Speed      float64     `json:"tokens_per_second"` // at least
}

// Percentiles limits a time in milliseconds; 0: no limit.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
}

// Memory limits the peak of the process.
type Memory struct {
	Peak string `json:"peak"`
}

// Size limits the files of the build.
type Size struct {
	Files string `json:"files"`
}

// Quality limits a figure of an evaluation.
type Quality struct {
	Task    string   `json:"task"`
	Metric  string   `json:"metric"`
	Filter  string   `json:"filter"`
	AtLeast *float64 `json:"at_least"`
	AtMost  *float64 `json:"at_most"`
	Sure    bool     `json:"sure"`

	Relative float64 `json:"relative"` // the accepted loss as a part of the baseline's figure; 0: no limit
	Baseline string  `json:"baseline"`
}

// The defaults of Latency.
const (
	defaultTokens = 64
	defaultRuns   = 5
)

// defaultPrompt is about 100 tokens long.
const defaultPrompt = "Explain in a few sentences how a bicycle stays upright while it moves, and why it falls over when it stops. " +
	"Mention the wheels, the steering and the rider, and say which of them matters most at low speed and which at high speed. " +
	"Then describe one experiment that a child could do with a bicycle and a helper in a quiet street to see the effect, what to look for, and how to stay safe."

// ReadBudgets reads budgets.yaml.
func ReadBudgets(file string) (*Budgets, diag.List) {
	data, list := schemas.ReadFile(file, diag.Unreadable)
	if list.Failed() {
		return nil, list
	}
	doc, found := schemas.Load(schemas.Budgets, file, data)
	list = append(list, found...)
	if doc == nil || list.Failed() {
		return nil, list
	}
	b := &Budgets{doc: doc}
	if err := doc.Decode(b); err != nil {
		list.Add(diag.WrongType, doc.Pos(""), err.Error(), "")
		return nil, list
	}
	if l := b.Latency; l != nil {
		if l.Prompt == "" {
			l.Prompt = defaultPrompt
		}
		if l.Tokens == 0 {
			l.Tokens = defaultTokens
		}
		if l.Runs == 0 {
			l.Runs = defaultRuns
		}
	}
	return b, append(list, b.readBaselines()...)
}

// Figures are the measured figures; a nil one was not measured.
type Figures struct {
	FirstToken []float64 // ms, sorted
	Token      []float64 // ms of a further token, sorted
	Speed      []float64 // tokens a second, sorted
	Peak       *int64
	Files      *int64
	Run        *suite.Run // results of mm eval suite, with samples for limits relative to a baseline
}

// Asker answers requests; [runner.Runner] implements it.
type Asker interface {
	Answer(ctx context.Context, req runner.Request, emit func(text string) error) (*runner.Answer, error)
}

// Measure measures the times of a build's answers, after one that loads the model.
func (b *Budgets) Measure(ctx context.Context, a Asker, f *Figures) error {
	l := b.Latency
	if l == nil {
		return nil
	}
	for i := range l.Runs + 1 {
		// A prompt with another start is computed from the start, not reused.
		text := fmt.Sprintf("%d. %s", i+1, l.Prompt)
		req := runner.Request{Plain: true, Inputs: []talk.Part{{Type: abi.Text, Text: text}}, Preferences: runner.Preferences{MaxTokens: l.Tokens}, ToolsAllowed: []string{}}
		begun := time.Now()
		var times []time.Duration
		if _, err := a.Answer(ctx, req, func(string) error { times = append(times, time.Since(begun)); return nil }); err != nil {
			return fmt.Errorf("run %d: %w", i, err)
		}
		if i > 0 && len(times) > 0 {
			f.add(times)
		}
	}
	for _, list := range [][]float64{f.FirstToken, f.Token, f.Speed} {
		slices.Sort(list)
	}
	return nil
}

// add adds the times at which the pieces of an answer arrived.
func (f *Figures) add(times []time.Duration) {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	f.FirstToken = append(f.FirstToken, ms(times[0]))
	for i := 1; i < len(times); i++ {
		f.Token = append(f.Token, ms(times[i]-times[i-1]))
	}
	if last := times[len(times)-1] - times[0]; last > 0 {
		f.Speed = append(f.Speed, float64(len(times)-1)/last.Seconds())
	}
}

// percentile returns the value below which a share of sorted values is, the nearest one.
func percentile(sorted []float64, share float64) (float64, bool) {
	if len(sorted) == 0 {
		return 0, false
	}
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))], true
}

// parsed returns a size of the document, which its schema has checked.
func parsed(size string) float64 {
	n, err := fsx.ParseSize(size)
	if err != nil {
		return 0
	}
	return float64(n)
}
