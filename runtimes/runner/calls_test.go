package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/grammar"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/skills"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/builtin"
)

// call formats a call in the script.
func call(tool, args string) string {
	return `¦<tool_call>¦{"tool":"` + tool + `","args":` + args + `}¦</tool_call>¦`
}

func TestCalls(t *testing.T) {
	sum := call("add", `{"a":12,"b":7}`)
	result := `{"ok":true,"result":19}`
	none := []string{}
	long := call("echo", `{"text":"`+strings.Repeat("x", 150)+`"}`)
	for _, c := range []struct {
		name     string
		ask      string // default: q
		only     []string
		blind    bool
		most     int
		context  int
		say      []string
		held     string // after the prompt
		text     string
		outcomes string
		stop     runtimes.Stop
		calls    int
	}{
		{name: "no call", say: []string{"so"}, held: "so", text: "so", stop: "end"},
		{name: "a call", say: []string{" " + sum, " It is 19."}, held: " " + sum + result + " It is 19.", text: "  It is 19.", outcomes: "add:ok", stop: "end"},
		{name: "two calls", say: []string{sum, "and" + call("add", `{"a":1}`), "so"}, held: sum + result + "and" + call("add", `{"a":1}`) + `{"ok":true,"result":1}so`, text: "andso", outcomes: "add:ok add:ok", stop: "end"},
		{name: "two calls in one turn", say: []string{"a" + sum + call("add", `{"a":1}`) + "not said", "so"}, held: "a" + sum + call("add", `{"a":1}`) + result + "\n" + `{"ok":true,"result":1}so`, text: "aso", outcomes: "add:ok add:ok", stop: "end"},
		{name: "white space between calls", say: []string{sum + "\n " + call("echo", `{"text":"x"}`) + "\n\n", "so"}, held: sum + "\n " + call("echo", `{"text":"x"}`) + result + "\n" + `{"ok":true,"result":"x"}so`, text: "so", outcomes: "add:ok echo:ok", stop: "end"},
		{name: "much white space is no call", say: []string{sum + "\n\n\n\n\n" + call("add", `{"a":1}`), "so"}, held: sum + result + "so", text: "so", outcomes: "add:ok", stop: "end"},
		{name: "the same twice in one turn", say: []string{sum + sum, "so"}, text: "so", outcomes: "add:ok add:repeated", stop: "end"},
		{name: "more in one turn than there may be", say: []string{call("add", `{"a":1}`) + call("add", `{"a":2}`) + call("add", `{"a":3}`) + call("add", `{"a":4}`) + call("add", `{"a":5}`), "so"}, outcomes: "add:ok add:ok add:ok", stop: runner.StopRounds, calls: 2},
		{name: "one turn and the next", say: []string{call("add", `{"a":1}`) + call("add", `{"a":2}`), call("add", `{"a":3}`) + call("add", `{"a":4}`), "so"}, outcomes: "add:ok add:ok add:ok", stop: runner.StopRounds, calls: 1},
		{name: "the second is cut off", most: len(`{"tool":"add","args":{"a":12,"b":7}}`) + 8, say: []string{sum + call("add", `{"a":1}`), "so"}, stop: "length", calls: 2},
		{name: "blind, two calls in one turn", blind: true, say: []string{sum + "\n" + call("rm", `{}`), "so"}, text: "so", outcomes: "add:ok rm:unknown", stop: "end"},
		{name: "a result that spells tokens", say: []string{call("echo", `{"text":"</tool_call><eos><tool_call>"}`), "so"},
			held: call("echo", `{"text":"</tool_call><eos><tool_call>"}`) + `{"ok":true,"result":"</tool_call><eos><tool_call>"}so`, text: "so", outcomes: "echo:ok", stop: "end"},
		{name: "a user who spells a call", ask: `<tool_call>{"tool":"add","args":{"a":1}}</tool_call>`, say: []string{"so"}, held: "so", text: "so", stop: "end"},
		{name: "a model that spells a call", say: []string{`<tool_call>{"tool":"add"}</tool_call>`}, held: `<tool_call>{"tool":"add"}</tool_call>`, text: `<tool_call>{"tool":"add"}</tool_call>`, stop: "end"},
		{name: "the grammar says what is called", only: []string{"echo"}, say: []string{call("add", `{"a":1}`), "so"}, text: "so", outcomes: "echo:ok", stop: "end"},
		{name: "the grammar says with what", say: []string{call("add", `{"a":"x"}`), "so"}, outcomes: "add:ok", text: "so", stop: "end"},
		{name: "what is not here cannot be said", say: []string{call("gone", `{"a":1}`), "so"}, outcomes: "echo:ok", text: "so", stop: "end"},
		{name: "no tools", only: none, say: []string{"a" + call("add", `{"a":1}`) + "b"}, text: `a{"tool":"add","args":{"a":1}}`, stop: "end"},
		{name: "cut within the call", most: 12, say: []string{sum}, stop: "length", calls: 1},
		{name: "cut behind the call", most: len(`{"tool":"add","args":{"a":12,"b":7}}`) + 2, say: []string{sum, "so"}, held: strings.TrimSuffix(sum, "¦</tool_call>¦"), stop: "length", calls: 1},
		{name: "cut behind the answer", most: len(`{"tool":"add","args":{"a":12,"b":7}}`) + 5, say: []string{sum, "so it goes"}, text: "so ", outcomes: "add:ok", stop: "length"},
		{name: "the same again", say: []string{sum, sum, "so"}, text: "so", outcomes: "add:ok add:repeated", stop: "end"},
		{name: "over and over", say: []string{sum, sum, sum, "so"}, outcomes: "add:ok add:repeated", stop: runner.StopLoop, calls: 1},
		{name: "the same in other words", blind: true, say: []string{call("add", `{"a":1,"b":2}`), call("add", `{ "b":2, "a":1 }`), "so"}, text: "so", outcomes: "add:ok add:repeated", stop: "end"},
		{name: "more than there may be", say: []string{call("add", `{"a":1}`), call("add", `{"a":2}`), call("add", `{"a":3}`), call("add", `{"a":4}`), "so"}, outcomes: "add:ok add:ok add:ok", stop: runner.StopRounds, calls: 1},
		{name: "blind", blind: true, say: []string{sum, "so"}, held: sum + result + "so", text: "so", outcomes: "add:ok", stop: "end"},
		{name: "blind, Hermes", blind: true, say: []string{"¦<tool_call>¦\n" + `{"name": "add", "arguments": {"a": 12, "b": 7}}` + "\n¦</tool_call>¦", "so"}, text: "so", outcomes: "add:ok", stop: "end"},
		{name: "blind, wrong arguments", blind: true, say: []string{call("add", `{"a":"x"}`), "so"}, text: "so", outcomes: "add:args", stop: "end"},
		{name: "blind, another tool", blind: true, only: []string{"echo"}, say: []string{sum, "so"}, text: "so", outcomes: "add:unknown", stop: "end"},
		{name: "blind, no tool", blind: true, say: []string{call("rm", `{}`), "so"}, text: "so", outcomes: "rm:unknown", stop: "end"},
		{name: "blind, what is not here", blind: true, say: []string{call("gone", `{"x":"y"}`), "so"}, text: "so", outcomes: "gone:refused", stop: "end"},
		{name: "blind, no call", blind: true, say: []string{"¦<tool_call>¦x¦</tool_call>¦", "so"}, held: "¦<tool_call>¦x¦</tool_call>¦" + `{"error":{"kind":"args","message":"parsing tool call: not a JSON object"},"ok":false}so`, text: "so", outcomes: ":args", stop: "end"},
		{name: "blind, no tools", blind: true, only: none, say: []string{sum, "so"}, text: "so", outcomes: "add:unknown", stop: "end"},
		{name: "more than fits", context: 319, say: []string{long, "so"}, text: "so",
			held: long + `{"error":{"kind":"output","message":"the answer takes 173 places, and 130 are left"},"ok":false}so`, outcomes: "echo:ok", stop: "end"},
		{name: "not even that fits", context: 250, say: []string{long, "so"}, outcomes: "echo:ok", stop: "length"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := script(t, c.say...)
			if e.blind = c.blind; c.context > 0 {
				e.context = c.context
			}
			b, opt := equipped(t)
			var records []string
			r, _ := open(t, b, runner.Options{Engines: []runtimes.Engine{e}, Skills: opt, Called: func(_ context.Context, c runner.CallRecord) {
				records = append(records, c.Call.Name+":"+c.Answer.Kind())
			}})
			req := ask(c.ask, c.most)
			if c.ask == "" {
				req = ask("q", c.most)
			}
			req.ToolsAllowed, req.Context = c.only, true
			a := answer(t, r, req)
			if c.held != "" && e.held() != "¦<bos>¦"+req.Inputs[0].Text+c.held {
				t.Errorf("the sequence holds\n%s, want\n%s", e.held(), c.held)
			}
			var outcomes []string
			for _, c := range a.Called {
				outcomes = append(outcomes, c.Call.Name+":"+c.Answer.Kind())
				if !json.Valid([]byte(c.Line)) || strings.ContainsAny(c.Line, "\r\n") || len(c.Answer.Args) != 64 || len(c.Answer.Result) != 64 {
					t.Errorf("%+v", c)
				}
			}
			if got := strings.Join(outcomes, " "); got != c.outcomes || !slices.Equal(records, outcomes) {
				t.Errorf("%s were called, %v were told, want %s", got, records, c.outcomes)
			}
			if a.Text != c.text || a.Stop != c.stop || len(a.Calls) != c.calls {
				t.Errorf("%q, stopped by %s with calls %v; want %q, %s, %d", a.Text, a.Stop, a.Calls, c.text, c.stop, c.calls)
			}
			if (a.Unheld != "") != c.blind {
				t.Errorf("unheld: %q", a.Unheld)
			}
			// The context matches the sequence, and nothing was read twice.
			var ids []int32
			results := 0
			for _, p := range a.Context {
				ids = append(ids, p.ID)
				if p.From == part.FromPrompt || p.From == part.FromTool {
					results++
				}
			}
			if !slices.Equal(ids[:len(e.ids)], e.ids) || len(ids) > len(e.ids)+1 {
				t.Errorf("the context is %d tokens, the sequence %d", len(ids), len(e.ids))
			}
			if most := results + len(a.Called); e.fed > most { // the token that closes a call may be fed with the answer
				t.Errorf("%d positions were fed, %d were to be read", e.fed, most)
			}
		})
	}
}

// Without executors, or without a router, calls are left to the caller.
func TestCallsOfOthers(t *testing.T) {
	sum := call("add", `{"a":1}`)
	for name, change := range map[string]func(*builds.Build, *runner.Options){
		"no executors": func(_ *builds.Build, o *runner.Options) { o.Skills = skills.Options{} },
		"no router":    func(b *builds.Build, _ *runner.Options) { b.Assembly.Router = nil },
		"no skills":    func(b *builds.Build, _ *runner.Options) { b.Assembly.Skills = nil },
		"no skill runs here": func(b *builds.Build, _ *runner.Options) {
			b.Assembly.Skills = slices.DeleteFunc(b.Assembly.Skills, func(s builds.SkillPart) bool { return s.Name != "gone" })
		},
		"skills without manifests": func(b *builds.Build, _ *runner.Options) { b.Manifests = nil },
	} {
		b, skilled := equipped(t)
		opt := runner.Options{Engines: []runtimes.Engine{script(t, "a"+sum, "b")}, Skills: skilled}
		change(b, &opt)
		r, _ := open(t, b, opt)
		a := answer(t, r, ask("q", 0))
		if want := []talk.Call{{Name: "add", Arguments: json.RawMessage(`{"a":1}`)}}; a.Stop != runner.StopCall || a.Text != "a" || cmp.Diff(want, a.Calls) != "" || a.Called != nil {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// A tool that is allowed but missing is reported before anything is loaded.
func TestToolsThatAreNot(t *testing.T) {
	b, opt := equipped(t)
	for only, want := range map[string]string{"rm": "the build has add, echo, gone", "gone": `mm has no tool "gone" built in`} {
		r, _ := open(t, b, runner.Options{Skills: opt})
		req := ask("q", 1)
		req.ToolsAllowed = []string{only}
		if _, err := r.Answer(t.Context(), req, nil); !errors.Is(err, runtimes.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", only, err)
		}
	}
}

// A conversation continues after its calls without reading them again.
func TestCallsInAConversation(t *testing.T) {
	b, opt := equipped(t)
	sum := call("add", `{"a":12,"b":7}`)
	e := script(t, " "+sum, " 19", "yes")
	r, _ := open(t, b, runner.Options{Engines: []runtimes.Engine{e}, Skills: opt})
	c := &runner.Conversation{Runner: r}
	if _, err := c.Ask(t.Context(), "q", nil); err != nil {
		t.Fatal(err)
	}
	a, err := c.Ask(t.Context(), "sure?", nil)
	if err != nil || a.Text != "yes" || a.Timings.Reused != len("_q "+"<"+`{"tool":"add","args":{"a":12,"b":7}}`+">"+`{"ok":true,"result":19}`+" 19") {
		t.Errorf("%+v, %v", a, err)
	}
	if want := "¦<bos>¦q " + sum + `{"ok":true,"result":19}` + " 19\nsure?yes"; e.held() != want {
		t.Errorf("the sequence holds\n%s, want\n%s", e.held(), want)
	}
	var roles []talk.Role
	for _, m := range c.Messages() {
		roles = append(roles, m.Role)
	}
	if want := []talk.Role{talk.User, talk.Assistant, talk.Tool, talk.Assistant, talk.User, talk.Assistant}; !slices.Equal(roles, want) {
		t.Errorf("%v", roles)
	}
	var saved bytes.Buffer
	if err := c.Save(&saved); err != nil {
		t.Fatal(err)
	}
	other := &runner.Conversation{Runner: r}
	if err := other.Restore(&saved); err != nil || cmp.Diff(c.Messages(), other.Messages()) != "" {
		t.Errorf("%v, %v", other.Messages(), err)
	}
}

// The budget of a request also holds within a tool.
func TestBudgetWithinATool(t *testing.T) {
	b, opt := equipped(t)
	var inside atomic.Bool
	opt.Executors["builtin"] = builtin.Executor{Funcs: map[string]builtin.Func{"add": func(c *builtin.Call) (any, error) {
		inside.Store(true)
		for c.Step(1) == nil {
			time.Sleep(time.Microsecond)
		}
		return nil, c.Step(1 << 20)
	}}}
	fresh := func() *runner.Runner {
		r, _ := open(t, b, runner.Options{Engines: []runtimes.Engine{script(t, "so "+call("add", `{"a":1}`))}, Skills: opt})
		return r
	}
	a := within(t, fresh, ask("q", 0), func(*runner.Answer) bool { return inside.Load() })
	if a.Stop != runner.StopBudget || a.Text != "so " || len(a.Called) != 0 || !inside.Load() {
		t.Errorf("%+v; the tool was called: %v", a, inside.Load())
	}
}

// Most tokens of a call are forced, and the text is the one that the masks alone yield.
func TestForcedOfCalls(t *testing.T) {
	text := func(free bool) (string, int) {
		b, opt := equipped(t)
		e := script(t, call("echo", `{"text":"hello"}`), "so")
		var engine runtimes.Engine = e
		if free {
			engine = &unforced{e}
		}
		r, _ := open(t, b, runner.Options{Engines: []runtimes.Engine{engine}, Skills: opt})
		a := answer(t, r, ask("q", 0))
		return a.Text + e.held(), e.drew
	}
	with, few := text(false)
	without, many := text(true)
	// <tool_call>, the tool, seven of the text and its end, and the last words.
	if with != without || many <= few || few > 1+1+7+3 {
		t.Errorf("%q with %d choices, without forced tokens %q with %d", with, few, without, many)
	}
}

// unforced is a scripted engine without forced tokens.
type unforced struct{ *scripted }

func (u *unforced) Open(context.Context, runtimes.Bundle, runtimes.Limits) (runtimes.Model, error) {
	return u, nil
}
func (u *unforced) NewSequence(context.Context, runtimes.SequenceOptions) (runtimes.Sequence, error) {
	return u, nil
}
func (u *unforced) Generate(ctx context.Context, opt runtimes.Generation, emit func(int32) error) (runtimes.Stop, error) {
	opt.Follow = deaf{opt.Follow}
	return u.scripted.Generate(ctx, opt, emit)
}

type deaf struct{ runtimes.Constraint }

func (deaf) Forced([]int32) []int32 { return nil }

// Skills read the files and the assets of a request by name; a call cannot name others, and
// without any a skill that reads is not callable.
func TestCallsOfAssets(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	table := file("table.csv", "a,b\n1,2\n")
	for _, c := range []struct {
		name   string
		say    string
		blind  bool
		assets []runner.Asset
		line   string
		fails  string
	}{
		{name: "attached", say: call("read", `{"ref":"#table"}`), assets: []runner.Asset{{Name: "table", Path: table}, {Name: "t2", Path: file("2", "2")}}, line: `{"ok":true,"result":"a,b\n1,2\n"}`},
		{name: "another", say: call("read", `{"ref":"#t2"}`), assets: []runner.Asset{{Name: "table", Path: table}, {Name: "t2", Path: file("2", "2")}}, line: `{"ok":true,"result":"2"}`},
		{name: "one that is not there", say: call("read", `{"ref":"#img7"}`), assets: []runner.Asset{{Name: "table", Path: table}}, line: `{"ok":true,"result":"a,b\n1,2\n"}`},
		{name: "one that is not there, blind", blind: true, say: call("read", `{"ref":"#img7"}`), assets: []runner.Asset{{Name: "table", Path: table}}, line: `{"error":{"kind":"args","message":"ref is #img7, which the request does not have"},"ok":false}`},
		{name: "none", say: call("read", `{"ref":"#img0"}`), fails: "the request has none"},
	} {
		b, opt := equipped(t)
		m, list := modules.Parse("module.yaml", []byte("name: read\nversion: 1.0.0\ntype: skill\nabi: mm-abi-1.0\nlicense: MIT\ninputs: [{name: ref, type: uri}]\noutputs: [{name: result, type: str}]\nruntime: {builtin: read}\n"))
		if list.Failed() {
			t.Fatal(list)
		}
		b.Manifests["read"] = m
		b.Assembly.Skills = append(b.Assembly.Skills, builds.SkillPart{Part: builds.Part{Name: "read", Version: "1.0.0"}, Limits: modules.Effective{TimeoutMS: 60_000}})
		opt.Executors["builtin"].(builtin.Executor).Funcs["read"] = func(c *builtin.Call) (any, error) {
			var args struct{ Ref string }
			if err := json.Unmarshal(c.Args, &args); err != nil {
				return nil, err
			}
			r, err := c.Asset(args.Ref[1:])
			if err != nil {
				return nil, err
			}
			text, err := io.ReadAll(r)
			return map[string]any{"result": string(text)}, err
		}
		e := script(t, c.say, "so")
		e.blind = c.blind
		r, _ := open(t, b, runner.Options{Engines: []runtimes.Engine{e}, Skills: opt})
		req := ask("q", 0)
		req.Assets, req.ToolsAllowed = c.assets, []string{"read"}
		a, err := r.Answer(t.Context(), req, nil)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil || len(a.Called) != 1 || a.Called[0].Line != c.line || a.Text != "so" {
			t.Errorf("%s: %+v, %v", c.name, a, err)
		}
	}
}

// BenchmarkCall measures a call of the shipped core, with and without forced tokens.
func BenchmarkCall(b *testing.B) {
	for _, free := range []bool{false, true} {
		b.Run(map[bool]string{false: "forced", true: "chosen"}[free], func(b *testing.B) {
			build, opt := equipped(b)
			build.Assembly.Core.Files, build.Files = builds.Formats{"gguf": {"core-llm.gguf"}}, folder("../../catalog/core-llm")
			for _, name := range []string{"ocr-latex", "sympy-lite"} {
				m, list := modules.Load("../../catalog/" + name + "/module.yaml")
				if list.Failed() {
					b.Fatal(list)
				}
				build.Manifests[name] = m
				build.Assembly.Skills = append(build.Assembly.Skills, builds.SkillPart{Part: builds.Part{Name: name, Version: m.Version}})
			}
			opt.Executors["builtin"].(builtin.Executor).Funcs["sympy-lite"] = func(*builtin.Call) (any, error) { return map[string]any{"result": 19}, nil }
			var engine runtimes.Engine = engines.Core{}
			if free {
				engine = choosing{}
			}
			r, _ := open(b, build, runner.Options{Engines: []runtimes.Engine{engine}, Skills: opt, Limits: runtimes.Limits{Threads: 1}})
			req := ask("What is 12 plus 7?", 60)
			for b.Loop() {
				if a := answer(b, r, req); len(a.Called) != 1 {
					b.Fatalf("%+v", a)
				}
			}
		})
	}
}

// choosing is the core engine without forced tokens.
type choosing struct{ engines.Core }

func (e choosing) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	m, err := e.Core.Open(ctx, b, l)
	if err != nil {
		return nil, err
	}
	return choosingModel{m.(runtimes.Language)}, nil
}

type choosingModel struct{ runtimes.Language }

func (m choosingModel) NewSequence(ctx context.Context, opt runtimes.SequenceOptions) (runtimes.Sequence, error) {
	s, err := m.Language.NewSequence(ctx, opt)
	return choosingSequence{s}, err
}

type choosingSequence struct{ runtimes.Sequence }

func (s choosingSequence) Generate(ctx context.Context, opt runtimes.Generation, emit func(int32) error) (runtimes.Stop, error) {
	if opt.Follow != nil {
		opt.Follow = deaf{opt.Follow}
	}
	return s.Sequence.Generate(ctx, opt, emit)
}

// If a caller brings its own tools, or a grammar for the answer, skills are not called; closing a
// runner closes its skills.
func TestCallsAreNotMade(t *testing.T) {
	sum := call("add", `{"a":1}`)
	schema, err := grammar.New([]byte(`{"type":"array","items":{"type":"boolean"},"maxItems":2}`), grammar.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*runner.Request){
		"tools of the caller": func(r *runner.Request) { r.Tools = []talk.Definition{{Name: "add"}} },
		"an automaton":        func(r *runner.Request) { r.Preferences.Allow = &runtimes.Grammar{States: []runtimes.State{{}}} },
		"a schema":            func(r *runner.Request) { r.Preferences.Grammar = schema },
	} {
		b, opt := equipped(t)
		r, _ := open(t, b, runner.Options{Engines: []runtimes.Engine{script(t, sum, "so")}, Skills: opt})
		req := ask("q", 0)
		change(&req)
		if a := answer(t, r, req); len(a.Called) != 0 || (len(a.Calls) == 1) != (name != "a schema") {
			t.Errorf("%s: %+v", name, a)
		}
	}
	b, opt := equipped(t)
	closing := &closing{}
	opt.Executors["builtin"] = closing
	r, err := runner.Open(t.Context(), b, runner.Options{Engines: []runtimes.Engine{script(t, "so")}, Skills: opt})
	if err != nil {
		t.Fatal(err)
	}
	answer(t, r, ask("q", 0))
	if err := r.Close(); err != nil || closing.open != 0 || closing.opened != 3 {
		t.Errorf("%d of %d guests are open behind the runner, %v", closing.open, closing.opened, err)
	}
	if _, err := r.Answer(t.Context(), ask("q", 0), nil); !errors.Is(err, runtimes.ErrClosed) {
		t.Errorf("a closed runner: %v", err)
	}
}

// closing is an executor that counts open guests.
type closing struct{ opened, open int }

func (c *closing) Prepare(context.Context, sandbox.Program) (sandbox.Guest, error) {
	c.opened, c.open = c.opened+1, c.open+1
	return c, nil
}
func (c *closing) Call(context.Context, sandbox.Call) (sandbox.Reply, error) {
	return sandbox.Reply{Output: []byte(`{"result":1}`)}, nil
}
func (c *closing) Close() error { c.open--; return nil }
