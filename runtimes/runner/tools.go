package runner

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
type ToolCaller interface {
	List() []skills.Info
	Call(ctx context.Context, c abi.ToolCall, assets []sandbox.Asset) (skills.Answer, error)
}

// Table is the tools of a build as its model may call them. It is safe for
// concurrent use.
type ToolTable struct {
	caller     ToolCaller
	talk       *talk.Talk
	vocabulary func() *grammar.Vocabulary
	infos      map[string]skills.Info

	mu    sync.Mutex
	masks map[string]*masks // by the names of tools and assets
}

// masks are those of the calls of some tools, or why there are none.
type masks struct {
	*grammar.Masks
	err error
}

// New makes the table of a build. The vocabulary is that of the tokenizer; it is
// asked for when a first grammar is made.
func NewToolTable(c ToolCaller, t *talk.Talk, vocabulary func() *grammar.Vocabulary) *ToolTable {
	table := &ToolTable{caller: c, talk: t, vocabulary: vocabulary, infos: map[string]skills.Info{}, masks: map[string]*masks{}}
	for _, info := range c.List() {
		table.infos[info.Name] = info
	}
	return table
}

// Ready are the names of the tools that can be called here.
func (t *ToolTable) Ready() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(t.infos)) {
		if t.infos[name].Err == nil {
			names = append(names, name)
		}
	}
	return names
}

// Allowed are those of the tools that a request may call: all that can be, or
// those of them that it names; without assets, those that read none. That it
// names some and none of them is there is [runtimes.Unavailable].
func (t *ToolTable) Allowed(only []string, assets bool) ([]string, error) {
	ready := slices.DeleteFunc(t.Ready(), func(name string) bool { return t.infos[name].Reads && !assets })
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
		if t.infos[name].Reads {
			return nil, &runtimes.Unavailable{What: "tool " + name, Why: "it reads an asset, and the request has none", Hint: "show a picture, or give it a file as an asset"}
		}
	}
	why := "the build has " + strings.Join(slices.Sorted(maps.Keys(t.infos)), ", ")
	return nil, &runtimes.Unavailable{What: "tool " + only[0], Why: why, Hint: "leave tools_allowed out, or name one of them"}
}

// maxKept bounds the grammars that are kept.
const maxKept = 32

// over are the masks of the calls of some tools with some assets, made once.
func (t *ToolTable) over(names, assets []string) *masks {
	key := strings.Join(names, " ") + "#" + strings.Join(assets, " ")
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.masks[key] == nil {
		if len(t.masks) == maxKept {
			clear(t.masks)
		}
		m, err := t.compile(names, assets)
		t.masks[key] = &masks{m, err}
	}
	return t.masks[key]
}

func (t *ToolTable) compile(names, assets []string) (*grammar.Masks, error) {
	_, closing, ok := t.talk.Markers()
	if !ok {
		return nil, fmt.Errorf("the vocabulary has no tokens around a call")
	}
	var list []grammar.Tool
	for _, name := range names {
		list = append(list, grammar.Tool{Name: name, Arguments: skills.Narrowed(t.infos[name].Inputs, assets)})
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
