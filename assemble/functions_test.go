package assemble_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/modules/seed"
)

// A graph without a core is composed of its functions: all of them as ONNX
// where it exports nothing, with a config that lists them and no text.
func TestWithoutCore(t *testing.T) {
	for name, tc := range map[string]struct {
		graph   string
		files   []string
		in, out []string
		refused string
	}{
		"an encoder": {
			"modalities: [{enc: {ref: enc@^1}}]\n",
			[]string{"enc/enc.data", "enc/enc.onnx"}, []string{"image"}, []string{"embedding"}, "",
		},
		"with a projector and a decoder": {
			"modalities: [{enc: {ref: enc@^1}, proj: {ref: proj@^1}}]\ndecoders: [{ref: dec@^1}]\n",
			[]string{"dec/dec.onnx", "enc/enc.data", "enc/enc.onnx", "proj/proj.onnx"}, []string{"embedding", "image"}, []string{"embedding", "image"}, "",
		},
		"a target of the decoder": {
			"modalities: [{enc: {ref: enc@^1}}]\ndecoders: [{ref: dec@^1}]\nexports: {laptop: {onnx: [dec]}}\n",
			[]string{"dec/dec.onnx"}, []string{"embedding"}, []string{"image"}, "",
		},
		"an encoder that reads": {
			"modalities: [{enc: {ref: reader@^1}}]\n",
			[]string{"reader/enc.onnx"}, []string{"image"}, []string{"other"}, "",
		},
		"golden prompts":    {"modalities: [{enc: {ref: enc@^1}}]\ngolden: [{prompt: a, expect: b}]\n", nil, nil, nil, "golden prompts are continued by a core"},
		"a draft":           {"decoders: [{ref: dec@^1}]\ncore: {draft: {ref: draft@^1}}\n", nil, nil, nil, `"llm" in core`},
		"a projector alone": {"modalities: [{proj: {ref: proj@^1}}]\n", nil, nil, nil, `"enc" in modalities[0]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			k.write("kit.graph.yaml", "name: kit\n"+tc.graph)
			k.reader()
			r, err := assemble.Assemble(t.Context(), k.opt)
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) {
					t.Fatalf("%v, want %q", err, tc.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			a, build := k.artifact(r, "laptop")
			var weights []string
			for _, l := range a.Layers {
				if l.Annotations[abi.AnnotationFormat] == "onnx" {
					weights = append(weights, l.Path)
				}
			}
			if d := cmp.Diff(tc.files, weights); d != "" {
				t.Errorf("files (-want +got):\n%s", d)
			}
			c := a.Config.Config
			if d := cmp.Diff([][]string{tc.in, tc.out}, [][]string{c.Capabilities.InputTypes, c.Capabilities.OutputTypes}); d != "" || c.Format != "onnx" || *c.Capabilities.ToolUsage {
				t.Errorf("config %+v (-want +got):\n%s", c, d)
			}
			if build.HasCore() || build.KV != "" || build.Tokens.VocabSize != 0 {
				t.Errorf("%+v", build)
			}
		})
	}
}

// A graph with a core that exports nothing ships the core's weights as they are,
// and all that it sees, hears, draws and speaks with: the build can what its
// graph declares. An export by name exports only that module.
func TestCoreExportsNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		exports, quant string
		formats        []string
		in, out        []string
	}{
		"nothing":          {"", "", []string{"core-llm/core-llm.gguf gguf", "draft/draft.gguf gguf", "enc/enc.data onnx", "enc/enc.onnx onnx", "proj/proj.onnx onnx", "dec/dec.onnx onnx"}, []string{"image", "text"}, []string{"image", "text"}},
		"the core by name": {"exports: {laptop: {gguf: {quant: fp16}}}\n", "fp16", []string{"core-llm/core-llm.gguf gguf", "draft/draft.gguf gguf"}, []string{"text"}, []string{"text"}},
	} {
		k := newKit(t)
		k.write("kit.graph.yaml", "name: kit\ncore: {llm: {ref: core-llm@^3}, draft: {ref: draft@^1, tokens: 3}}\nmodalities: [{enc: {ref: enc@^1}, proj: {ref: proj@^1}}]\ndecoders: [{ref: dec@^1}]\n"+tc.exports)
		a, build := k.artifact(k.must(nil), "laptop")
		var shipped []string
		for _, l := range a.Layers {
			if format := l.Annotations[abi.AnnotationFormat]; format == "gguf" || format == "onnx" {
				shipped = append(shipped, l.Path+" "+format)
			}
		}
		if d := cmp.Diff(tc.formats, shipped, cmpopts.SortSlices(strings.Compare)); d != "" {
			t.Errorf("%s: files (-want +got):\n%s", name, d)
		}
		c := a.Config.Config.Capabilities
		if d := cmp.Diff([][]string{tc.in, tc.out}, [][]string{c.InputTypes, c.OutputTypes}); d != "" {
			t.Errorf("%s: takes and gives (-want +got):\n%s", name, d)
		}
		if build.Core.Quant != tc.quant {
			t.Errorf("%s: the core is %s", name, build.Core.Quant)
		}
	}
}

// The engines that a graph asks for are in the signed assembly and on the
// layers of the manifest, where a registry shows them.
func TestBackendsAreCarried(t *testing.T) {
	k := newKit(t)
	k.edit("kit.graph.yaml", "llm: {ref: core-llm@^3", "llm: {ref: core-llm@^3, backend: llamacpp")
	k.edit("kit.graph.yaml", "enc: {ref: enc@^1}", "enc: {ref: enc@^1, backend: onnxruntime}")
	k.edit("kit.graph.yaml", "[{ref: dec@^1}]", "[{ref: dec@^1, backend: onnx}]")
	a, build := k.artifact(k.must(nil), "laptop")
	got, layers := map[string]string{}, map[string]string{}
	for _, p := range build.Parts() {
		got[p.Name] = p.Backend
	}
	for _, l := range a.Layers {
		layers[l.Path] = l.Annotations[abi.AnnotationBackend]
	}
	want := map[string]string{"core-llm": "llamacpp", "enc": "onnxruntime", "dec": "onnx", "proj": "", "draft": "", "tuned": "", "tool": "", "router": "", "box": ""}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("parts (-want +got):\n%s", d)
	}
	if layers["core-llm/core-llm.gguf"] != "llamacpp" || layers["enc/enc.data"] != "onnxruntime" || layers["proj/proj.onnx"] != "" || layers["core-llm/module.yaml"] != "" {
		t.Errorf("layers %v", layers)
	}
	if len(build.Decoders[0].Params) != 0 {
		t.Errorf("the decoder's parameters are %v", build.Decoders[0].Params)
	}
	if !a.Layers[0].CoreModel() {
		t.Errorf("first is %s", a.Layers[0].Path)
	}
}

// reader adds an encoder whose output is read as classes.
func (k *kit) reader() {
	k.t.Helper()
	if err := seed.Write(k.path("modules", "reader"), seed.Options{Type: abi.Encoder, Name: "enc", Version: "1.0.0", DEnc: 8}); err != nil {
		k.t.Fatal(err)
	}
	k.edit("modules/reader/module.yaml", "name: enc", "name: reader")
	k.edit("modules/reader/module.yaml", "abi: mm-abi-1.0", "abi: mm-abi-1.1\npostprocess: {patch_tokens: {labels: {top: 2}}}")
}
