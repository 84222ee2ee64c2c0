package mcp

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

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
	"mm-abi.org/mm/workspace"
)

// A rebuilt build answers anew; an unchanged one stays loaded.
func TestLoaded(t *testing.T) {
	dir := world(t)
	s := serve(t, dir, Options{})
	ask := func() *loaded {
		l, err := s.load(t.Context(), inferInput{Build: "b.graph.yaml"})
		if err != nil {
			t.Fatal(err)
		}
		s.leave(l)
		return l
	}
	first := ask()
	if ask() != first {
		t.Error("the same build was loaded twice")
	}
	put(t, dir, "modules/adder/run.star", "def run(args):\n  return {\"sum\": 0}\n")
	if ask() == first {
		t.Error("a build with another skill is still the old one")
	}
	if !first.old || first.users != 0 {
		t.Errorf("the old one: %+v", first)
	}
}

// sealed is the files of a build by their digests.
type sealed map[string]string

// Open implements builds.Files.
func (s sealed) Open(string) (*os.File, error) { return nil, os.ErrNotExist }

// Path implements builds.Files.
func (s sealed) Path(name string) (string, error) { return s[name], nil }

// Dir implements builds.Files.
func (s sealed) Dir(context.Context, ...string) (string, error) { return "", os.ErrNotExist }

// The same name and version do not imply the same bytes.
func TestSame(t *testing.T) {
	of := func(version string, files builds.Files) *builds.Build {
		core := builds.Part{Name: "core", Version: version, Type: abi.Core, Files: builds.Formats{"gguf": {"core.gguf"}}}
		return &builds.Build{Assembly: &builds.Assembly{Name: "b", Core: core}, Files: files}
	}
	one := of("1.0.0", sealed{"core.gguf": "blobs/1"})
	for name, c := range map[string]struct {
		other *builds.Build
		want  bool
	}{
		"itself":          {of("1.0.0", sealed{"core.gguf": "blobs/1"}), true},
		"other bytes":     {of("1.0.0", sealed{"core.gguf": "blobs/2"}), false},
		"another version": {of("1.0.1", sealed{"core.gguf": "blobs/1"}), false},
		"files in place":  {of("1.0.0", struct{ builds.Files }{sealed{"core.gguf": "blobs/1"}}), false},
	} {
		if same(one, c.other) != c.want || same(c.other, one) != c.want {
			t.Errorf("%s: %v", name, !c.want)
		}
	}
}

// recorder is an executor of skills that keeps the programs it prepares.
type recorder struct{ got []sandbox.Program }

func (r *recorder) Prepare(_ context.Context, p sandbox.Program) (sandbox.Guest, error) {
	r.got = append(r.got, p)
	return nil, sandbox.Refuse("seen")
}

// Skills read nothing outside of the root folder. A grant by name holds for the program that
// was opened with the server, not for another of the name in a later build; clients receive
// the permissions that a skill asks for and has.
func TestGrants(t *testing.T) {
	dir, outside := world(t), t.TempDir()
	inside := filepath.Join(dir, "data")
	put(t, inside, "x", "")
	asks := fmt.Sprintf("  allow: {read: [%s, %s], env: [KEY]}\n", inside, outside)
	put(t, dir, "modules/adder/module.yaml", skillYAML("adder", "{name: a, type: int}", "{name: sum, type: int}")+asks)
	x := &recorder{}
	open := func(build string, grants ...string) (*Server, error) {
		opt := Options{Build: build, Root: dir, Workspace: workspace.Options{Home: t.TempDir(), Offline: true}, Exporters: []assemble.Exporter{quantize.Exporter{}}}
		opt.Runner = runner.Options{Engines: []runtimes.Engine{engines.Core{}}, Limits: runtimes.Limits{Threads: 1}}
		opt.Skills.Executors = map[string]sandbox.Executor{"starlark": x}
		for _, text := range grants {
			g, err := modules.ParseGrant(text)
			if err != nil {
				t.Fatal(err)
			}
			opt.Skills.Grants = append(opt.Skills.Grants, g)
		}
		return Open(t.Context(), opt)
	}
	s, err := open("b.graph.yaml", "adder=read:"+inside, "adder=read:"+outside, "adder=env:KEY")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := x.got[0].Allow.String(); got != "env:KEY read:"+inside {
		t.Errorf("allowed %s", got)
	}
	tools, err := client(t, s).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := "It asks for env:KEY read:" + inside + " read:" + outside + "; granted: env:KEY read:" + inside + "."
	if outside < inside {
		want = "It asks for env:KEY read:" + outside + " read:" + inside + "; granted: env:KEY read:" + inside + "."
	}
	if i := slices.IndexFunc(tools.Tools, func(tool *sdk.Tool) bool { return tool.Name == "adder" }); !strings.Contains(tools.Tools[i].Description, want) {
		t.Errorf("description %q, want %q", tools.Tools[i].Description, want)
	}
	for _, body := range []string{"def run(args):\n  return {\"sum\": 0}\n", "def run(args):\n  return {\"sum\": args[\"a\"]}\n"} {
		x.got = nil
		put(t, dir, "modules/adder/run.star", body)
		w, b, err := s.find(t.Context(), "b.graph.yaml", "", "")
		if err != nil {
			t.Fatal(err)
		}
		set, err := skills.Open(t.Context(), b, s.opt.Skills)
		if err != nil {
			t.Fatal(err)
		}
		set.Close()
		w.Close()
		if got := x.got[0].Allow.String(); got != "none" {
			t.Errorf("another program is allowed %s", got)
		}
	}
	for name, c := range map[string]struct{ build, grant, want string }{
		"no build":           {"", "adder=env:KEY", "need the build"},
		"another skill":      {"b.graph.yaml", "addr=env:KEY", "no such skill"},
		"another permission": {"b.graph.yaml", "adder=env:OTHER", "not what it asks for"},
	} {
		if s, err := open(c.build, c.grant); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
			if s != nil {
				s.Close()
			}
		}
	}
}
