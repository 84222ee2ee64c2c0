package workspace_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/workspace"
)

// A trusted key signs an artifact whose statements contradict its contents. It is
// refused in the store, at a registry, on the way from one and as a module of a graph.
func TestForgedClaims(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	yes := true
	assembled := func(change func(*builds.Assembly)) func(*content) {
		return func(c *content) {
			a, err := builds.ParseAssembly([]byte(c.files[builds.AssemblyFile]))
			if err != nil {
				t.Fatal(err)
			}
			change(a)
			text, err := a.Encode()
			if err != nil {
				t.Fatal(err)
			}
			c.files[builds.AssemblyFile] = string(text)
		}
	}
	note := func(key, value string) func(*content) { return func(c *content) { c.notes[key] = value } }
	about := func(path, key, value string) func(*content) {
		return func(c *content) { c.about = map[string]map[string]string{path: {key: value}} }
	}
	config := func(change func(*artifact.ModelConfig)) func(*content) {
		return func(c *content) { change(&c.config) }
	}
	both := map[string]func(*content){
		"nothing":      func(*content) {},
		"format":       config(func(m *artifact.ModelConfig) { m.Config.Format = "onnx" }),
		"quantization": config(func(m *artifact.ModelConfig) { m.Config.Quantization = "fp16" }),
		"precision":    config(func(m *artifact.ModelConfig) { m.Config.Precision = "bf16" }),
		"architecture": config(func(m *artifact.ModelConfig) { m.Config.Architecture = "transformer" }),
		"size":         config(func(m *artifact.ModelConfig) { m.Config.ParamSize = "70b" }),
		"license":      config(func(m *artifact.ModelConfig) { m.Descriptor.Licenses = []string{"Apache-2.0"} }),
		"description":  config(func(m *artifact.ModelConfig) { m.Descriptor.Description = "safe" }),
		"inputs":       config(func(m *artifact.ModelConfig) { m.Config.Capabilities = capable([]string{"image", "text"}, nil, nil) }),
		"outputs":      config(func(m *artifact.ModelConfig) { m.Config.Capabilities = capable(nil, []string{"audio"}, nil) }),
		"tools":        config(func(m *artifact.ModelConfig) { m.Config.Capabilities = capable(nil, nil, &yes) }),
		"languages": config(func(m *artifact.ModelConfig) {
			m.Config.Capabilities = &artifact.ModelCapabilities{Languages: []string{"eo"}}
		}),
		"reasoning":    config(func(m *artifact.ModelConfig) { m.Config.Capabilities = &artifact.ModelCapabilities{Reasoning: &yes} }),
		"license note": note(ocispec.AnnotationLicenses, "Apache-2.0"),
		"described":    note(ocispec.AnnotationDescription, "safe"),
		"abi":          note(abi.AnnotationABI, "mm-abi-1.1"),
		"requires":     note(abi.AnnotationRequires, "core-llm@^3"),
		"unknown note": note(abi.AnnotationPrefix+"audited", "true"),
	}
	targets := maps.Clone(both)
	maps.Copy(targets, map[string]func(*content){
		"kind":           note(abi.AnnotationKind, abi.KindModule),
		"target":         note(abi.AnnotationTarget, "phone"),
		"lock":           note(abi.AnnotationLock, "sha256:"+strings.Repeat("0", 64)),
		"format of file": about("core/core.gguf", abi.AnnotationFormat, "onnx"),
		"role":           about("core/core.gguf", abi.AnnotationRole, "encoder"),
		"component":      about("core/core.gguf", abi.AnnotationComponent, "safe"),
		"version":        about("core/core.gguf", abi.AnnotationVersion, "2.0.0"),
		"precision note": about("core/core.gguf", abi.AnnotationQuant, "int4"),
		"document":       about("core/module.yaml", abi.AnnotationFormat, "gguf"),
		"engine":         about("core/core.gguf", abi.AnnotationBackend, "llamacpp"),
		"assembly name":  assembled(func(a *builds.Assembly) { a.Name = "other" }),
		"assembly as":    assembled(func(a *builds.Assembly) { a.Version = "2.0.0" }),
		"assembly for":   assembled(func(a *builds.Assembly) { a.Target = "phone" }),
		"part version":   assembled(func(a *builds.Assembly) { a.Core.Version = "2.0.0" }),
		"part type":      assembled(func(a *builds.Assembly) { a.Core.Type = abi.Skill }),
		"part modality":  assembled(func(a *builds.Assembly) { a.Core.Modality = abi.Image }),
		"absent file":    assembled(func(a *builds.Assembly) { a.Core.Files["gguf"] = []string{"core/none.gguf"} }),
		"no assembly":    func(c *content) { delete(c.files, "assembly.json") },
		"no manifest":    func(c *content) { delete(c.files, "core/module.yaml") },
		"other notice":   func(c *content) { c.files["NOTICE"] = "Modules of nothing\n" },
		"other license":  func(c *content) { c.files["LICENSE"] = "Do what you want.\n" },
	})
	singles := maps.Clone(both)
	maps.Copy(singles, map[string]func(*content){
		"kind":        note(abi.AnnotationKind, abi.KindAssembly),
		"type":        note(abi.AnnotationType, string(abi.Skill)),
		"absent file": func(c *content) { delete(c.files, "core.gguf") },
		"one more":    func(c *content) { c.files["more.gguf"] = "more" },
		"an assembly": func(c *content) { c.files["assembly.json"] = build("p", "1.0.0", "").files["assembly.json"] },
		"digest": func(c *content) {
			c.files[modules.FileName] += "files: [{path: core.gguf, sha256: " + strings.Repeat("0", 64) + ", size: 3}]\n"
		},
	})
	w := newWorld(t)
	s, shelf := w.store(), w.serve()
	for kind, table := range map[string]map[string]func(*content){"build": targets, "module": singles} {
		for name, change := range table {
			c := build("p", "1.0.0", "laptop")
			if kind == "module" {
				c = module("p", "1.0.0")
			}
			change(&c)
			want := string(diag.ClaimDiffers)
			if name == "nothing" {
				want = ""
			}
			refuse := func(at string, err error) {
				t.Helper()
				if list, ok := diag.From(err); !ok && want != "" || code(err) != want || ok && !strings.Contains(list[0].Detail, ": ") {
					t.Errorf("%s %s %s: %v, want %s", kind, name, at, err, want)
				}
			}
			desc := w.pack(s, c, "")
			w.sign(s, desc, 0)
			_, err := w.admit(workspace.Options{}, desc.Digest.String(), workspace.Claim{})
			refuse("in the store", err)
			w.sign(shelf.store, w.pack(shelf.store, c, "team/p:1.0.0"), 0)
			ws := w.open(workspace.Options{PlainHTTP: []string{shelf.host}})
			at, err := ws.FindRemote(context.Background(), shelf.host+"/team/p:1.0.0")
			if err != nil {
				t.Fatal(err)
			}
			_, _, _, err = ws.Verify(context.Background(), at, workspace.Claim{})
			refuse("at a registry", err)
			_, err = ws.Pull(context.Background(), shelf.host+"/team/p:1.0.0", workspace.PullOptions{Force: true})
			refuse("pulled", err)
		}
	}
}

// A module and a build may hold license files that no manifest lists.
func TestUnlistedLicense(t *testing.T) {
	w := newWorld(t)
	s := w.store()
	c := module("p", "1.0.0")
	c.about = map[string]map[string]string{}
	for _, path := range []string{"LICENSE", "LICENSES/MIT.txt", "NOTICE", "docs/LICENSE"} {
		c.about[path] = map[string]string{abi.AnnotationRole: abi.RoleDoc, abi.AnnotationComponent: "p", abi.AnnotationVersion: "1.0.0"}
	}
	c.files["LICENSE"], c.files["LICENSES/MIT.txt"], c.files["NOTICE"] = "a", "b", "c"
	desc := w.pack(s, c, "")
	w.sign(s, desc, 0)
	if _, err := w.admit(workspace.Options{}, desc.Digest.String(), workspace.Claim{}); err != nil {
		t.Error(err)
	}
	c.files["docs/LICENSE"] = "d"
	desc = w.pack(s, c, "")
	w.sign(s, desc, 0)
	if _, err := w.admit(workspace.Options{}, desc.Digest.String(), workspace.Claim{}); code(err) != string(diag.ClaimDiffers) {
		t.Errorf("a license below another folder: %v", err)
	}
}

func capable(in, out []string, tools *bool) *artifact.ModelCapabilities {
	return &artifact.ModelCapabilities{InputTypes: in, OutputTypes: out, ToolUsage: tools}
}

// The graph, the lock and the modules' manifests that a build contains agree with its
// assembly, and an index with its targets.
func TestForgedSources(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	const graph = "name: p\nversion: 1.0.0\nabi: mm-abi-1.0\nlicense: MIT\ncore:\n  llm: {ref: core@1.0.0}\nexports:\n  laptop: {gguf: {quant: int4}}\n"
	pin := "sha256:" + strings.Repeat("1", 64)
	w := newWorld(t)
	s := w.store()
	for name, change := range map[string]func(*string, *builds.Lock){
		"nothing":       func(*string, *builds.Lock) {},
		"graph changed": func(g *string, _ *builds.Lock) { *g += "# more\n" },
		"graph name":    func(g *string, _ *builds.Lock) { *g = strings.Replace(*g, "name: p", "name: q", 1) },
		"graph version": func(g *string, _ *builds.Lock) { *g = strings.Replace(*g, "version: 1.0.0", "version: 2.0.0", 1) },
		"graph license": func(g *string, _ *builds.Lock) { *g = strings.Replace(*g, "MIT", "Apache-2.0", 1) },
		"graph invalid": func(g *string, _ *builds.Lock) { *g = "core: [" },
		"pin version":   func(_ *string, l *builds.Lock) { l.Modules[0].Version = "2.0.0" },
		"pin digest":    func(_ *string, l *builds.Lock) { l.Modules[0].Digest = "sha256:" + strings.Repeat("2", 64) },
		"pin license":   func(_ *string, l *builds.Lock) { l.Modules[0].License = "Apache-2.0" },
		"pin absent":    func(_ *string, l *builds.Lock) { l.Modules[0].Name = "other" },
		"pin of a file": func(_ *string, l *builds.Lock) { l.Modules[0].Files[0].Digest = pin },
	} {
		c := build("p", "1.0.0", "laptop")
		a, err := builds.ParseAssembly([]byte(c.files[builds.AssemblyFile]))
		if err != nil {
			t.Fatal(err)
		}
		a.License, a.Core.Digest, a.Core.Quant = "MIT", pin, "int4"
		text, err := a.Encode()
		if err != nil {
			t.Fatal(err)
		}
		yaml, source := c.files["core/module.yaml"], graph
		lock := &builds.Lock{Version: 1, Graph: builds.LockedGraph{File: "p.graph.yaml"}, Modules: []builds.Locked{{
			Name: "core", Version: "1.0.0", Type: abi.Core, ABI: abi.V1_0, License: "MIT", Source: "catalog/core", Digest: pin, Size: 1,
			Files: []builds.LockedFile{{Path: modules.FileName, Digest: digest.FromString(yaml).String(), Size: int64(len(yaml))}, {Path: "core.gguf", Digest: pin, Size: 1}},
		}}}
		lock.Graph.Digest = builds.Digest([]byte(source))
		change(&source, lock)
		if strings.HasPrefix(name, "graph ") && name != "graph changed" {
			lock.Graph.Digest = builds.Digest([]byte(source))
		}
		pinned, err := lock.Encode()
		if err != nil {
			t.Fatal(err)
		}
		c.files[builds.AssemblyFile], c.files["p.graph.yaml"], c.files["p.lock.yaml"] = string(text), source, string(pinned)
		desc := w.pack(s, c, "")
		w.sign(s, desc, 0)
		want := string(diag.ClaimDiffers)
		if name == "nothing" {
			want = ""
		}
		_, err = w.admit(workspace.Options{}, desc.Digest.String(), workspace.Claim{})
		w.wants(name, err, want)
	}
	for key, value := range map[string]string{
		ocispec.AnnotationLicenses: "MIT", ocispec.AnnotationDescription: "safe", abi.AnnotationLock: pin, abi.AnnotationPrefix + "audited": "true",
		"org.example.note": "",
	} {
		notes := map[string]string{abi.AnnotationABI: string(abi.V1_0), abi.AnnotationKind: abi.KindAssembly, abi.AnnotationName: "p", abi.AnnotationVersion: "1.0.0", key: value}
		var entries []artifact.IndexEntry
		for _, target := range []string{"laptop", "phone"} {
			entries = append(entries, artifact.IndexEntry{Descriptor: w.pack(s, build("p", "1.0.0", target), ""), Target: target})
		}
		desc, err := artifact.PackIndex(context.Background(), s, entries, notes)
		if err != nil {
			t.Fatal(err)
		}
		w.sign(s, desc, 0)
		want := string(diag.ClaimDiffers)
		if value == "" {
			want = ""
		}
		_, err = w.admit(workspace.Options{}, desc.Digest.String(), workspace.Claim{})
		w.wants("index "+key, err, want)
	}
}

// The assembly states the permissions that a skill asks for, and those that the sandbox
// permits.
func TestForgedPermissions(t *testing.T) {
	w := newWorld(t)
	s := w.store()
	env := func(names ...string) *modules.Allow { return &modules.Allow{Env: names} }
	for name, c := range map[string]struct {
		skill, sandbox *modules.Allow
		engines        []string
		want           diag.Code
	}{
		"as they are":       {env("A"), env("A", "B"), []string{"wasm"}, ""},
		"none":              {nil, env("A", "B"), []string{"wasm"}, ""},
		"more":              {env("A", "B"), env("A", "B"), []string{"wasm"}, diag.ClaimDiffers},
		"less":              {env(), env("A", "B"), []string{"wasm"}, diag.ClaimDiffers},
		"sandbox permits":   {env("A"), env("A", "B", "C"), []string{"wasm"}, diag.ClaimDiffers},
		"sandbox takes all": {env("A"), nil, []string{"wasm"}, diag.ClaimDiffers},
		"engines":           {env("A"), env("A", "B"), []string{"process"}, diag.ClaimDiffers},
		"all engines":       {env("A"), env("A", "B"), nil, diag.ClaimDiffers},
	} {
		b := build("p", "1.0.0", "laptop")
		a, err := builds.ParseAssembly([]byte(b.files[builds.AssemblyFile]))
		if err != nil {
			t.Fatal(err)
		}
		a.Skills = []builds.SkillPart{{Part: builds.Part{Name: "tool", Version: "1.0.0", Type: abi.Skill, Manifest: "tool/module.yaml"}, Allow: c.skill}}
		a.Sandbox = &builds.SandboxPart{Part: builds.Part{Name: "box", Version: "1.0.0", Type: abi.Sandbox, Manifest: "box/module.yaml"}, Allow: c.sandbox, Engines: c.engines}
		text, err := a.Encode()
		if err != nil {
			t.Fatal(err)
		}
		b.files[builds.AssemblyFile] = string(text)
		b.files["tool/module.yaml"] = strings.Replace(fmt.Sprintf(skillManifest, "tool", "1.0.0"), "{builtin: x}", "{builtin: x, allow: {env: [A]}}", 1)
		b.files["box/module.yaml"] = "name: box\nversion: 1.0.0\ntype: sandbox\nabi: mm-abi-1.0\nlicense: MIT\nlimits: {cpu: \"1\", mem: 64Mi, timeout_ms: 300, output_bytes: 65536}\nengines: [wasm]\nallow: {env: [A, B]}\n"
		b.about = map[string]map[string]string{
			"tool/module.yaml": {abi.AnnotationComponent: "tool", abi.AnnotationVersion: "1.0.0"},
			"box/module.yaml":  {abi.AnnotationComponent: "box", abi.AnnotationVersion: "1.0.0"},
		}
		desc := w.pack(s, b, "")
		w.sign(s, desc, 0)
		_, err = w.admit(workspace.Options{}, desc.Digest.String(), workspace.Claim{})
		w.wants(name, err, string(c.want))
	}
}
