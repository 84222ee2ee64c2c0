package assemble_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
)

// places are the codes and places of an error's diagnostics, without notes.
func places(err error) []string {
	list, _ := diag.From(err)
	var out []string
	for _, d := range list {
		if d.Severity != diag.Error {
			continue
		}
		file := d.Pos.File[strings.LastIndexByte(d.Pos.File, '/')+1:]
		if i := strings.LastIndex(d.Pos.File, "modules/"); i >= 0 {
			file = d.Pos.File[i+len("modules/"):]
		}
		out = append(out, fmt.Sprintf("%s %s:%d:%d", d.Code, file, d.Pos.Line, d.Pos.Col))
	}
	return out
}

// Each step stops the run with the faults it finds, each at its place, and
// leaves no name behind.
func TestStepsRefuse(t *testing.T) {
	target := func(name string, exports ...string) func(*assemble.Options) {
		return func(o *assemble.Options) { o.Target, o.Exports = name, exports }
	}
	for _, tc := range []struct {
		name   string
		set    func(*kit)
		change func(*assemble.Options)
		want   []string
	}{
		{"validate: no file", nil, func(o *assemble.Options) { o.Graph += ".none" }, []string{"MM0007 kit.graph.yaml.none:0:0"}},
		{"validate: schema", func(k *kit) { k.write("kit.graph.yaml", "core: {}\n") }, nil, []string{"MM0102 kit.graph.yaml:1:7"}},
		{"validate: unknown target", nil, target("tablet"), []string{"MM0504 kit.graph.yaml:14:1"}},
		{"validate: target that is no name", nil, target("../x", "gguf=int8"), []string{"MM0504 --target:0:0"}},
		{"validate: target that hides", nil, target(".laptop.new", "gguf=int8"), []string{"MM0504 --target:0:0"}},
		{"validate: long target", nil, target(strings.Repeat("a", 65), "gguf=int8"), []string{"MM0504 --target:0:0"}},
		{"validate: export without value", nil, target("", "gguf"), []string{"MM0502 --export:0:0"}},
		{"validate: empty item", nil, target("", "onnx=enc,,proj"), []string{"MM0502 --export:0:0"}},
		{"validate: two precisions", nil, target("", "gguf=int8,int4"), []string{"MM0502 --export:0:0"}},
		{"validate: two precisions apart", nil, target("", "gguf=int8", "gguf=int4"), []string{"MM0502 --export:0:0"}},
		{"validate: unknown key", nil, target("", "gguf=int8,size=4"), []string{"MM0502 --export:0:0"}},
		{"resolve: fails", nil, func(o *assemble.Options) { o.Resolver = broken{errBroken} }, nil},
		{"resolve: no such module", func(k *kit) { k.edit("kit.graph.yaml", "tool@^1", "other@^1") }, nil, []string{"MM0402 kit.graph.yaml:10:16"}},
		{"check: modules do not fit", func(k *kit) { k.edit("kit.graph.yaml", "proj@^1}", "proj@^1, out_dim: 64}") }, nil, []string{"MM0319 kit.graph.yaml:8:35"}},
		{"check: vocabulary is another", func(k *kit) { k.edit("modules/core-llm/module.yaml", "vocab_size: 268", "vocab_size: 300") }, nil, []string{"MM0310 kit.graph.yaml:4:16", "MM0211 core-llm/module.yaml:9:15"}},
		{"check: weights of another width", func(k *kit) {
			k.edit("modules/enc/module.yaml", "D_enc: 8", "D_enc: 9")
			k.edit("modules/proj/module.yaml", "D_enc: 8", "D_enc: 9")
		}, nil,
			[]string{"MM0211 enc/module.yaml:14:20", "MM0211 proj/module.yaml:10:20"}},
		{"check: no exporter", func(k *kit) { k.edit("kit.graph.yaml", "onnx:", "onix:") }, nil, []string{"MM0501 kit.graph.yaml:17:11"}},
		{"check: module without the format", func(k *kit) { k.edit("kit.graph.yaml", "[enc, proj, dec]", "[enc, core-llm]") }, nil, []string{"MM0318 kit.graph.yaml:17:17"}},
		{"check: module without the format, no list", func(k *kit) { k.edit("kit.graph.yaml", "onnx: [enc, proj, dec]", "safetensors: {options: {}}") }, nil, []string{"MM0318 kit.graph.yaml:17:18", "MM0502 kit.graph.yaml:17:18"}},
		{"check: precision nobody knows", func(k *kit) { k.edit("kit.graph.yaml", "Q4_0", "Q4_7") }, nil, []string{"MM0312 kit.graph.yaml:19:19"}},
		{"check: precision of a copied format", func(k *kit) { k.edit("kit.graph.yaml", "[enc, proj, dec]", "{quant: int8, modules: [enc]}") }, nil, []string{"MM0312 kit.graph.yaml:17:19", "MM0312 kit.graph.yaml:17:19"}},
		{"check: precision the draft does not list", func(k *kit) { k.edit("modules/draft/module.yaml", "[fp32, fp16, bf16, int8, int4]", "[fp16, int4]") }, nil, []string{"MM0312 kit.graph.yaml:16:19"}},
		{"check: own precision the core does not list", func(k *kit) { k.edit("modules/core-llm/module.yaml", "[fp32, fp16, bf16, int8, int4]", "[fp32, int8]") }, nil, []string{"MM0312 kit.graph.yaml:19:19"}},
		{"check: precision on the command line", nil, target("", "gguf=Q4_7"), []string{"MM0312 --export:0:0"}},
		{"check: format on the command line", nil, target("", "coreml=int4"), []string{"MM0501 --export:0:0"}},
		{"check: contexts for two chips", nil, target("", "qnn=enc@sm8750,proj@sm8650"), []string{"MM0502 --export:0:0"}},
		{"check: contexts for no chip", nil, target("", "qnn=enc@"), []string{"MM0502 --export:0:0"}},
		{"check: a window of none", nil, target("", "qnn=core-llm@sm8750,window=0"), []string{"MM0502 --export:0:0"}},
		{"check: two windows", nil, target("", "qnn=core-llm@sm8750,window=64,window=32"), []string{"MM0502 --export:0:0"}},
		{"check: a window of contexts that nothing compiles", nil, target("", "qnn=core-llm@sm8750,window=64,positions=8"), []string{"MM0501 --export:0:0"}},
		{"check: contexts that nothing compiles", nil, target("", "qnn=enc,proj@sm8750,w8a8"), []string{"MM0311 --export:0:0", "MM0501 --export:0:0"}},
		{"check: module on the command line", nil, target("", "onnx=enc,nobody"), []string{"MM0311 --export:0:0"}},
		{"check: options nobody takes", func(k *kit) { k.edit("kit.graph.yaml", "kv: int8}", "kv: int8, options: {a: 1}}") }, nil, []string{"MM0502 kit.graph.yaml:19:11"}},
		{"check: nothing left to build", func(k *kit) {
			k.edit("kit.graph.yaml", "{quant: int8}", "{quant: Q4_7}")
			k.edit("kit.graph.yaml", "Q4_0", "Q4_7")
		}, func(o *assemble.Options) { o.KeepGoing = true }, []string{"MM0504 kit.graph.yaml:14:1"}},
		{"export: fails", func(k *kit) { k.edit("kit.graph.yaml", "onnx:", "boxed: {quant: palette4, modules: [enc]}\n    onnx:") }, func(o *assemble.Options) { o.Exporters = append(o.Exporters, boxed{fail: errBroken}) }, []string{"MM0503 kit.graph.yaml:17:12"}},
		{"export: gives nothing", func(k *kit) { k.edit("kit.graph.yaml", "onnx:", "boxed: {quant: palette4, modules: [enc]}\n    onnx:") }, func(o *assemble.Options) { o.Exporters = append(o.Exporters, boxed{paths: []string{}}) }, []string{"MM0503 kit.graph.yaml:17:12"}},
		{"export: leads out", func(k *kit) { k.edit("kit.graph.yaml", "onnx:", "boxed: {quant: palette4, modules: [enc]}\n    onnx:") }, func(o *assemble.Options) { o.Exporters = append(o.Exporters, boxed{paths: []string{"../../x"}}) }, []string{"MM0503 kit.graph.yaml:17:12"}},
		{"sign: fails", nil, func(o *assemble.Options) { o.Signer = broken{errBroken} }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			if tc.set != nil {
				tc.set(k)
			}
			r, err := k.assemble(tc.change)
			if err == nil {
				t.Fatalf("built %+v", r)
			}
			if d := cmp.Diff(tc.want, places(err)); d != "" {
				t.Errorf("(-want +got):\n%s%s", d, faults(err))
			}
			if tc.want == nil && !strings.Contains(err.Error(), errBroken.Error()) {
				t.Errorf("%v", err)
			}
			if tags, err := k.store.Tags(t.Context()); err != nil || len(tags) > 0 {
				t.Errorf("tags %v, %v", tags, err)
			}
		})
	}
}

// --export takes modules, precisions and formats in every order that means
// something.
func TestExportOption(t *testing.T) {
	for in, want := range map[string][]string{
		"gguf=int8":                    {"core-llm/core-llm.gguf", "draft/draft.gguf", "tool/tool.star", "tuned/tuned.gguf"},
		"gguf=quant=int8,kv=fp8":       {"core-llm/core-llm.gguf", "draft/draft.gguf", "tool/tool.star", "tuned/tuned.gguf"},
		"gguf=core-llm,q6_k":           {"core-llm/core-llm.gguf", "tool/tool.star", "tuned/tuned.gguf"},
		"onnx=dec":                     {"dec/dec.onnx", "tool/tool.star"},
		"onnx=enc onnx=dec":            {"dec/dec.onnx", "enc/enc.data", "enc/enc.onnx", "tool/tool.star"},
		"boxed=palette4,dec":           {"dec/m.box/data/weights", "dec/m.box/info.json", "dec/m.box/model", "tool/tool.star"},
		"boxed=dec,palette4 gguf=int4": {"core-llm/core-llm.gguf", "dec/m.box/data/weights", "dec/m.box/info.json", "dec/m.box/model", "draft/draft.gguf", "tool/tool.star", "tuned/tuned.gguf"},
	} {
		t.Run(in, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			r := k.must(func(o *assemble.Options) {
				o.Exports, o.Exporters = strings.Fields(in), append(o.Exporters, boxed{})
			})
			a, _ := k.artifact(r, "laptop")
			if d := cmp.Diff(want, weights(a)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if len(r.Targets) != 1 || r.Ref != "kit:0.1.0" {
				t.Errorf("%+v", r)
			}
		})
	}
}

// KeepGoing leaves out what cannot be built, with the reason as a warning.
func TestKeepGoing(t *testing.T) {
	k := newKit(t)
	k.edit("kit.graph.yaml", "Q4_0", "Q4_7")
	r := k.must(func(o *assemble.Options) { o.KeepGoing = true })
	if len(r.Targets) != 1 || r.Targets[0].Target != "laptop" {
		t.Errorf("%+v", r.Targets)
	}
	if n := r.Diagnostics.Count(diag.Warning); n != 1 {
		t.Errorf("%d warnings: %v", n, r.Diagnostics)
	}
}

// The resolver's lock names the graph it was made for, and the progress reports
// every step.
func TestResolveAndProgress(t *testing.T) {
	k := newKit(t)
	var steps []string
	r := k.must(func(o *assemble.Options) {
		o.Progress = func(step, detail string) {
			if detail == "" {
				steps = append(steps, step)
			}
		}
	})
	if r.Lock == nil || r.Lock.Graph != (builds.LockedGraph{File: "kit.graph.yaml", Digest: builds.Digest([]byte(whole))}) || len(r.Lock.Modules) != 9 {
		t.Errorf("lock %+v", r.Lock)
	}
	if d := cmp.Diff([]string{"validate", "resolve", "check", "export", "compose", "sign", "publish"}, steps); d != "" {
		t.Error(d)
	}
}
