// Package tools is the loop between a model that calls tools and the tools.
//
// A model writes a call between two tokens of its vocabulary. A [Table] is the
// tools that may be called, and a [Loop] the calls of one answer:
//
//	l, err := table.Begin(tools.Options{Only: request.ToolsAllowed})
//	for {
//		…                           // generate under l.Follow() up to the closing token
//		done, stop, err := l.Call(ctx, call)
//		…                           // feed done.Line, go on; or stop
//	}
//
// [Constraint] lets the model write what it likes until it begins a call, and
// from there on what the grammar of the calls allows: the names of the tools
// that may be called, and arguments that each one's inputs accept. What must
// follow is forced, so that the model is not asked for it. An engine in another
// process cannot be held to it; there a call is checked when it is written, as
// every call is.
//
// [Loop.Call] makes a call, or says why not: whatever a model does wrong is a
// line of JSON for it to read. A call that was made before with the same
// arguments is told so; a third time, and a call more than [Options].Rounds,
// end the answer.
package tools

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/grammar"
	"mm-abi.org/mm/core/grammar/schema"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/skills"
	"mm-abi.org/mm/skills/sandbox"
)

// Caller calls tools: a [skills.Set].
type Caller interface {
	List() []skills.Info
	Call(ctx context.Context, c abi.ToolCall, assets []sandbox.Asset) (skills.Answer, error)
}

// Table is the tools of a build as its model may call them. It is safe for
// concurrent use.
type Table struct {
	caller     Caller
	talk       *talk.Talk
	vocabulary func() *grammar.Vocabulary
	infos      map[string]skills.Info

	mu    sync.Mutex
	masks map[string]*masks // by the names of those that may be called
}

// masks are those of the calls of some tools, or why there are none.
type masks struct {
	*grammar.Masks
	err error
}

// New makes the table of a build. The vocabulary is that of the tokenizer; it is
// asked for when a first grammar is made.
func New(c Caller, t *talk.Talk, vocabulary func() *grammar.Vocabulary) *Table {
	table := &Table{caller: c, talk: t, vocabulary: vocabulary, infos: map[string]skills.Info{}, masks: map[string]*masks{}}
	for _, info := range c.List() {
		table.infos[info.Name] = info
	}
	return table
}

// Ready are the names of the tools that can be called here.
func (t *Table) Ready() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(t.infos)) {
		if t.infos[name].Err == nil {
			names = append(names, name)
		}
	}
	return names
}

// Allowed are those of the tools that a request may call: all that can be, or
// those of them that it names. That it names some and none of them is there is
// [runtimes.Unavailable].
func (t *Table) Allowed(only []string) ([]string, error) {
	ready := t.Ready()
	if only == nil {
		return ready, nil
	}
	names := slices.DeleteFunc(ready, func(name string) bool { return !slices.Contains(only, name) })
	if len(names) > 0 || len(only) == 0 {
		return names, nil
	}
	for _, name := range only {
		if err := t.infos[name].Err; err != nil {
			return nil, &runtimes.Unavailable{What: "tool " + name, Why: err.Error()}
		}
	}
	why := "the build has " + strings.Join(slices.Sorted(maps.Keys(t.infos)), ", ")
	return nil, &runtimes.Unavailable{What: "tool " + only[0], Why: why, Hint: "leave tools_allowed out, or name one of them"}
}

// Definitions describe tools to a model whose template has a way to.
func (t *Table) Definitions(names []string) []talk.Definition {
	var out []talk.Definition
	for _, name := range names {
		info := t.infos[name]
		out = append(out, talk.Definition{Name: name, Description: info.Description, Parameters: info.Inputs})
	}
	return out
}

// over are the masks of the calls of some tools, made once.
func (t *Table) over(names []string) *masks {
	key := strings.Join(names, " ")
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.masks[key] == nil {
		m, err := t.compile(names)
		t.masks[key] = &masks{m, err}
	}
	return t.masks[key]
}

func (t *Table) compile(names []string) (*grammar.Masks, error) {
	_, closing, ok := t.talk.Markers()
	if !ok {
		return nil, fmt.Errorf("the vocabulary has no tokens around a call")
	}
	var list []grammar.Tool
	for _, name := range names {
		list = append(list, grammar.Tool{Name: name, Arguments: t.infos[name].Inputs})
	}
	d, opt := t.talk.Dialect(), grammar.Options{}
	call := grammar.Call{Name: d.Name, Arguments: d.Arguments}
	if hermes := talk.Hermes(); d.Name == hermes.Name {
		call, opt.Space = grammar.Hermes(), schema.OneSpace // as such models were taught
	}
	g, err := grammar.NewCall(list, call, opt)
	if err != nil {
		return nil, err
	}
	return g.Over(t.vocabulary(), closing)
}
