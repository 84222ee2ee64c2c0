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

// DefaultRounds is how often an answer may call tools where nobody says.
const DefaultRounds = 4

// The reasons why calls end an answer.
const (
	StopRounds runtimes.Stop = "tool_limit" // one call more than there may be
	StopLoop   runtimes.Stop = "tool_loop"  // the same call a third time
)

// Options of a loop.
type ToolOptions struct {
	Only   []string        // tools that may be called; nil: all
	Rounds int             // calls at most; 0: [DefaultRounds]
	Assets []sandbox.Asset // of the request
	// Record is told of each call before its answer is read; nil: nobody.
	Record func(ctx context.Context, c CallRecord)
}

// Loop is the calls of one answer. It is not safe for concurrent use.
type ToolLoop struct {
	table *ToolTable
	opt   ToolOptions
	names []string
	masks *masks

	assets []string       // by their names
	made   map[string]int // calls by tool and arguments
	calls  int
}

// Called is a call and what came of it.
type CallRecord struct {
	Call   talk.Call     `json:"call"`
	Skill  skills.Info   `json:"-"` // the zero value of a call of no skill
	Answer skills.Answer `json:"-"`
	Line   string        `json:"line"` // what the model was fed
	Took   time.Duration `json:"-"`
}

// Begin begins an answer.
func (t *ToolTable) Begin(opt ToolOptions) (*ToolLoop, error) {
	names, err := t.Allowed(opt.Only, len(opt.Assets) > 0)
	if err != nil {
		return nil, err
	}
	if opt.Rounds <= 0 {
		opt.Rounds = DefaultRounds
	}
	l := &ToolLoop{table: t, opt: opt, names: names, made: map[string]int{}}
	if len(names) > 0 {
		for _, a := range opt.Assets {
			l.assets = append(l.assets, a.Name)
		}
		l.masks = t.over(names, l.assets)
	}
	return l, nil
}

// Definitions describe the tools that may be called to a model whose template
// has a way to.
func (l *ToolLoop) Definitions() []talk.Definition {
	var out []talk.Definition
	for _, name := range l.names {
		info := l.table.infos[name]
		out = append(out, talk.Definition{Name: name, Description: info.Description, Parameters: skills.Narrowed(info.Inputs, l.assets)})
	}
	return out
}

// Call makes a call as the model wrote it. With a reason to stop nothing was
// called, and the answer is over. The error is the context's or this machine's.
func (l *ToolLoop) Call(ctx context.Context, c talk.Call) (CallRecord, runtimes.Stop, error) {
	args, canonical, err := arguments(c)
	if err != nil {
		c.Fault = err.Error()
	}
	key := c.Name + " " + string(canonical)
	if c.Fault == "" {
		l.made[key]++
	}
	if l.made[key] > 2 {
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

// fault is why a call is not made.
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
	case l.made[key] > 1:
		return sandbox.Faultf(sandbox.Repeated, "%s was called with these arguments already, and its answer stands above", c.Name)
	}
	return nil
}

// arguments are those of a call, and their canonical form: sorted keys, numbers
// as they are written. Of a call that is none the form is what stood there.
func arguments(c talk.Call) (map[string]any, []byte, error) {
	if c.Fault != "" {
		return nil, []byte(c.Block), nil
	}
	args := map[string]any{}
	if len(c.Arguments) > 0 {
		dec := json.NewDecoder(bytes.NewReader(c.Arguments))
		dec.UseNumber()
		if err := dec.Decode(&args); err != nil {
			return nil, c.Arguments, fmt.Errorf("the arguments are no object: %w", err)
		}
	}
	canonical, err := json.Marshal(args)
	return args, canonical, err
}
