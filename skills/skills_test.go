package skills_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/builtin"
	"mm-abi.org/mm/skills/sandbox/python"
	"mm-abi.org/mm/skills/sandbox/starlark"
)

// folder opens the files of a build in a folder.
type folder string

func (f folder) Open(name string) (*os.File, error)             { return os.Open(filepath.Join(string(f), name)) }
func (f folder) Path(name string) (string, error)               { return filepath.Join(string(f), name), nil }
func (f folder) Dir(context.Context, ...string) (string, error) { return string(f), nil }

func manifest(t *testing.T, name, in, out, runtime string) *modules.Manifest {
	t.Helper()
	m, list := modules.Parse("module.yaml", fmt.Appendf(nil, "name: %s\nversion: 1.0.0\ntype: skill\nabi: mm-abi-1.0\nlicense: MIT\ninputs: [%s]\noutputs: [%s]\nruntime: {%s}\n", name, in, out, runtime))
	if list.Failed() {
		t.Fatal(list)
	}
	return m
}

// build returns a build of skills, with the code file of each that has one.
func build(t *testing.T, box *builds.SandboxPart, list ...*modules.Manifest) *builds.Build {
	t.Helper()
	b := &builds.Build{Assembly: &builds.Assembly{Name: "b", Sandbox: box}, Manifests: map[string]*modules.Manifest{}, Files: folder("testdata")}
	for _, m := range list {
		part := builds.SkillPart{Part: builds.Part{Name: m.Name, Version: m.Version, Type: abi.Skill, Files: builds.Formats{}}, Limits: m.Runtime.Limits.Effective(), Allow: m.Runtime.Allow}
		if f := m.Runtime.Starlark; f != "" {
			part.Files["starlark"] = []string{f}
		}
		if f := m.Runtime.Python; f != "" {
			part.Files["python"] = []string{f}
		}
		if f := m.Runtime.Wasm; f != "" {
			part.Files["wasm"] = []string{f}
		}
		b.Assembly.Skills, b.Manifests[m.Name] = append(b.Assembly.Skills, part), m
	}
	return b
}

var executors = map[string]sandbox.Executor{
	"starlark": starlark.Executor{},
	"builtin": builtin.Executor{Funcs: map[string]builtin.Func{
		"size": func(c *builtin.Call) (any, error) {
			var args struct {
				Image string   `json:"image"`
				More  []string `json:"more"`
			}
			if err := json.Unmarshal(c.Args, &args); err != nil {
				return nil, err
			}
			total := int64(0)
			for _, ref := range append(args.More, args.Image) {
				r, err := c.Asset(strings.TrimPrefix(ref, "#"))
				if err != nil {
					return nil, err
				}
				n, err := io.Copy(io.Discard, r)
				if err != nil {
					return nil, err
				}
				total += n
			}
			return map[string]any{"bytes": total}, nil
		},
		"wrong": func(c *builtin.Call) (any, error) { return map[string]any{"bytes": "many"}, nil },
		"leave": func(c *builtin.Call) (any, error) {
			return nil, &sandbox.Fault{Kind: sandbox.Exit, Code: 4, Message: strings.Repeat("\xff€", 400)}
		},
	}},
}

func open(t *testing.T, b *builds.Build) *skills.Set {
	t.Helper()
	s, err := skills.Open(t.Context(), b, skills.Options{Executors: executors})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func asset(name, text string) sandbox.Asset {
	return sandbox.Asset{Name: name, Data: strings.NewReader(text), Size: int64(len(text))}
}

const size = `{name: image, type: uri}, {name: more, type: "list[uri]", optional: true}`

func TestCall(t *testing.T) {
	s := open(t, build(t, nil,
		manifest(t, "add", "{name: a, type: int}, {name: b, type: float}", "{name: sum, type: float}, {name: text, type: str}", "starlark: add.star, limits: {timeout_ms: 60000}"),
		manifest(t, "size", size, "{name: bytes, type: int}", "builtin: size, limits: {timeout_ms: 60000}"),
		manifest(t, "wrong", "{name: a, type: json, optional: true}", "{name: bytes, type: int}", "builtin: wrong, limits: {timeout_ms: 60000}"),
		manifest(t, "leave", "{name: a, type: json, optional: true}", "{name: bytes, type: int}", "builtin: leave, limits: {timeout_ms: 60000}"),
		manifest(t, "none", "{name: a, type: str}", "{name: b, type: str}", "builtin: none"),
		manifest(t, "image", "{name: a, type: str}", "{name: b, type: str}", "container: reg.example/a/b:1"),
		manifest(t, "words", "{name: a, type: str}", "{name: ok, type: str}", "starlark: add.star"),
	))
	have := []sandbox.Asset{asset("img0", "12345"), asset("img1", "1234567"), asset("img2", "123")}
	for _, c := range []struct{ call, want string }{
		{`{"tool":"add","args":{"a":2,"b":0.5}}`, `{"ok":true,"sum":2.5,"text":"2 <and> 0.5\n"}`},
		{`{"tool":"add","args":{"a":2.5,"b":0.5}}`, `"kind":"args","message":"invalid arguments of add: a: expected integer`},
		{`{"tool":"add","args":{"a":2}}`, `missing properties: 'b'`},
		{`{"tool":"add","args":{"a":2,"b":1,"c":1}}`, `additionalProperties 'c' not allowed`},
		{`{"tool":"add"}`, `"kind":"args"`},
		{`{"tool":"size","args":{"image":"#img0","more":["#img1","#img0"]}}`, `{"bytes":17,"ok":true}`},
		{`{"tool":"size","args":{"image":"#img0"}}`, `{"bytes":5,"ok":true}`},
		{`{"tool":"size","args":{"image":"#img9"}}`, `image is #img9, which the request does not have`},
		{`{"tool":"size","args":{"image":"/etc/passwd"}}`, `does not match pattern`},
		{`{"tool":"size","args":{"image":"#../x"}}`, `does not match pattern`},
		{`{"tool":"wrong"}`, `"kind":"result","message":"invalid result of wrong: bytes: expected integer, but got string"`},
		{`{"tool":"leave"}`, `{"error":{"code":4,"kind":"exit","message":"` + "\ufffd€"},
		{`{"tool":"none","args":{"a":"x"}}`, `{"error":{"kind":"refused","message":"mm has no tool \"none\" built in"},"ok":false}`},
		{`{"tool":"image","args":{"a":"x"}}`, `engine container is not available`},
		{`{"tool":"words","args":{"a":"x"}}`, `is reserved`},
		{`{"tool":"rm"}`, `"kind":"unknown","message":"unknown tool \"rm\", available: add, image, leave`},
	} {
		var call abi.ToolCall
		if err := json.Unmarshal([]byte(c.call), &call); err != nil {
			t.Fatal(err)
		}
		a, err := s.Call(t.Context(), call, have)
		if err != nil || !strings.Contains(a.Line, c.want) || strings.ContainsAny(a.Line, "\n\r") || !json.Valid([]byte(a.Line)) || len(a.Line) > 1000 {
			t.Errorf("%s:\ngot %s, %v\nwant %s", c.call, a.Line, err, c.want)
		}
		if ok := strings.Contains(a.Line, `"ok":true`); ok != (a.Fault == nil) || ok != (a.Kind() == "ok") || len(a.Args) != 64 || len(a.Result) != 64 {
			t.Errorf("%s: fault %v, hashes %q %q", c.call, a.Fault, a.Args, a.Result)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Call(ctx, abi.ToolCall{Tool: "add"}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled call: %v", err)
	}
	if got := s.List(); len(got) != 7 || got[0].Name != "add" || got[0].Engine != "starlark" || got[0].Err != nil || got[1].Err == nil || got[0].Limits.MemBytes != modules.DefaultMemory {
		t.Errorf("%+v", got)
	}
}

// spy records the program it is to prepare.
type spy struct{ got sandbox.Program }

func (s *spy) Prepare(_ context.Context, p sandbox.Program) (sandbox.Guest, error) {
	s.got = p
	return nil, sandbox.Refuse("seen")
}

// TestSandboxRestricts checks that the build's sandbox restricts engines and
// permissions.
func TestMissingManifest(t *testing.T) {
	b := build(t, nil, manifest(t, "add", "{name: a, type: str}", "{name: b, type: str}", "starlark: add.star"))
	clear(b.Manifests)
	if err := open(t, b).List()[0].Err; err == nil || !strings.Contains(err.Error(), "build has no "+modules.FileName) {
		t.Error(err)
	}
}

func TestSandboxRestricts(t *testing.T) {
	m := manifest(t, "net", "{name: a, type: str}", "{name: b, type: str}", "starlark: add.star, limits: {mem: 1Mi}, allow: {network: [a.example, b.example], read: [/usr], env: [A, B], clock: true, random: true}")
	for _, c := range []struct {
		box  *builds.SandboxPart
		want modules.Allow
		why  string
	}{
		{nil, *m.Runtime.Allow, "seen"},
		{&builds.SandboxPart{}, *m.Runtime.Allow, "seen"},
		{&builds.SandboxPart{Allow: &modules.Allow{}}, modules.Allow{}, "seen"},
		{&builds.SandboxPart{Engines: []string{"starlark"}, Allow: &modules.Allow{Network: []string{"b.example", "c.example"}, Env: []string{"A"}, Clock: true}}, modules.Allow{Network: []string{"b.example"}, Env: []string{"A"}, Clock: true}, "seen"},
		{&builds.SandboxPart{Engines: []string{"wasm"}}, modules.Allow{}, "allows [wasm]"},
	} {
		x := &spy{}
		s, err := skills.Open(t.Context(), build(t, c.box, m), skills.Options{Executors: map[string]sandbox.Executor{"starlark": x}, Grants: []modules.Grant{{Skill: "net", Allow: *m.Runtime.Allow}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.List()[0].Err; got == nil || !strings.Contains(got.Error(), c.why) {
			t.Errorf("%+v: %v", c.box, got)
		}
		same := func(a, b modules.Allow) bool {
			return slices.Equal(a.Network, b.Network) && slices.Equal(a.Read, b.Read) && slices.Equal(a.Env, b.Env) && a.Clock == b.Clock && a.Random == b.Random
		}
		if !same(x.got.Allow, c.want) {
			t.Errorf("%+v: allowed %+v, want %+v", c.box, x.got.Allow, c.want)
		}
		if c.why == "seen" && (x.got.Limits.MemBytes != 1<<20 || x.got.Limits.TimeoutMS != 300) {
			t.Errorf("limits %+v", x.got.Limits)
		}
	}
}

func TestSchema(t *testing.T) {
	got := string(skills.Schema([]abi.Port{{Name: "ref", Type: "uri", Description: `the "picture"`}, {Name: "ops", Type: "list[str]", Optional: true}, {Name: "n", Type: "int"}, {Name: "x", Type: "float"}, {Name: "b", Type: "bool"}, {Name: "j", Type: "json", Description: "any"}}))
	want := `{"type":"object","properties":{"ref":{"type":"string","pattern":"^#[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}$","description":"the \"picture\""},` +
		`"ops":{"type":"array","items":{"type":"string","maxLength":65536}},"n":{"type":"integer"},"x":{"type":"number"},"b":{"type":"boolean"},"j":{"description":"any"}},` +
		`"required":["ref","n","x","b","j"],"additionalProperties":false}`
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// FuzzResult runs a guest with arbitrary output.
func FuzzResult(f *testing.F) {
	for _, s := range []string{`{"bytes":1}`, `{"bytes":1,"bytes":2}`, `{"ok":false}`, "\xff", `{"bytes":1e400}`, `[`} {
		f.Add(s)
	}
	var out string
	x := guests{&out}
	b := &builds.Build{Assembly: &builds.Assembly{Skills: []builds.SkillPart{{Part: builds.Part{Name: "s"}}}}, Manifests: map[string]*modules.Manifest{
		"s": {Name: "s", Tensors: modules.Tensors{Outputs: []abi.Port{{Name: "bytes", Type: "int"}}}, SkillKeys: modules.SkillKeys{Runtime: &modules.Runtime{Builtin: "s"}}}}}
	s, err := skills.Open(f.Context(), b, skills.Options{Executors: map[string]sandbox.Executor{"builtin": x}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		out = text
		a, err := s.Call(t.Context(), abi.ToolCall{Tool: "s"}, nil)
		if err != nil || !json.Valid([]byte(a.Line)) || strings.Contains(a.Line, "\n") {
			t.Fatalf("%q: got %q, %v", text, a.Line, err)
		}
	})
}

// guests returns guests whose output is out.
type guests struct{ out *string }

func (g guests) Prepare(context.Context, sandbox.Program) (sandbox.Guest, error) { return g, nil }
func (g guests) Call(context.Context, sandbox.Call) (sandbox.Reply, error) {
	return sandbox.Reply{Output: []byte(*g.out)}, nil
}
func (g guests) Close() error { return nil }

// TestSubstitute checks that a replacing engine is reported and must be
// allowed too.
func TestSubstitute(t *testing.T) {
	absent := python.New(python.Options{Fallback: starlark.Executor{}})
	m := manifest(t, "add", "{name: a, type: int}, {name: b, type: int}", "{name: sum, type: int}, {name: text, type: str}", "python: add.star")
	for _, c := range []struct {
		engines []string
		by      string
		refused bool
	}{{nil, "starlark", false}, {[]string{"python", "starlark"}, "starlark", false}, {[]string{"python"}, "starlark", true}, {[]string{"starlark"}, "", true}} {
		b := build(t, &builds.SandboxPart{Engines: c.engines}, m)
		s, err := skills.Open(t.Context(), b, skills.Options{Executors: map[string]sandbox.Executor{"python": absent}})
		if err != nil {
			t.Fatal(err)
		}
		if info := s.List()[0]; info.By != c.by || (info.Err != nil) != c.refused || info.Engine != "python" {
			t.Errorf("%v: by %q, %v", c.engines, info.By, info.Err)
		}
		a, err := s.Call(t.Context(), abi.ToolCall{Tool: "add", Args: map[string]any{"a": 2, "b": 3}}, nil)
		if err != nil || (a.Kind() == "ok") == c.refused || !c.refused && !strings.Contains(a.Usage.By, "starlark") {
			t.Errorf("%v: %s, %v, by %q", c.engines, a.Line, err, a.Usage.By)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
