package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/skills"
	"mm-abi.org/mm/skills/sandbox"
)

// DefaultRounds is the default limit of an answer's tool calls.
const DefaultRounds = 4

// The reasons why calls end an answer.
const (
	StopRounds runtimes.Stop = "tool_limit" // too many calls
	StopLoop   runtimes.Stop = "tool_loop"  // the same call three times
)

// ToolOptions configures a [ToolLoop].
type ToolOptions struct {
	Only   []string        // tools that may be called; nil: all
	Rounds int             // maximum of calls; 0: [DefaultRounds]
	Assets []sandbox.Asset // of the request
	// Record receives each call before its answer is read; may be nil.
	Record func(ctx context.Context, c CallRecord)
}

// ToolLoop performs the calls of one answer. It is not safe for concurrent use.
type ToolLoop struct {
	table *ToolTable
	opt   ToolOptions
	names []string
	masks *masks

	assets []string       // their names
	counts map[string]int // calls by tool and arguments
	calls  int
}

// CallRecord is a call and its answer.
type CallRecord struct {
	Call   talk.Call     `json:"call"`
	Skill  skills.Info   `json:"-"` // the zero value if unknown
	Answer skills.Answer `json:"-"`
	Line   string        `json:"line"` // the text that the model reads
	Took   time.Duration `json:"-"`
}

// Begin starts an answer.
func (t *ToolTable) Begin(opt ToolOptions) (*ToolLoop, error) {
	names, err := t.Allowed(opt.Only, len(opt.Assets) > 0)
	if err != nil {
		return nil, err
	}
	if opt.Rounds <= 0 {
		opt.Rounds = DefaultRounds
	}
	l := &ToolLoop{table: t, opt: opt, names: names, counts: map[string]int{}}
	if len(names) > 0 {
		for _, a := range opt.Assets {
			l.assets = append(l.assets, a.Name)
		}
		l.masks = t.over(names, l.assets)
	}
	return l, nil
}

// Definitions describes the callable tools for the model's template.
func (l *ToolLoop) Definitions() []talk.Definition {
	var out []talk.Definition
	for _, name := range l.names {
		info := l.table.infos[name]
		out = append(out, talk.Definition{Name: name, Description: info.Description, Parameters: skills.Narrowed(info.Inputs, l.assets)})
	}
	return out
}

// Call performs a call as the model wrote it. If it returns a reason to stop, it called
// nothing and the answer ends. The error is that of the context or of this machine.
func (l *ToolLoop) Call(ctx context.Context, c talk.Call) (CallRecord, runtimes.Stop, error) {
	args, canonical, err := arguments(c)
	if err != nil {
		c.Fault = err.Error()
	}
	key := c.Name + " " + string(canonical)
	if c.Fault == "" {
		l.counts[key]++
	}
	if l.counts[key] > 2 {
		return CallRecord{}, StopLoop, nil
	}
	if l.calls++; l.calls > l.opt.Rounds {
		return CallRecord{}, StopRounds, nil
	}
	done, begun := CallRecord{Call: c, Skill: l.table.infos[c.Name]}, time.Now()
	if fault := l.fault(c, key); fault != nil {
		done.Answer = skills.Refused(canonical, fault)
	} else {
		if done.Answer, err = l.table.caller.Call(ctx, abi.ToolCall{Tool: c.Name, Args: args}, l.opt.Assets); err != nil {
			return done, "", err
		}
	}
	done.Line, done.Took = done.Answer.Line, time.Since(begun)
	if l.opt.Record != nil {
		l.opt.Record(ctx, done)
	}
	return done, "", nil
}

// fault returns why a call is refused.
func (l *ToolLoop) fault(c talk.Call, key string) *sandbox.Fault {
	switch {
	case c.Fault != "":
		return sandbox.Faultf(sandbox.Args, "%s", c.Fault)
	case !slices.Contains(l.names, c.Name) && l.table.infos[c.Name].Err == nil:
		there := "there is none"
		if len(l.names) > 0 {
			there = "there is " + strings.Join(l.names, ", ")
		}
		return sandbox.Faultf(sandbox.Unknown, "there is no tool %q; %s", c.Name, there)
	case l.counts[key] > 1:
		return sandbox.Faultf(sandbox.Repeated, "%s was called with these arguments already, and its answer stands above", c.Name)
	}
	return nil
}

// arguments parses the arguments of a call and returns their canonical form: sorted keys,
// numbers as written. For a malformed call, canonical is the raw text.
func arguments(c talk.Call) (map[string]any, []byte, error) {
	if c.Fault != "" {
		return nil, []byte(c.Block), nil
	}
	args := map[string]any{}
	if len(c.Arguments) > 0 {
		dec := json.NewDecoder(bytes.NewReader(c.Arguments))
		dec.UseNumber()
		if err := dec.Decode(&args); err != nil {
			return nil, c.Arguments, fmt.Errorf("the arguments are not an object: %w", err)
		}
	}
	canonical, err := json.Marshal(args)
	return args, canonical, err
}
