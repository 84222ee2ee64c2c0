package runner_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/assemble/quantize"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/skills"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/builtin"
	"mm-abi.org/mm/skills/standard"
	"mm-abi.org/mm/workspace"
)

// reference assembles the reference graph of M-Lite once.
func reference(t *testing.T) *builds.Build {
	t.Helper()
	graph, err := filepath.Abs("../../builds/m-lite.graph.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("../../catalog/core-llm/core-llm.gguf"); err != nil {
		t.Skip("skipped: the weights of the reference core are not here: ", err)
	}
	home := t.TempDir()
	w, err := workspace.Open(workspace.Options{Home: home, Dir: filepath.Dir(graph)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	b, err := w.Runnable(t.Context(), graph, workspace.RunOptions{Target: "laptop", Exporters: []assemble.Exporter{quantize.Exporter{}}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// agentBuild returns a build with one skill, which is the build ref.
func agentBuild(t *testing.T, name, ref string) *builds.Build {
	t.Helper()
	m, list := modules.Parse("module.yaml", []byte("name: ask\nversion: 1.0.0\ntype: skill\nabi: mm-abi-1.0\nlicense: MIT\ninputs: [{name: prompt, type: str}, {name: max_tokens, type: int, optional: true}]\noutputs: [{name: answer, type: str}]\nruntime: {agent: '"+ref+"'}\n"))
	if list.Failed() {
		t.Fatal(list)
	}
	return &builds.Build{
		Assembly: &builds.Assembly{Name: name, Skills: []builds.SkillPart{{
			Part: builds.Part{Name: "ask", Version: "1.0.0", Type: abi.Skill}, Limits: modules.Effective{TimeoutMS: 120_000, MemBytes: 512 << 20},
		}}},
		Manifests: map[string]*modules.Manifest{"ask": m},
	}
}

// world is the environment of agents.
type world struct {
	builds map[string]*builds.Build
	opened []string
	called []runner.CallRecord
}

func (w *world) executor() *runner.AgentExecutor {
	return runner.NewAgentExecutor(runner.AgentOptions{
		Open: func(_ context.Context, ref string) (*builds.Build, error) {
			w.opened = append(w.opened, ref)
			if b := w.builds[ref]; b != nil {
				return b, nil
			}
			return nil, errors.New("there is none")
		},
		Runner: runner.Options{
			Engines: []runtimes.Engine{engines.Core{}},
			Called:  func(_ context.Context, c runner.CallRecord) { w.called = append(w.called, c) },
		},
		Skills: skills.Options{Executors: map[string]sandbox.Executor{"builtin": builtin.Executor{Funcs: standard.Funcs()}}},
	})
}

func askAgent(t *testing.T, w *world, b *builds.Build, args map[string]any) skills.Answer {
	t.Helper()
	set, err := skills.Open(t.Context(), b, skills.Options{Executors: map[string]sandbox.Executor{"agent": w.executor()}})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	a, err := set.Call(t.Context(), abi.ToolCall{Tool: "ask", Args: args}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The reference build is the tool of another: it answers, calls its own skill, which is reported,
// and respects its limits.
func TestReference(t *testing.T) {
	ref := reference(t)
	w := &world{builds: map[string]*builds.Build{"m-lite:0.1.0": ref}}
	outer := agentBuild(t, "outer", "m-lite:0.1.0")
	a := askAgent(t, w, outer, map[string]any{"prompt": "What is 12 plus 7?"})
	if a.Fault != nil || !strings.Contains(a.Line, "19") {
		t.Fatalf("%s; log %s", a.Line, a.Log)
	}
	if len(w.called) != 1 || w.called[0].Skill.Name != "sympy-lite" || w.called[0].Answer.Kind() != "ok" || !strings.Contains(string(a.Log), "sympy-lite") {
		t.Errorf("%d calls were told of: %+v; log %s", len(w.called), w.called, a.Log)
	}
	for name, c := range map[string]struct {
		change func(*builds.SkillPart)
		args   map[string]any
		want   sandbox.Kind
	}{
		"no memory":         {func(p *builds.SkillPart) { p.Limits.MemBytes = 1 << 20 }, map[string]any{"prompt": "Hello"}, sandbox.Refused},
		"no time":           {func(p *builds.SkillPart) { p.Limits.TimeoutMS = 1 }, map[string]any{"prompt": strings.Repeat("Once upon a time ", 20)}, sandbox.Time},
		"no room":           {func(p *builds.SkillPart) { p.Limits.OutputBytes = 4 }, map[string]any{"prompt": "Once upon a time"}, sandbox.Output},
		"half a processor":  {func(p *builds.SkillPart) { p.Limits.MilliCPU = 500 }, map[string]any{"prompt": "Hello"}, sandbox.Refused},
		"no prompt":         {func(*builds.SkillPart) {}, map[string]any{}, sandbox.Args},
		"a prompt too long": {func(*builds.SkillPart) {}, map[string]any{"prompt": strings.Repeat("word ", 3000)}, sandbox.Trap},
	} {
		b := agentBuild(t, "outer", "m-lite:0.1.0")
		c.change(&b.Assembly.Skills[0])
		if a := askAgent(t, w, b, c.args); a.Kind() != string(c.want) {
			t.Errorf("%s: %s", name, a.Line)
		}
	}
}

// A build that contains itself is refused, and the depth of nesting is bounded.
func TestWithin(t *testing.T) {
	ref := reference(t)
	// m-lite's core with an agent for a skill.
	deeper := func(name, below string) *builds.Build {
		a := *ref.Assembly
		a.Name, a.Skills = name, agentBuild(t, name, below).Assembly.Skills
		manifests := maps.Clone(ref.Manifests)
		manifests["ask"] = agentBuild(t, name, below).Manifests["ask"]
		a.Sandbox = nil
		return &builds.Build{Assembly: &a, Manifests: manifests, Files: ref.Files}
	}
	w := &world{builds: map[string]*builds.Build{"a": deeper("a", "b"), "b": deeper("b", "a")}}
	if a := askAgent(t, w, agentBuild(t, "outer", "a"), map[string]any{"prompt": "Once", "max_tokens": 1}); a.Fault != nil {
		t.Errorf("the agent itself: %s", a.Line)
	}
	if want := []string{"a", "b", "a"}; !slices.Equal(w.opened, want) {
		t.Errorf("opened %v, wanted %v", w.opened, want)
	}
	w = &world{builds: map[string]*builds.Build{"a": deeper("a", "b"), "b": deeper("b", "c"), "c": deeper("c", "d"), "d": ref}}
	askAgent(t, w, agentBuild(t, "outer", "a"), map[string]any{"prompt": "Once", "max_tokens": 1})
	if want := []string{"a", "b", "c"}; !slices.Equal(w.opened, want) {
		t.Errorf("opened %v, wanted %v", w.opened, want)
	}
	if a := askAgent(t, w, agentBuild(t, "outer", "none"), map[string]any{"prompt": "Once"}); a.Kind() != "refused" || !strings.Contains(a.Line, "there is none") {
		t.Errorf("a build that is not there: %s", a.Line)
	}
}
