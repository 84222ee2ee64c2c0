package assemble_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
)

// A target ships the files of the formats that take a module, with what lies
// next to them, and nothing of the others; the assembly records so.
func TestTargetFiles(t *testing.T) {
	k := newKit(t)
	r := k.must(nil)
	laptop, build := k.artifact(r, "laptop")
	want := []string{"core-llm/core-llm.gguf", "dec/dec.onnx", "draft/draft.gguf", "enc/enc.data", "enc/enc.onnx", "proj/proj.onnx", "tool/tool.star", "tuned/tuned.gguf"}
	if d := cmp.Diff(want, weights(laptop)); d != "" {
		t.Errorf("laptop (-want +got):\n%s", d)
	}
	phone, small := k.artifact(r, "phone")
	want = []string{"core-llm/core-llm.gguf", "draft/draft.gguf", "tool/tool.star", "tuned/tuned.gguf"}
	if d := cmp.Diff(want, weights(phone)); d != "" {
		t.Errorf("phone (-want +got):\n%s", d)
	}
	if slices.ContainsFunc(phone.Layers, func(l artifact.Layer) bool { return l.Path == "enc/enc.data" }) {
		t.Error("the encoder's data is shipped without the encoder")
	}
	if first := laptop.Layers[0]; first.Path != "core-llm/core-llm.gguf" || !first.CoreModel() {
		t.Errorf("first is %s", first.Path)
	}
	files := map[string]builds.Formats{}
	for _, p := range build.Parts() {
		files[p.Name] = p.Files
	}
	wantFiles := map[string]builds.Formats{
		"core-llm": {"gguf": {"core-llm/core-llm.gguf"}}, "draft": {"gguf": {"draft/draft.gguf"}}, "tuned": {"gguf": {"tuned/tuned.gguf"}},
		"enc": {"onnx": {"enc/enc.onnx", "enc/enc.data"}}, "proj": {"onnx": {"proj/proj.onnx"}}, "dec": {"onnx": {"dec/dec.onnx"}},
		"tool": {"starlark": {"tool/tool.star"}}, "router": nil, "box": nil,
	}
	if d := cmp.Diff(wantFiles, files, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	if build.Core.Quant != "int8" || small.Core.Quant != "Q4_0" || small.Draft.Quant != "Q4_0" || build.Adapters[0].Quant != "" || build.Adapters[0].Scale != 1 {
		t.Errorf("precisions %q, %q, %q, %+v", build.Core.Quant, small.Core.Quant, small.Draft.Quant, build.Adapters[0])
	}
	if build.KV != abi.Int8 || small.KV != abi.Int8 || build.DraftTokens != 3 || build.Tokens.DModel != 32 || build.Modalities[0].TCap != 4 {
		t.Errorf("laptop %+v", build)
	}
	skill, box := build.Skills[0], build.Sandbox
	if d := cmp.Diff(&modules.Allow{Network: []string{"example.org"}}, skill.Allow); d != "" || skill.Limits.TimeoutMS != 300 || skill.Limits.MemBytes != 64<<20 {
		t.Errorf("skill %+v", skill)
	}
	if d := cmp.Diff([]string{"wasm", "starlark", "builtin"}, box.Engines); d != "" || box.Limits.TimeoutMS != 300 {
		t.Errorf("sandbox %+v", box)
	}
	if d := cmp.Diff([]string{abi.ToolCallOpen, abi.ToolCallClose}, build.Router.ToolCallTokens); d != "" || build.Router.MaxCalls != 4 {
		t.Errorf("router %+v", build.Router)
	}
	for _, l := range laptop.Layers {
		if l.Path == "enc/enc.data" && (l.Annotations[abi.AnnotationFormat] != "onnx" || l.Annotations[abi.AnnotationComponent] != "enc" || l.Annotations[abi.AnnotationRole] != "encoder") {
			t.Errorf("annotations of the external data: %v", l.Annotations)
		}
		if l.Path == "core-llm/core-llm.gguf" && l.Annotations[abi.AnnotationQuant] != "int8" {
			t.Errorf("annotations of the core: %v", l.Annotations)
		}
	}
}

// Settings of the graph override those of the modules.
func TestGraphGoesFirst(t *testing.T) {
	k := newKit(t)
	k.edit("kit.graph.yaml", "kv_dtype: fp8}", "kv_dtype: fp16, max_seq: 100}")
	k.edit("kit.graph.yaml", "[{ref: tuned@^1}]", "[{ref: tuned@^1, scale: 0.5}]")
	k.edit("kit.graph.yaml", "{ref: proj@^1}", "{ref: proj@^1, T_cap: 4}")
	k.edit("kit.graph.yaml", "{ref: router@^1}", "{ref: router@^1, tool_call_tokens: [<tool_call>, </tool_call>], max_calls: 2}")
	k.edit("kit.graph.yaml", "name: kit", "name: kit\nlicense: LicenseRef-mine\ndescription: All of it.")
	k.edit("kit.graph.yaml", "{ref: tool@^1}", "{ref: tool@^1, limits: {timeout_ms: 50}}")
	r := k.must(nil)
	a, build := k.artifact(r, "laptop")
	_, phone := k.artifact(r, "phone")
	if build.Tokens.MaxSeq != 100 || build.KV != abi.FP16 || phone.KV != abi.Int8 || build.Adapters[0].Scale != 0.5 || build.Router.MaxCalls != 2 || build.License != "LicenseRef-mine" || build.Skills[0].Limits.TimeoutMS != 50 {
		t.Errorf("%+v", build)
	}
	if a.Annotations["org.opencontainers.image.licenses"] != "LicenseRef-mine" || a.Annotations["org.opencontainers.image.description"] != "All of it." {
		t.Errorf("%v", a.Annotations)
	}
}

// The signed config claims only capabilities of the target's files.
func TestCapabilities(t *testing.T) {
	type claims struct {
		In, Out []string
		Tools   bool
		Format  string
		Quant   string
	}
	text := []string{"text"}
	for name, tc := range map[string]struct {
		exports []string
		set     func(*kit)
		want    claims
	}{
		"all":                    {[]string{"gguf=int8", "onnx=enc,proj,dec"}, nil, claims{[]string{"image", "text"}, []string{"image", "text"}, true, "gguf", "int8"}},
		"core alone":             {[]string{"gguf=int8"}, nil, claims{text, text, true, "gguf", "int8"}},
		"encoder, no projector":  {[]string{"gguf=int8", "onnx=enc"}, nil, claims{text, text, true, "gguf", "int8"}},
		"projector, no encoder":  {[]string{"gguf=int8", "onnx=proj"}, nil, claims{text, text, true, "gguf", "int8"}},
		"decoder":                {[]string{"gguf=int8", "onnx=dec"}, nil, claims{text, []string{"image", "text"}, true, "gguf", "int8"}},
		"no core":                {[]string{"onnx=enc,proj,dec"}, nil, claims{}},
		"core in another format": {[]string{"boxed=palette4,core-llm"}, nil, claims{text, text, true, "boxed", "palette4"}},
		"tool elsewhere":         {[]string{"gguf=int8"}, func(k *kit) { k.edit("modules/tool/module.yaml", "starlark: tool.star", "builtin: tool") }, claims{text, text, false, "gguf", "int8"}},
		"no router":              {[]string{"gguf=int8"}, func(k *kit) { k.edit("kit.graph.yaml", "  router: {ref: router@^1}\n", "") }, claims{text, text, false, "gguf", "int8"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			if tc.set != nil {
				tc.set(k)
			}
			r := k.must(func(o *assemble.Options) { o.Exports, o.Exporters = tc.exports, append(o.Exporters, boxed{}) })
			a, _ := k.artifact(r, "laptop")
			c := a.Config.Config
			got := claims{c.Capabilities.InputTypes, c.Capabilities.OutputTypes, *c.Capabilities.ToolUsage, c.Format, c.Quantization}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// A third format of several files with a precision of its own needs an
// exporter only. Its output is cached.
func TestNewFormat(t *testing.T) {
	k := newKit(t)
	k.edit("kit.graph.yaml", "    onnx: [enc, proj, dec]", "    boxed: {quant: palette4, modules: [enc, dec], options: {bits: 4}}")
	with := func(o *assemble.Options) { o.Exporters = append(o.Exporters, boxed{}) }
	r := k.must(with)
	a, build := k.artifact(r, "laptop")
	want := builds.Formats{"boxed": {"enc/m.box/model", "enc/m.box/data/weights", "enc/m.box/info.json"}}
	if d := cmp.Diff(want, build.Modalities[0].Encoder.Files); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if build.Modalities[0].Encoder.Quant != "palette4" || len(build.Modalities[0].Projector.Files) > 0 {
		t.Errorf("%+v", build.Modalities[0])
	}
	for _, l := range a.Layers {
		if l.Path != "enc/m.box/model" {
			continue
		}
		data, err := os.ReadFile(k.store.BlobPath(l.Descriptor))
		if err != nil || string(data) != `m.box/model of enc@1.0.0 as palette4, options {"bits":4}` {
			t.Errorf("%s, %v", data, err)
		}
		if l.Annotations[abi.AnnotationFormat] != "boxed" || l.Annotations[abi.AnnotationQuant] != "palette4" || l.Descriptor.MediaType != abi.MediaWeight {
			t.Errorf("%+v", l)
		}
	}
	notes := func(r *assemble.Result) (n, recalled int) {
		for _, d := range r.Diagnostics {
			if d.Code == diag.QuantFallback && strings.Contains(d.Detail, "one tensor stays") {
				n++
			}
			if d.Code == diag.QuantFallback && strings.Contains(d.Detail, "recalled") {
				recalled++
			}
		}
		return n, recalled
	}
	if n, again := notes(r); n != 2 || again != 0 {
		t.Errorf("%d notes, %d recalled", n, again)
	}
	r2 := k.must(with)
	if _, again := notes(r2); again != 2 || r2.Digest != r.Digest {
		t.Errorf("%d recalled, %s then %s", again, r.Digest, r2.Digest)
	}
	if _, err := k.assemble(nil); err == nil {
		t.Error("built without its exporter")
	}
}

// An 8-bit float is mapped where the core is shipped as GGUF, and left to the
// engine of another format.
func TestKV(t *testing.T) {
	for export, want := range map[string]abi.DType{
		"gguf=int8": abi.Int8, "gguf=int8,kv=fp16": abi.FP16, "boxed=palette4,core-llm": abi.FP8, "boxed=palette4,core-llm,kv=bf16": abi.BF16, "onnx=enc": abi.Int8,
	} {
		t.Run(export, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			k.edit("modules/core-llm/module.yaml", "kv_dtype: [fp32, fp16, int8, fp8]", "kv_dtype: [fp32, fp16, bf16, int8, fp8]")
			r := k.must(func(o *assemble.Options) { o.Exports, o.Exporters = []string{export}, append(o.Exporters, boxed{}) })
			_, a := k.artifact(r, "laptop")
			noted := slices.ContainsFunc(r.Diagnostics, func(d diag.Diagnostic) bool {
				return d.Code == diag.KVMapped && strings.Contains(d.Detail, "becomes int8")
			})
			if a.KV != want || noted != (want == abi.Int8) {
				t.Errorf("%s, noted %v", a.KV, noted)
			}
		})
	}
}

// The same inputs give the same digests in another store, without a cache; a
// date changes them.
func TestDeterministic(t *testing.T) {
	one, two := newKit(t), newKit(t)
	a := one.must(nil)
	b := two.must(func(o *assemble.Options) { o.Cache = "" })
	if a.Digest != b.Digest || a.Digest == "" {
		t.Errorf("%s, %s", a.Digest, b.Digest)
	}
	day := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	c := one.must(func(o *assemble.Options) { o.Created = &day })
	artifact, _ := one.artifact(c, "phone")
	if c.Digest == a.Digest || artifact.Annotations["org.opencontainers.image.created"] != "2026-01-02T02:04:05Z" || !artifact.Config.Descriptor.CreatedAt.Equal(day) {
		t.Errorf("%v", artifact.Annotations)
	}
}

// An index has the platform of each target: the one in the graph, else what
// the target's name does. One target needs no index.
func TestPlatforms(t *testing.T) {
	k := newKit(t)
	k.write("kit.graph.yaml", graph+"exports:\n")
	text := graph + "exports:\n"
	for _, name := range []string{"laptop", "laptop-gpu", "laptops", "phone", "mobile-ios", "mobile-android-v8", "server", "tablet"} {
		text += "  " + name + ": {gguf: {quant: int8}}\n"
	}
	k.write("kit.graph.yaml", text+"  own: {gguf: {quant: int8}, platform: windows/arm64}\n")
	r := k.must(nil)
	index, err := artifact.ReadIndex(context.Background(), k.store, r.Descriptor)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range index.Entries {
		got[e.Target] = ""
		if e.Platform != nil {
			got[e.Target] = e.Platform.OS + "/" + e.Platform.Architecture
		}
	}
	want := map[string]string{
		"laptop": "linux/amd64", "laptop-gpu": "linux/amd64", "laptops": "", "phone": "android/arm64", "mobile-ios": "ios/arm64",
		"mobile-android-v8": "android/arm64", "server": "linux/amd64", "tablet": "", "own": "windows/arm64",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	// As oras pull --platform chooses.
	for platform, target := range map[string]string{"linux/amd64": "laptop", "windows/arm64": "own"} {
		system, arch, _ := strings.Cut(platform, "/")
		desc, err := oras.Resolve(context.Background(), k.store, r.Ref, oras.ResolveOptions{TargetPlatform: &ocispec.Platform{OS: system, Architecture: arch}})
		i := slices.IndexFunc(r.Targets, func(t assemble.TargetResult) bool { return t.Target == target })
		if err != nil || desc.Digest.String() != r.Targets[i].Digest {
			t.Errorf("%s: %s, %v", platform, desc.Digest, err)
		}
	}
	one := k.must(func(o *assemble.Options) { o.Target = "phone" })
	if one.Descriptor.MediaType != ocispec.MediaTypeImageManifest || one.Digest != one.Targets[0].Digest {
		t.Errorf("%+v", one)
	}
	// A target of --export that the graph has keeps the graph's platform.
	both := k.must(func(o *assemble.Options) { o.Target, o.Exports, o.Untagged = "own", []string{"gguf=int4"}, true })
	if both.Targets[0].Target != "own" {
		t.Errorf("%+v", both)
	}
}

// The signer receives the complete build as the last step.
func TestSign(t *testing.T) {
	k := newKit(t)
	var asked []digest.Digest
	r := k.must(func(o *assemble.Options) { o.Signer = seal{&asked} })
	if len(asked) != 1 || asked[0] != r.Descriptor.Digest || len(r.Signatures) != 1 {
		t.Errorf("asked for %v, signatures %v of %s", asked, r.Signatures, r.Digest)
	}
}

// A signed version names the same bytes for ever; an unsigned build is work in
// progress. Targets can be built one by one.
func TestVersionTaken(t *testing.T) {
	k := newKit(t)
	var asked []digest.Digest
	sign := func(o *assemble.Options) { o.Signer = seal{&asked} }
	count := func(r *assemble.Result) (n int) {
		for _, d := range r.Diagnostics {
			if d.Code == diag.VersionTaken {
				n++
			}
		}
		return n
	}
	head := func(ref string) string {
		t.Helper()
		desc, err := k.store.Resolve(context.Background(), ref)
		if err != nil {
			t.Fatal(err)
		}
		return desc.Digest.String()
	}
	first := k.must(nil)
	k.edit("modules/core-llm/module.yaml", "license: Apache-2.0", "license: MIT")
	second := k.must(nil)
	if count(second) != 3 || head("kit:0.1.0") != second.Digest || second.Digest == first.Digest {
		t.Errorf("%d notes, the name is %s", count(second), head("kit:0.1.0"))
	}
	signed := k.must(sign)
	if signed.Digest != second.Digest || count(signed) != 0 {
		t.Errorf("the same bytes: %+v", signed)
	}
	k.edit("modules/core-llm/module.yaml", "license: MIT", "license: BSD-3-Clause")
	before := len(asked)
	if _, err := k.assemble(sign); err == nil {
		t.Fatal("a signed version moved")
	} else if d := cmp.Diff([]string{"MM0704 kit.graph.yaml:1:1"}, places(err)); !strings.Contains(faults(err), "MM0704") {
		t.Errorf("%s%s", d, faults(err))
	}
	if len(asked) != before || head("kit:0.1.0") != signed.Digest {
		t.Error("signed, or moved, all the same")
	}
	forced := k.must(func(o *assemble.Options) { o.Force = true })
	if head("kit:0.1.0") != forced.Digest || forced.Digest == signed.Digest {
		t.Errorf("--force left %s", head("kit:0.1.0"))
	}
	k.must(sign)
	part := k.must(func(o *assemble.Options) { sign(o); o.Target = "phone" })
	if head("kit:0.1.0") != forced.Digest || head("kit:0.1.0-phone") != part.Digest {
		t.Error("a build of one target took the name of the whole")
	}

	fresh := newKit(t)
	k.store = fresh.store
	laptop := fresh.must(func(o *assemble.Options) { sign(o); o.Target = "laptop" })
	if head("kit:0.1.0") != laptop.Digest {
		t.Error("the first target has no name")
	}
	phone := fresh.must(func(o *assemble.Options) { sign(o); o.Target = "phone" })
	if head("kit:0.1.0") != laptop.Digest || head("kit:0.1.0-phone") != phone.Digest {
		t.Error("the second target")
	}
	all := fresh.must(sign)
	if head("kit:0.1.0") != all.Digest {
		t.Error("the whole does not take over from its part")
	}
	locked, _ := laptop.Lock.Find("core-llm")
	module, err := fresh.store.Resolve(context.Background(), locked.Digest)
	if err == nil {
		err = fresh.store.Tag(context.Background(), module, "core-llm:3.1.0")
	}
	if err != nil {
		t.Fatal(err)
	}
	fresh.edit("kit.graph.yaml", "name: kit", "name: core-llm\nversion: 3.1.0")
	if _, err := fresh.assemble(nil); err == nil {
		t.Error("took the name of a module")
	}
	fresh.edit("kit.graph.yaml", "name: core-llm\nversion: 3.1.0", "name: other\nversion: 0.4.0")
	other := fresh.must(nil)
	if err := fresh.store.Tag(context.Background(), other.Descriptor, "kit:0.4.0"); err != nil {
		t.Fatal(err)
	}
	fresh.edit("kit.graph.yaml", "name: other", "name: kit")
	if _, err := fresh.assemble(nil); err == nil {
		t.Error("took the name of another build")
	}
}

// The output folder holds exactly the artifact's files, whatever it held earlier.
func TestPublish(t *testing.T) {
	k := newKit(t)
	out := k.path("dist")
	do := func() *assemble.Result { return k.must(func(o *assemble.Options) { o.Out = out }) }
	r := do()
	sum := func() {
		t.Helper()
		a, _ := k.artifact(r, "laptop")
		list, err := os.ReadFile(filepath.Join(out, "laptop", "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		var want strings.Builder
		for _, l := range a.Layers {
			data, err := os.ReadFile(filepath.Join(out, "laptop", l.Path))
			if err != nil || digest.FromBytes(data) != l.Descriptor.Digest {
				t.Errorf("%s: %v, %d bytes", l.Path, err, len(data))
			}
			fmt.Fprintf(&want, "%s  %s\n", l.Descriptor.Digest.Encoded(), l.Path)
		}
		if d := cmp.Diff(want.String(), string(list)); d != "" {
			t.Errorf("SHA256SUMS (-want +got):\n%s", d)
		}
		if entries, err := os.ReadDir(out); err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool {
			return strings.HasSuffix(e.Name(), ".new") || strings.HasSuffix(e.Name(), ".old")
		}) {
			t.Errorf("%v, %v", entries, err)
		}
	}
	sum()
	file := filepath.Join(out, "laptop", "enc", "enc.onnx")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other := slices.Clone(data)
	other[len(other)/2] ^= 1
	replace := func(path string) error {
		if err := os.Remove(path); err != nil {
			return err
		}
		return os.WriteFile(path, other, 0o444)
	}
	stamp := func() time.Time {
		info, err := os.Stat(filepath.Join(out, "laptop"))
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime()
	}
	at := stamp()
	do()
	if sum(); !stamp().Equal(at) {
		t.Error("a folder that is right was made anew")
	}
	for name, damage := range map[string]func() error{
		"another file of the same size": func() error { return replace(file) },
		"changed in place, blob and all": func() error {
			if err := os.Chmod(file, 0o644); err != nil {
				return err
			}
			return os.WriteFile(file, other, 0o644)
		},
		"file gone":    func() error { return os.Remove(file) },
		"list changed": func() error { return os.WriteFile(filepath.Join(out, "laptop", "SHA256SUMS"), nil, 0o644) },
		"folder gone":  func() error { return os.RemoveAll(filepath.Join(out, "laptop")) },
		"a file in its place": func() error {
			return replaceFolder(filepath.Join(out, "laptop"))
		},
		"left over": func() error { return os.MkdirAll(filepath.Join(out, ".laptop.new", "x"), 0o755) },
	} {
		if err := damage(); err != nil {
			t.Fatal(name, err)
		}
		if again := do(); again.Digest != r.Digest {
			t.Errorf("%s: another digest", name)
		}
		t.Run(name, func(*testing.T) { sum() })
	}
	layout, err := registry.Open(out, registry.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer layout.Close()
	for ref, want := range map[string]string{"kit:0.1.0": r.Digest, "kit:0.1.0-laptop": r.Targets[0].Digest, "kit:0.1.0-phone": r.Targets[1].Digest} {
		if desc, err := layout.Resolve(context.Background(), ref); err != nil || desc.Digest.String() != want {
			t.Errorf("%s is %s, %v", ref, desc.Digest, err)
		}
	}
}

func replaceFolder(path string) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return os.WriteFile(path, []byte("no folder"), 0o644)
}

// Untagged leaves the store's names alone.
func TestUntagged(t *testing.T) {
	k := newKit(t)
	k.must(func(o *assemble.Options) { o.Untagged = true })
	if tags, err := k.store.Tags(context.Background()); err != nil || len(tags) != 0 {
		t.Errorf("%v, %v", tags, err)
	}
	r := k.must(nil)
	var names []string
	tags, err := k.store.Tags(context.Background())
	for _, tag := range tags {
		names = append(names, tag.Ref)
	}
	if d := cmp.Diff([]string{"kit:0.1.0", "kit:0.1.0-laptop", "kit:0.1.0-phone"}, names); d != "" || err != nil || r.Ref != "kit:0.1.0" {
		t.Errorf("%s %v", d, err)
	}
}
