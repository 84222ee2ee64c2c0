package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/skills"
	"mm-abi.org/mm/skills/sandbox"
)

// MaxAgentDepth bounds the nesting of builds below the one that answers.
const MaxAgentDepth = 3

// maxAgentTokens is the default length of an agent's answer.
const maxAgentTokens = 256

// AgentOptions configures an [AgentExecutor].
type AgentOptions struct {
	// Open finds and verifies a build.
	Open func(ctx context.Context, ref string) (*builds.Build, error)
	// Runner configures the runners of agents. Limits and executors are replaced for
	// each agent; Called also receives the calls of agents.
	Runner Options
	// Skills are the options for the skills of agents, with the executors except agents.
	// Grants for AGENT/NAME are those of the skills of an agent.
	Skills skills.Options
}

// AgentExecutor is a sandbox.Executor of skills that are builds: a model with its own
// skills is the tool of another model.
//
// A skill whose runtime names a build (agent: m-lite:0.1.0) takes a text prompt and
// returns the build's answer as a text answer. The build is found and verified like any
// other. Its core is loaded when the skill is prepared, within the skill's memory and
// processors; each call is a new conversation. The build's skills are called under their
// own limits, within the time of the skill, and are reported like any call. Builds nest at
// most [MaxAgentDepth] deep, and a build cannot contain itself: such a skill is refused.
type AgentExecutor struct {
	opt   AgentOptions
	above []string // builds that contain this one's agents
}

// NewAgentExecutor returns an executor. It opens nothing.
func NewAgentExecutor(opt AgentOptions) *AgentExecutor { return &AgentExecutor{opt: opt} }

// Prepare implements sandbox.Executor. It loads the core of the build p.Ref.
func (e *AgentExecutor) Prepare(ctx context.Context, p sandbox.Program) (sandbox.Guest, error) {
	l, err := sandbox.Check(p)
	if err != nil {
		return nil, err
	}
	if err := sandbox.None("agent", p.Allow); err != nil {
		return nil, err
	}
	if l.MilliCPU%1000 != 0 {
		return nil, sandbox.Refuse("agent cannot hold a build to %g processors, whole ones alone", float64(l.MilliCPU)/1000)
	}
	if len(e.above) == MaxAgentDepth {
		return nil, sandbox.Refuse("%s would be the agent of %s: more than %d within each other", p.Ref, strings.Join(e.above, ", of "), MaxAgentDepth)
	}
	b, err := e.opt.Open(ctx, p.Ref)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, sandbox.Refuse("the build %s: %v", p.Ref, err)
	}
	name := b.Assembly.Name
	if slices.Contains(e.above, name) {
		return nil, sandbox.Refuse("%s is within itself: %s", name, strings.Join(append(e.above, name), " → "))
	}
	opt := e.opt.Runner
	opt.Limits = runtimes.Limits{Threads: int(l.MilliCPU / 1000), Memory: l.MemBytes, Time: opt.Limits.Time, Device: opt.Limits.Device}
	opt.Skills = e.opt.Skills.Inner(p.Name)
	opt.Skills.Root = p.Root
	opt.Skills.Executors = maps.Clone(e.opt.Skills.Executors)
	inner := e.opt
	inner.Skills = opt.Skills
	inner.Skills.Executors = e.opt.Skills.Executors
	opt.Skills.Executors["agent"] = &AgentExecutor{opt: inner, above: append(slices.Clone(e.above), name)}
	r, err := Open(ctx, b, opt)
	if err == nil {
		err = r.Load(ctx)
	}
	if err == nil {
		_, err = r.Skills(ctx) // prepared before the time is measured
	}
	if err != nil {
		if r != nil {
			err = errors.Join(err, r.Close())
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, sandbox.Refuse("the build %s: %v", p.Ref, err)
	}
	return &guest{runner: r, name: p.Name, time: l.TimeoutMS, output: l.OutputBytes}, nil
}

// guest is an opened build.
type guest struct {
	runner       *Runner
	name         string
	time, output int64 // ms and bytes
}

// Close implements sandbox.Guest.
func (g *guest) Close() error { return g.runner.Close() }

// errLong ends an answer that exceeds its limit.
var errLong = errors.New("the answer is too long")

// Call implements sandbox.Guest.
func (g *guest) Call(ctx context.Context, in sandbox.Call) (sandbox.Reply, error) {
	if err := ctx.Err(); err != nil {
		return sandbox.Reply{}, err
	}
	if err := sandbox.Assets(in.Assets); err != nil {
		return sandbox.Reply{}, err
	}
	var args struct {
		Prompt    *string `json:"prompt"`
		MaxTokens *int    `json:"max_tokens"`
	}
	if err := json.Unmarshal(in.Input, &args); err != nil || args.Prompt == nil {
		return sandbox.Reply{}, sandbox.Faultf(sandbox.Args, "%s takes a text called prompt", g.name)
	}
	if len(in.Assets) > 0 {
		return sandbox.Reply{}, sandbox.Faultf(sandbox.Args, "%s takes no assets", g.name)
	}
	req := Request{Inputs: []talk.Part{{Type: abi.Text, Text: *args.Prompt}}}
	req.Preferences.BudgetMS, req.Preferences.MaxTokens = g.time, agentTokens(args.MaxTokens)
	start, wrote := time.Now(), int64(0)
	answer, err := g.runner.Answer(ctx, req, func(text string) error {
		if wrote += int64(len(text)); wrote > g.output {
			return errLong
		}
		return nil
	})
	reply := sandbox.Reply{Usage: sandbox.Usage{Time: time.Since(start)}}
	switch {
	case ctx.Err() != nil:
		return reply, ctx.Err()
	case errors.Is(err, errLong):
		return reply, sandbox.Faultf(sandbox.Output, "%s wrote more than %d bytes", g.name, g.output)
	case err != nil:
		return reply, sandbox.Faultf(sandbox.Trap, "%s did not answer: %v", g.name, err)
	case answer.Stop == StopBudget:
		return reply, sandbox.Faultf(sandbox.Time, "%s took more than %v", g.name, time.Duration(g.time)*time.Millisecond)
	}
	reply.Log = []byte(summary(answer))
	reply.Output, err = json.Marshal(map[string]string{"answer": answer.Text})
	if err == nil && int64(len(reply.Output)) > g.output {
		return reply, sandbox.Faultf(sandbox.Output, "%s wrote more than %d bytes", g.name, g.output)
	}
	return reply, err
}

// agentTokens bounds the requested number of tokens; nil is no request.
func agentTokens(n *int) int {
	if n == nil || *n <= 0 {
		return maxAgentTokens
	}
	return min(*n, maxAgentTokens)
}

// summary returns the calls that preceded an answer and why it ended.
func summary(a *Answer) string {
	var b strings.Builder
	for _, c := range a.Called {
		fmt.Fprintf(&b, "%s %s: %s\n", c.Call.Name, c.Call.Arguments, c.Answer.Kind())
	}
	fmt.Fprintf(&b, "ended: %s\n", a.Stop)
	text := b.String()
	return text[:min(len(text), sandbox.MaxLog)]
}
