package jobs

import (
	"context"

	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/eval/suite"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/serve/api"
)

// assembly is the body of /assemble.
type assembly struct {
	Graph     string   `json:"graph"`
	Target    string   `json:"target"`
	Exports   []string `json:"exports"`
	Locked    bool     `json:"locked"`
	KeepGoing bool     `json:"keep_going"`
	Timeout   *float64 `json:"timeout_s"`
}

// evaluation is the body of /evaluate.
type evaluation struct {
	Build   string   `json:"build"`
	Tasks   []string `json:"tasks"`
	Limit   int      `json:"limit"`
	Shots   *int     `json:"num_fewshot"`
	Timeout *float64 `json:"timeout_s"`
}

// body reads a T strictly: an unknown field may be a misspelled limit.
type body[T any] struct{ v T }

// UnmarshalJSON implements json.Unmarshaler.
func (b *body[T]) UnmarshalJSON(data []byte) error { return api.UnmarshalKnown(data, &b.v) }

// assemble answers POST /assemble.
func (j *Jobs) assemble(c *api.Call) error {
	var b body[assembly]
	if err := c.Read(&b); err != nil {
		return err
	}
	q := b.v
	if len(q.Exports) > maxExports {
		return api.Invalid("exports", "exports: got %d, want at most %d", len(q.Exports), maxExports)
	}
	graph, err := j.path("graph", q.Graph)
	if err != nil {
		return err
	}
	opt := assemble.Options{Graph: graph, Target: q.Target, Exports: q.Exports, KeepGoing: q.KeepGoing}
	return j.submit(c, "assemble", q.Graph, q.Timeout, func(ctx context.Context, _ *api.Task, report func(string, any)) (any, string, error) {
		opt.Progress = func(step, detail string) {
			report("step", map[string]string{"step": step, "detail": j.relative(detail)})
		}
		built, err := j.opt.Assemble(ctx, opt, q.Locked)
		if err != nil {
			return nil, "", err
		}
		built.Diagnostics = j.faults(built.Diagnostics)
		return built, built.Digest, nil
	})
}

// evaluate answers POST /evaluate.
func (j *Jobs) evaluate(c *api.Call) error {
	var b body[evaluation]
	if err := c.Read(&b); err != nil {
		return err
	}
	q := b.v
	switch {
	case len(q.Tasks) == 0:
		return api.Invalid("tasks", "tasks: missing")
	case len(q.Tasks) > maxTasks:
		return api.Invalid("tasks", "tasks: got %d, want at most %d", len(q.Tasks), maxTasks)
	case q.Limit < 0:
		return api.Invalid("limit", "limit: must not be negative")
	case q.Shots != nil && *q.Shots < 0:
		return api.Invalid("num_fewshot", "num_fewshot: must not be negative")
	}
	m, err := j.server.Model(q.Build)
	if err != nil {
		return err
	}
	paths := make([]string, len(q.Tasks))
	for i, name := range q.Tasks {
		if paths[i], err = j.path("tasks", name); err != nil {
			return err
		}
	}
	return j.submit(c, "evaluate", m.Name(), q.Timeout, func(ctx context.Context, t *api.Task, report func(string, any)) (any, string, error) {
		tasks, list := suite.Load(paths, suite.Options{Limit: q.Limit, Shots: q.Shots, Seed: suite.DefaultSeed})
		if err := list.Err(); err != nil {
			return nil, "", err
		}
		return measure(ctx, t, m, tasks, q.Limit, report)
	})
}

// examined is what an evaluation needs of a model; [runner.Runner] implements it.
type examined interface {
	suite.Reader
	Engine() runtimes.Engine
}

// measure asks a served model the tasks of a suite.
func measure(ctx context.Context, t *api.Task, m *api.Model, tasks []*suite.Task, limit int, report func(string, any)) (any, string, error) {
	a, leave, err := t.Lend(ctx, m)
	if err != nil {
		return nil, "", err
	}
	defer leave()
	r, ok := a.(examined)
	if !ok || r.Engine() == nil {
		return nil, "", &runtimes.Unavailable{What: "a suite", Why: m.Name() + " has no core", Hint: "suites measure builds with a core"}
	}
	source, err := suite.NewSource(ctx, m.Name(), a.Build(), r.Engine())
	if err != nil {
		return nil, "", err
	}
	local, err := suite.NewLocal(ctx, placed{r, t}, suite.LocalOptions{})
	if err != nil {
		return nil, "", err
	}
	var outcomes []*suite.Outcome
	for _, task := range tasks {
		one, _, err := suite.Cache{}.Ask(ctx, task, func() (suite.Model, error) { return local, nil }, suite.RunOptions{Progress: percent(task.Name, report)})
		if err != nil {
			return nil, "", err
		}
		outcomes = append(outcomes, one)
	}
	return suite.NewResults(source, outcomes, map[string]any{"model": "mm", "model_args": map[string]any{"pretrained": m.Name()}, "limit": limit, "fewshot_seed": suite.DefaultSeed}), source.Digest, nil
}

// percent returns a progress function that reports each percent of a task.
func percent(task string, report func(string, any)) func(done, total int) {
	return func(done, total int) {
		if done == total || done*100/total > (done-1)*100/total {
			report("progress", map[string]any{"task": task, "done": done, "total": total})
		}
	}
}

// placed is a model whose questions take places among the concurrent answers, so that clients
// wait no longer for them than for each other.
type placed struct {
	examined
	task *api.Task
}

func (p placed) Answer(ctx context.Context, req runner.Request, emit func(string) error) (*runner.Answer, error) {
	leave, err := p.task.Place(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return p.examined.Answer(ctx, req, emit)
}

func (p placed) Score(ctx context.Context, tokens []int32, from, top int) ([]runner.TokenScore, error) {
	leave, err := p.task.Place(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return p.examined.Score(ctx, tokens, from, top)
}
