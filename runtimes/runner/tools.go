package runner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/chat"
	"mm-abi.org/mm/core/grammar"
	"mm-abi.org/mm/core/grammar/schema"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/skills"
	"mm-abi.org/mm/skills/sandbox"
)

// ToolCaller calls tools; [skills.Set] implements it.
type ToolCaller interface {
	List() []skills.Info
	Call(ctx context.Context, c abi.ToolCall, assets []sandbox.Asset) (skills.Answer, error)
}

// ToolTable holds the tools of a build for its model. It is safe for concurrent use.
type ToolTable struct {
	caller     ToolCaller
	talk       *talk.Talk
	vocabulary func() *grammar.Vocabulary
	infos      map[string]skills.Info

	mu    sync.Mutex
	masks map[string]*masks // by the names of tools and assets
}

// masks are the masks of the calls of some tools, or the reason why there are none.
type masks struct {
	*grammar.Masks
	tools map[string]*grammar.Masks // of the arguments of each, in dialects that name the tool before them
	err   error
}

// NewToolTable returns the table of a build. Without t, calls are not constrained: the model
// runs elsewhere. The tokenizer's vocabulary is requested when the
// first grammar is compiled.
func NewToolTable(c ToolCaller, t *talk.Talk, vocabulary func() *grammar.Vocabulary) *ToolTable {
	table := &ToolTable{caller: c, talk: t, vocabulary: vocabulary, infos: map[string]skills.Info{}, masks: map[string]*masks{}}
	for _, info := range c.List() {
		table.infos[info.Name] = info
	}
	return table
}

// Ready returns the names of the callable tools.
func (t *ToolTable) Ready() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(t.infos)) {
		if t.infos[name].Err == nil {
			names = append(names, name)
		}
	}
	return names
}

// Allowed returns the tools that a request may call: the callable ones, restricted to those in
// only if it is not nil; without assets, those that read none. If the request names tools but
// none is callable, the error is [runtimes.Unavailable].
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
			return nil, &runtimes.Unavailable{What: "tool " + name, Why: "it reads an asset, but the request has none", Hint: "pass an image, or a file as an asset"}
		}
	}
	why := "the build has " + strings.Join(slices.Sorted(maps.Keys(t.infos)), ", ")
	return nil, &runtimes.Unavailable{What: "tool " + only[0], Why: why, Hint: "leave tools_allowed out, or name one of them"}
}

// maxKept bounds the cached grammars.
const maxKept = 32

// over returns the masks of the calls of some tools with some assets, compiled once.
func (t *ToolTable) over(names, assets []string) *masks {
	key := strings.Join(names, " ") + "#" + strings.Join(assets, " ")
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.masks[key] == nil {
		if len(t.masks) == maxKept {
			clear(t.masks)
		}
		m := &masks{}
		if t.talk != nil && (t.talk.Dialect().Form == chat.Channel || t.talk.Dialect().Form == chat.Named) {
			m.tools, m.err = t.compileArguments(names, assets)
		} else {
			m.Masks, m.err = t.compile(names, assets)
		}
		t.masks[key] = m
	}
	return t.masks[key]
}

func (t *ToolTable) compile(names, assets []string) (*grammar.Masks, error) {
	if t.talk == nil {
		return nil, fmt.Errorf("the model is not in this process")
	}
	_, closing, ok := t.talk.Markers()
	d := t.talk.Dialect()
	if !ok && !d.Guided {
		return nil, fmt.Errorf("the vocabulary has no tokens for calls")
	}
	var list []grammar.Tool
	for _, name := range names {
		list = append(list, grammar.Tool{Name: name, Arguments: skills.Narrowed(t.infos[name].Inputs, assets)})
	}
	g, err := callGrammar(d, list, closing == tokenizer.None)
	if err != nil {
		return nil, err
	}
	if closing == tokenizer.None {
		return g.Over(t.vocabulary())
	}
	return g.Over(t.vocabulary(), closing)
}

// compileArguments returns the masks of the arguments of each tool.
func (t *ToolTable) compileArguments(names, assets []string) (map[string]*grammar.Masks, error) {
	var ends []int32
	opt := grammar.Options{}
	if _, closing, ok := t.talk.Markers(); ok {
		ends = []int32{closing}
	} else if args, _ := t.talk.Within(); args == tokenizer.None {
		return nil, fmt.Errorf("the vocabulary has no tokens for calls")
	} else {
		opt.Space = schema.OneSpace // the format of their training
	}
	out := map[string]*grammar.Masks{}
	for _, name := range names {
		g, err := grammar.New(skills.Narrowed(t.infos[name].Inputs, assets), opt)
		if err == nil {
			out[name], err = g.Over(t.vocabulary(), ends...)
		}
		if err != nil {
			return nil, fmt.Errorf("arguments of %s: %w", name, err)
		}
	}
	return out, nil
}

// callGrammar returns the grammar of a block of calls; with text, the closing marker is
// part of it.
func callGrammar(d talk.Dialect, list []grammar.Tool, text bool) (*grammar.Grammar, error) {
	call, opt := grammar.Call{Name: d.Name, Arguments: d.Arguments}, grammar.Options{}
	switch hermes := talk.Hermes(); {
	case !d.Guided && d.Name == hermes.Name:
		call, opt.Space = grammar.Hermes(), schema.OneSpace // the format of their training
	case d.Guided:
		opt.Space = schema.OneSpace
		call.Before, call.After = d.Around()
		if text {
			call.After += d.Close
		}
	}
	switch d.Form {
	case chat.Bare:
		opt.Space = schema.MaybeSpace // the model has written the first words
		return grammar.NewCalls(list, call, 0, opt)
	case chat.List:
		return grammar.NewCalls(list, call, DefaultRounds, opt)
	}
	return grammar.NewCall(list, call, opt)
}
