package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"mm-abi.org/mm/eval/metric"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes"
)

// Scored is the log likelihood of a continuation.
type Scored struct {
	LogProb float64
	Greedy  bool // it is the most likely text
	Cut     bool // the start of the context did not fit
}

// Prompt asks for a generated answer.
type Prompt struct {
	Text      string
	Until     []string // strings that end the answer
	MaxTokens int
	Media     []Medium
	Tools     bool         // the skills of the build may be called, in a turn of a conversation
	Trace     func(Called) // receives each call; may be nil
}

// Called is a call of a skill with its answer.
type Called struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Answer    string          `json:"answer"` // as the model reads it
}

// Model answers the questions of a task. It is safe for concurrent use.
type Model interface {
	// Score returns the log likelihood of each continuation of a context.
	Score(ctx context.Context, text string, rest []string) ([]Scored, error)
	// Rolling returns the log likelihood of a text.
	Rolling(ctx context.Context, text string) (float64, error)
	// Generate returns the most likely continuation of a prompt.
	Generate(ctx context.Context, p Prompt) (string, error)
}

// RunOptions configures [Task.Ask].
type RunOptions struct {
	Parallel int                   // questions asked at the same time; 0: one
	Progress func(done, total int) // may be nil
}

// Sample is the judged answer to a document, as the harness logs it. Metrics holds the
// figures of Names.
type Sample struct {
	ID        int
	Doc       json.RawMessage
	Target    json.RawMessage
	Arguments [][]any
	Answers   [][]any // of each argument
	Filtered  []any
	Filter    string
	Metrics   map[string][]float64
	Names     []string
	Media     []Recorded // of the question
	Calls     []Called   // of skills, before the answer
}

// Score is a figure of a task.
type Score struct {
	Metric   string          `json:"metric"`
	Filter   string          `json:"filter"`
	Value    float64         `json:"value"`
	Error    *float64        `json:"stderr"` // nil: of one document
	Interval metric.Interval `json:"interval"`
	Method   string          `json:"method"` // of the interval
	N        int             `json:"n"`
	Clusters int             `json:"clusters,omitempty"`
	Higher   bool            `json:"higher_is_better"`
}

// Outcome is the result of a task.
type Outcome struct {
	Task     string          `json:"task"`
	Config   json.RawMessage `json:"config"`
	Version  any             `json:"version"`
	Output   string          `json:"output_type"`
	Shots    int             `json:"shots"`
	Original int             `json:"original"`
	Data     string          `json:"data"` // digest
	Cut      int             `json:"cut,omitempty"`
	Scores   []Score         `json:"scores"`
	Samples  []Sample        `json:"samples"`
}

// Ask asks all questions of a task and judges the answers. The same model has the same
// outcome: answers are greedy.
func (t *Task) Ask(ctx context.Context, m Model, opt RunOptions) (*Outcome, error) {
	questions, err := t.prompts(t.docs)
	if err != nil {
		return nil, t.failed(diag.SuiteTemplate, err)
	}
	answers := make([]answered, len(questions))
	if err := t.answerAll(ctx, m, questions, answers, opt); err != nil {
		return nil, err
	}
	return t.outcome(answers)
}

// outcome judges the answers to all questions.
func (t *Task) outcome(answers []answered) (*Outcome, error) {
	out := &Outcome{Task: t.Name, Config: t.config, Version: t.spec.Metadata.Version, Output: t.spec.Output, Shots: t.Shots, Original: t.original, Data: t.digest}
	if out.Version == nil {
		out.Version = "Yaml"
	}
	for _, a := range answers {
		for _, s := range a.scores {
			if s.Cut {
				out.Cut++
				break
			}
		}
	}
	for _, f := range t.filters {
		if err := t.judge(f, answers, out); err != nil {
			return nil, t.failed(diag.SuiteDoc, err)
		}
	}
	return out, nil
}

// failed returns an error as a diagnostic of the task file.
func (t *Task) failed(code diag.Code, err error) error {
	var list diag.List
	list.Add(code, diag.Pos{File: t.doc.File}, err.Error(), "")
	return list.Err()
}

// answerAll answers the questions with a few workers.
func (t *Task) answerAll(ctx context.Context, m Model, questions []question, answers []answered, opt RunOptions) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var wait sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for range max(1, opt.Parallel) {
		wait.Go(func() {
			for i := range next {
				err := t.answer(ctx, m, &questions[i], &answers[i])
				if err != nil {
					cancel(fmt.Errorf("task %s, document %d: %w", t.Name, questions[i].doc.id, err))
					continue
				}
				if opt.Progress != nil {
					mu.Lock()
					done++
					opt.Progress(done, len(questions))
					mu.Unlock()
				}
			}
		})
	}
	for i := range questions {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	wait.Wait()
	if ctx.Err() == nil {
		return nil
	}
	err := context.Cause(ctx)
	if errors.Is(err, runtimes.ErrFull) {
		return t.failed(diag.SuiteLong, err)
	}
	return err
}

// answer answers a question.
func (t *Task) answer(ctx context.Context, m Model, q *question, a *answered) (err error) {
	a.question = q
	switch t.spec.Output {
	case Rolling:
		for _, text := range q.rest {
			var x float64
			if x, err = m.Rolling(ctx, text); err != nil {
				return err
			}
			a.scores = append(a.scores, Scored{LogProb: x})
		}
	case Generate:
		a.text, err = m.Generate(ctx, Prompt{
			Text: q.context, Until: t.until, MaxTokens: t.maxTokens, Media: q.media, Tools: t.spec.Metadata.Tools, Trace: func(c Called) { a.calls = append(a.calls, c) },
		})
	default:
		a.scores, err = m.Score(ctx, q.context, q.rest)
	}
	return err
}

// judge adds the samples and the figures of a filter.
func (t *Task) judge(f filter, answers []answered, out *Outcome) error {
	filtered := make([]answered, len(answers))
	first := len(out.Samples)
	for i, a := range answers {
		filtered[i] = a
		filtered[i].text = f.apply(a.text)
		s := t.sample(a, filtered[i].text)
		s.Filter = f.name
		out.Samples = append(out.Samples, s)
	}
	clusters, err := t.clusters()
	if err != nil {
		return err
	}
	for _, m := range t.measures {
		var items [][]float64
		if m.all != nil {
			items = m.all(filtered)
		}
		for i, a := range filtered {
			if m.one != nil {
				one, err := m.one(m, a)
				if err != nil {
					return err
				}
				items = append(items, one)
			}
			s := &out.Samples[first+i]
			s.Metrics[m.name], s.Names = items[i], append(s.Names, m.name)
		}
		score := figure(m.kind, items, clusters)
		score.Filter = f.name
		out.Scores = append(out.Scores, score)
	}
	return nil
}

// sample returns the logged form of an answer.
func (t *Task) sample(a answered, filtered string) Sample {
	s := Sample{ID: a.doc.id, Doc: a.doc.raw, Target: a.gold.raw, Metrics: map[string][]float64{}}
	if t.spec.Output == Generate {
		s.Arguments = [][]any{{a.context, map[string]any{"until": t.until, "max_gen_toks": t.maxTokens, "do_sample": false, "temperature": 0.0}}}
		s.Answers, s.Filtered, s.Calls = [][]any{{a.text}}, []any{filtered}, a.calls
		return s
	}
	for i, r := range a.rest {
		args, answer := []any{a.context, r}, []any{a.scores[i].LogProb, a.scores[i].Greedy}
		if t.spec.Output == Rolling {
			args, answer = []any{r}, []any{a.scores[i].LogProb}
		}
		s.Arguments, s.Answers, s.Filtered = append(s.Arguments, args), append(s.Answers, []any{answer}), append(s.Filtered, answer)
	}
	return s
}

// clusters numbers the groups of documents with the same value of the cluster column;
// nil: without one.
func (t *Task) clusters() ([]int, error) {
	name := t.spec.Metadata.Cluster
	if name == "" {
		return nil, nil
	}
	seen, out := map[string]int{}, make([]int, len(t.docs))
	for i, d := range t.docs {
		v, ok := d.fields[name]
		if !ok {
			return nil, fmt.Errorf("document %d: no %q, the cluster of metadata", d.id, name)
		}
		if _, ok := seen[string(v)]; !ok {
			seen[string(v)] = len(seen)
		}
		out[i] = seen[string(v)]
	}
	return out, nil
}
