package api

import (
	"context"
	"errors"
	"slices"
	"strings"

	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
)

// Think asks for reasoning, by the field param of the body.
func (a *Ask) Think(param string, t talk.Thought) {
	t.Vars = a.Request.Thought.Vars
	a.Request.Thought, a.think = t, param
}

// Template sets variables of the chat template, by the field param of the body.
func (a *Ask) Template(param string, vars map[string]any) {
	if len(vars) > 0 {
		a.Request.Thought.Vars, a.think = vars, param
	}
}

// Effort translates a level of reasoning, which is the field param of the body.
func (a *Ask) Effort(param, level string) error {
	if !slices.Contains(talk.Efforts(), level) {
		return Invalid(param, "%s: got %.40q, want %s", param, level, strings.Join(talk.Efforts(), ", "))
	}
	a.Think(param, talk.Thought{Mode: mode(level != "none"), Effort: level})
	return nil
}

// Reason turns reasoning on or off. Limits of the model are ignored if lenient.
func (a *Ask) Reason(param string, on, lenient bool) {
	a.Think(param, talk.Thought{Mode: mode(on), Lenient: lenient})
}

func mode(on bool) talk.Mode {
	if on {
		return talk.ThinkOn
	}
	return talk.ThinkOff
}

// thought names the field of a request for reasoning that the model does not support.
func (a *Ask) thought(err error) error {
	var fault *talk.ThoughtError
	if errors.As(err, &fault) {
		return Unsupported(a.think, "%s: %v", a.think, fault)
	}
	return err
}

// reasoner is an [Answerer] with a chat template; [runner.Runner] implements it.
type reasoner interface {
	CanReason(ctx context.Context) (talk.Reasoning, error)
}

// CanReason returns how the chat template of a model turns on reasoning. It reads the
// tokenizer, not the weights.
func (c *Call) CanReason(m *Model) (talk.Reasoning, error) {
	a, leave, err := m.lend(c.R.Context())
	if err != nil {
		return talk.Reasoning{}, problem(c.R.Context(), err, false, false)
	}
	defer leave()
	if r, ok := a.(reasoner); ok {
		return r.CanReason(c.R.Context())
	}
	return talk.Reasoning{}, nil
}

// counter is an [Answerer] that counts the tokens of prompts; [runner.Runner] implements it.
type counter interface {
	Count(ctx context.Context, req runner.Request) (int, error)
}

// Count returns the tokens of the prompt of a request, as its answer would.
func (c *Call) Count(ask *Ask) (n int, err error) {
	if err := c.prepare(ask); err != nil {
		return 0, err
	}
	err = c.borrow(ask, func(ctx context.Context, m Answerer) error {
		one, ok := m.(counter)
		if !ok {
			return &runtimes.Unavailable{What: "the length of a prompt", Why: "the model does not provide it"}
		}
		n, err = one.Count(ctx, ask.Request)
		return ask.thought(err)
	})
	return n, err
}

// checkResults reports the result of a tool without a call before it.
func checkResults(list []talk.Message) error {
	open := map[string]int{}
	calls := 0
	for _, m := range list {
		for _, one := range m.Calls {
			open[one.ID], calls = 1, calls+1
		}
		if m.Role != talk.Tool {
			continue
		}
		if calls--; calls < 0 || m.CallID != "" && open[m.CallID] == 0 {
			return Invalid("messages", "messages: the result of call %s has no call before it", short(m.CallID))
		}
		open[m.CallID] = 0
	}
	return nil
}
