package suite

import (
	"context"
	"fmt"
	"io"
)

// Session asks the questions of tasks in this process.
type Session struct {
	Reader
	Cache    Cache
	Local    LocalOptions
	Parallel int
	Say      func(line string)                       // notes on a task
	Progress func(task string) func(done, total int) // of its questions
}

// run returns the options of a task.
func (s Session) run(t *Task) RunOptions {
	return RunOptions{Parallel: s.Parallel, Progress: s.Progress(t.Name)}
}

// Outcomes returns the outcomes of tasks: from the answers in files, or, without files, from
// the cache or the model, which is made on the first task that needs it.
func (s Session) Outcomes(ctx context.Context, tasks []*Task, files []string) (out []*Outcome, err error) {
	if len(files) == 0 {
		return s.askAll(ctx, tasks)
	}
	answers, err := ReadAnswers(files)
	if err != nil {
		return nil, err
	}
	for _, t := range tasks {
		one, err := s.Cache.Join(t, answers)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, answers.Rest()
}

func (s Session) askAll(ctx context.Context, tasks []*Task) (out []*Outcome, err error) {
	var local *Local
	model := func() (Model, error) {
		if local == nil {
			if local, err = NewLocal(ctx, s.Reader, s.Local); err != nil {
				return nil, err
			}
		}
		return local, nil
	}
	for _, t := range tasks {
		one, kept, err := s.Cache.Ask(ctx, t, model, s.run(t))
		if err != nil {
			return nil, err
		}
		if kept {
			s.Say(t.Name + ": from the cache")
		}
		if one.Cut > 0 {
			s.Say(fmt.Sprintf("%s: the start of %d questions did not fit the context", t.Name, one.Cut))
		}
		out = append(out, one)
	}
	return out, nil
}

// WriteShard writes the answers to the questions of a shard.
func (s Session) WriteShard(ctx context.Context, tasks []*Task, of Shard, w io.Writer) error {
	m, err := NewLocal(ctx, s.Reader, s.Local)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		if err := s.Cache.Part(ctx, t, m, of, s.run(t), w); err != nil {
			return err
		}
	}
	return nil
}

// OutcomeHeading is the heading of [OutcomeRows].
var OutcomeHeading = []string{"TASK", "SHOTS", "METRIC", "FILTER", "VALUE", "95 % INTERVAL", "N"}

// OutcomeRows returns a row for each figure.
func OutcomeRows(outcomes []*Outcome) (rows [][]string) {
	for _, o := range outcomes {
		for _, s := range o.Scores {
			rows = append(rows, []string{o.Task, fmt.Sprint(o.Shots), s.Metric, s.Filter, figured(s.Value), figured(s.Interval.Low) + "–" + figured(s.Interval.High), fmt.Sprint(s.N)})
		}
	}
	return rows
}

func figured(x float64) string { return fmt.Sprintf("%.4f", x) }

// ComparedHeading is the heading of [Compared.Row].
var ComparedHeading = []string{"TASK", "METRIC", "FIRST", "SECOND", "DIFFERENCE", "95 % INTERVAL", "N", "P", "VERDICT", "GATE"}

// Row returns the comparison as cells of a table.
func (c Compared) Row() []string {
	gate := string(c.Gate)
	if gate == "" {
		gate = "-"
	}
	return []string{c.Task, c.Metric + "," + c.Filter, figured(c.First), figured(c.Second), fmt.Sprintf("%+.4f", c.Delta),
		fmt.Sprintf("%+.4f–%+.4f", c.Interval.Low, c.Interval.High), fmt.Sprint(c.N), figured(c.Adjusted), string(c.Verdict), gate}
}
