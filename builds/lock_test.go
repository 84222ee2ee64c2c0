package builds_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
)

func lock() *builds.Lock {
	digest := "sha256:" + strings.Repeat("0a", 32)
	return &builds.Lock{
		Graph: builds.LockedGraph{File: "b.graph.yaml", Digest: digest},
		Modules: []builds.Locked{
			{Name: "b", Version: "1.0.0", Type: "skill", Source: "store", Digest: digest, Size: 5, SignedBy: []string{"z", "a"}},
			{Name: "a", Version: "2.1.0", Type: "core", Source: "modules/a", Digest: digest, Size: 7, Requested: []builds.Request{{By: "graph", Ref: "a@^2"}, {By: "b@1.0.0", Ref: "a@>=2"}}},
		},
	}
}

// An encoded lock parses to the same lock, sorted, and encodes the same again.
func TestLockRoundTrip(t *testing.T) {
	text, err := lock().Encode()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "# Maintained by mm lock.") {
		t.Errorf("begins %q", text[:30])
	}
	l, list := builds.ParseLock("b.lock.yaml", text)
	if len(list) != 0 {
		t.Fatal(list)
	}
	if l.Modules[0].Name != "a" || l.Modules[1].SignedBy[0] != "a" {
		t.Errorf("not sorted: %+v", l.Modules)
	}
	again, err := l.Encode()
	if err != nil || string(again) != string(text) {
		t.Errorf("%v (-first +second):\n%s", err, cmp.Diff(string(text), string(again)))
	}
}

func TestLockStale(t *testing.T) {
	for graph, want := range map[string][]diag.Code{
		"core: {llm: {ref: a@^2}}\n":                                    nil,
		"core: {llm: {ref: a@2.1}}\n":                                   nil,
		"core: {llm: {ref: a@3}}\n":                                     {diag.LockStale},
		"core: {llm: {ref: other@1.0.0}}":                               {diag.LockStale},
		"core: {llm: {ref: a@2.1.0-rc.1}}":                              {diag.LockStale},
		"core: {llm: {ref: a@sha256:" + strings.Repeat("0a", 32) + "}}": nil,
		"core: {llm: {ref: a@sha256:" + strings.Repeat("0b", 32) + "}}": {diag.LockStale},
	} {
		g, list := builds.Parse("b.graph.yaml", []byte(graph))
		if g == nil {
			t.Fatal(list)
		}
		var got []diag.Code
		for _, d := range lock().Stale(g) {
			got = append(got, d.Code)
		}
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s (-want +got):\n%s", graph, d)
		}
	}
}

func TestLockRefusesRepeats(t *testing.T) {
	l := lock()
	l.Modules[1].Name = "b"
	text, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, list := builds.ParseLock("x", text); !list.Failed() || list[0].Code != diag.RepeatedItem {
		t.Errorf("%v", list)
	}
}

func TestCompat(t *testing.T) {
	table := lock().CompatRows("b", "fits")
	table = append(table, builds.CompatRow{Build: "z", Core: "c", Module: "m", Result: "fits"})
	read, err := builds.ParseCompat(table.Encode())
	if err != nil || len(read) != 3 {
		t.Fatalf("%v, %v", read, err)
	}
	if replaced := read.Replace("b", nil); len(replaced) != 1 || replaced[0].Build != "z" {
		t.Errorf("%v", replaced)
	}
	for _, bad := range []string{"", "a,b\n", "build,core,core_version,module,version,type,abi,result,wrong\n"} {
		if _, err := builds.ParseCompat([]byte(bad)); err == nil {
			t.Errorf("%q accepted", bad)
		}
	}
}

func FuzzParseAssembly(f *testing.F) {
	a := builds.Assembly{Name: "a", Core: builds.Part{Name: "c", Files: builds.Formats{"gguf": {"c/c.gguf", "c/c.more"}}}}
	data, err := a.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"core":{"name":"x","files":{"gguf":"x"}},"files":[{"path":"x","digest":"","size":1,"media_type":"","role":"core"}]}`))
	f.Add([]byte(`{"core":{"name":"x","files":{"gguf":"../x"}},"files":[{"path":"../x"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := builds.ParseAssembly(data)
		if err != nil {
			return
		}
		for _, part := range a.Parts() {
			for _, paths := range part.Files {
				for _, path := range append(paths, part.Manifest) {
					if strings.HasPrefix(path, "/") || strings.Contains("/"+path+"/", "/../") {
						t.Fatalf("path %q passed", path)
					}
				}
			}
		}
		if _, err := a.Encode(); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("core: {llm: {ref: a@^2}}\n"), []byte("version: 1\n"))
	f.Fuzz(func(t *testing.T, graph, lock []byte) {
		g, _ := builds.Parse("f.graph.yaml", graph)
		l, _ := builds.ParseLock("f.lock.yaml", lock)
		if g == nil {
			return
		}
		g.Check(builds.Resolved{})
		if l != nil {
			l.Stale(g)
		}
	})
}

// A module with faults of its own is nil and causes no diagnostic; a missing
// one is reported as not checked.
func TestCheckOfFaultyModules(t *testing.T) {
	g, list := builds.Parse("g.graph.yaml", []byte("core:\n  llm: {ref: core-llm@^3}\n  draft: {ref: draft-llm@^1}\n"))
	if list.Failed() {
		t.Fatal(list)
	}
	got := g.Check(builds.Resolved{"core-llm": nil})
	if len(got) != 1 || got[0].Code != diag.NotChecked || got[0].Pos.Line != 3 {
		t.Errorf("%v", got)
	}
}

// The lock records the effective limits of each skill: the smallest of each,
// and the default if none is stated.
func TestBound(t *testing.T) {
	read := func(text string) *modules.Manifest {
		m, list := modules.Parse("module.yaml", []byte(text))
		if list.Failed() {
			t.Fatal(list)
		}
		return m
	}
	resolved := builds.Resolved{
		"a":       read("name: a\nversion: 1.0.0\ntype: skill\nabi: mm-abi-1.0\nlicense: MIT\ninputs: [{name: x, type: str}]\noutputs: [{name: y, type: str}]\nruntime: {builtin: a, limits: {mem: 512Mi, timeout_ms: 400}}\n"),
		"b":       read("name: b\nversion: 1.0.0\ntype: skill\nabi: mm-abi-1.0\nlicense: MIT\ninputs: [{name: x, type: str}]\noutputs: [{name: y, type: str}]\nruntime: {builtin: b}\n"),
		"sandbox": read("name: sandbox\nversion: 1.0.0\ntype: sandbox\nabi: mm-abi-1.0\nlicense: MIT\nlimits: {mem: 128Mi}\n"),
	}
	const skills = "core:\n  llm: {ref: c@1.0.0}\nskills: [{ref: a@1.0.0, limits: {timeout_ms: 250}}, {ref: b@1.0.0}, {ref: gone@1.0.0}]\n"
	for _, c := range []struct {
		runtime string
		a, b    modules.Effective
	}{
		{"runtime:\n  sandbox: {ref: sandbox@1.0.0, timeout_ms: 300}\n",
			modules.Effective{MilliCPU: 1000, MemBytes: 128 << 20, TimeoutMS: 250, OutputBytes: 64 << 10}, modules.Effective{MilliCPU: 1000, MemBytes: 128 << 20, TimeoutMS: 300, OutputBytes: 64 << 10}},
		{"runtime: {}\n",
			modules.Effective{MilliCPU: 1000, MemBytes: 512 << 20, TimeoutMS: 250, OutputBytes: 64 << 10}, modules.Effective{MilliCPU: 1000, MemBytes: 64 << 20, TimeoutMS: 300, OutputBytes: 64 << 10}},
	} {
		g, list := builds.Parse("g.graph.yaml", []byte(skills+c.runtime))
		if list.Failed() {
			t.Fatal(list)
		}
		l := builds.NewLock(g, nil)
		for _, name := range []string{"a", "b", "sandbox"} {
			l.Modules = append(l.Modules, builds.Locked{Name: name, Version: "1.0.0", Type: resolved[name].Type, Source: "x", Digest: "sha256:" + strings.Repeat("0", 64)})
		}
		l.Bound(g, resolved)
		text, err := l.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, list := builds.ParseLock("g.lock.yaml", text)
		if list.Failed() {
			t.Fatal(list)
		}
		for name, want := range map[string]modules.Effective{"a": c.a, "b": c.b} {
			if m, _ := again.Find(name); m.Limits == nil || *m.Limits != want {
				t.Errorf("%s%s: %v, want %v", c.runtime, name, m.Limits, want)
			}
		}
		if m, _ := again.Find("sandbox"); m.Limits != nil {
			t.Errorf("the sandbox has limits of a skill: %v", m.Limits)
		}
	}
}

// A table with conflicts holds the rows of both sides.
func TestCompatConflicts(t *testing.T) {
	const header = "build,core,core_version,module,version,type,abi,result,digest\n"
	got, err := builds.ParseCompat([]byte(header + "<<<<<<< HEAD\na,c,1,m,1,skill,x,fits,1\nb,c,1,m,1,skill,x,fits,1\n=======\nb,c,1,m,1,skill,x,fits,2\nb,c,1,m,2,skill,x,fits,2\n>>>>>>> x\n"))
	if err != nil || len(got) != 3 || got[1].Digest != "1" || got[2].Version != "2" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{header + "<<<<<<< HEAD\n", header + "<<<<<<< a\nx\n=======\n>>>>>>> b\n", header + "<<<<<<< a\n=======\nx\n>>>>>>> b\n"} {
		if _, err := builds.ParseCompat([]byte(text)); err == nil {
			t.Errorf("accepted %q", text)
		}
	}
}
