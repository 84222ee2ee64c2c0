package builds_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
)

// An engine in the graph is not a parameter of a decoder, and every part has
// its own.
func TestBackends(t *testing.T) {
	g, list := builds.Parse("g.graph.yaml", []byte(`core:
  llm: {ref: core-llm@1.0.0, backend: llamacpp}
modalities:
  - enc: {ref: enc@1.0.0, backend: onnx}
    proj: {ref: proj@1.0.0, backend: onnxruntime}
decoders: [{ref: dec@1.0.0, backend: onnx, size: 3}]
`))
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]any{"size": 3.0}, g.Decoders[0].Params); d != "" {
		t.Errorf("the decoder's parameters (-want +got):\n%s", d)
	}
	got := map[string]string{}
	for _, n := range g.Nodes() {
		got[n.Ref.Name] = n.Backend
	}
	if d := cmp.Diff(map[string]string{"core-llm": "llamacpp", "enc": "onnx", "proj": "onnxruntime", "dec": "onnx"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// An assembly has a core or functions, and keeps the graph's values. An
// assembly from before backends existed still parses.
func TestAssemblyWithoutCore(t *testing.T) {
	part := func(name string, typ abi.ModuleType) builds.Part {
		return builds.Part{Name: name, Version: "1.0.0", Type: typ, Backend: "onnx", Files: builds.Formats{"onnx": {name + "/m.onnx"}}}
	}
	a := &builds.Assembly{Name: "g", Version: "0.1.0", ABI: abi.V1_1, Target: "laptop", Modalities: []builds.ModalityPart{{Modality: abi.Audio, Encoder: part("vad", abi.Encoder)}}}
	data, err := a.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"core", "projector", "tokens", "t_cap"} {
		if strings.Contains(string(data), `"`+key+`"`) {
			t.Errorf("%s is written: %s", key, data)
		}
	}
	back, err := builds.ParseAssembly(data)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(a, back); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if back.HasCore() || len(back.Parts()) != 1 || back.Parts()[0].Backend != "onnx" {
		t.Errorf("parts %+v", back.Parts())
	}
	const enc = `{"name": "e", "version": "1.0.0", "type": "encoder", "digest": "", "manifest": ""}`
	const core = `"core": {"name": "c", "version": "1.0.0", "type": "core", "digest": "", "manifest": ""}`
	for name, c := range map[string]struct{ text, want string }{
		"as it was":             {`{` + core + `, "tokens": {}, "modalities": [{"modality": "image", "encoder": ` + enc + `, "projector": ` + enc + `, "t_cap": 4}]}`, ""},
		"nothing":               {`{"name": "g"}`, "no core"},
		"a draft alone":         {`{"draft": ` + enc + `, "decoders": [` + enc + `]}`, "no core"},
		"skills alone":          {`{"skills": [{"name": "s"}], "decoders": [` + enc + `]}`, "no core"},
		"a decoder":             {`{"decoders": [` + enc + `]}`, ""},
		"a projector alone":     {`{"modalities": [{"modality": "image", "projector": ` + enc + `}]}`, "no encoder"},
		"a core, no projector":  {`{` + core + `, "modalities": [{"modality": "image", "encoder": ` + enc + `}]}`, ""},
		"a path that leads out": {`{"modalities": [{"modality": "image", "encoder": {"name": "e", "files": {"onnx": "../m"}}}]}`, "not a path inside"},
	} {
		_, err := builds.ParseAssembly([]byte(c.text))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A build without a core has no row in the compatibility table.
func TestCompatWithoutCore(t *testing.T) {
	l := &builds.Lock{Modules: []builds.Locked{{Name: "vad", Version: "1.0.0", Type: abi.Encoder}}}
	if rows := l.CompatRows("g", "fits"); rows != nil {
		t.Errorf("%+v", rows)
	}
	l.Modules = append(l.Modules, builds.Locked{Name: "core-llm", Version: "1.0.0", Type: abi.Core})
	if rows := l.CompatRows("g", "fits"); len(rows) != 2 || rows[0].Core != "core-llm" {
		t.Errorf("%+v", rows)
	}
}

// The functions of a build are its encoders, projectors and decoders with files, each
// module once; one of them is a build without a core.
func TestFunctions(t *testing.T) {
	part := func(name string, typ abi.ModuleType, files ...string) builds.Part {
		p := builds.Part{Name: name, Version: "1.0.0", Type: typ, Modality: abi.Image}
		if len(files) > 0 {
			p.Files = builds.Formats{"onnx": files}
		}
		return p
	}
	eye := part("eye", abi.Encoder, "eye/e.onnx")
	a := &builds.Assembly{
		Name: "g", Version: "0.1.0", ABI: abi.V1_1, Target: "laptop", Core: part("heart", abi.Core, "heart/h.gguf"),
		Modalities: []builds.ModalityPart{{Modality: abi.Image, Encoder: eye}, {Modality: abi.Image, Encoder: eye, Projector: part("lens", abi.Projector, "lens/l.onnx")}, {Modality: abi.Audio, Encoder: part("ear", abi.Encoder)}},
		Decoders:   []builds.DecoderPart{{Part: part("pen", abi.Decoder, "pen/p.onnx"), Params: map[string]any{"size": 3}}},
	}
	var names []string
	for _, p := range a.Functions() {
		names = append(names, p.Name)
	}
	if d := cmp.Diff([]string{"eye", "lens", "pen"}, names); d != "" {
		t.Errorf("functions (-want +got):\n%s", d)
	}
	for _, name := range names {
		one := a.Only(name)
		if one == nil || one.HasCore() || len(one.Parts()) != 1 || one.Parts()[0].Name != name || one.Target != "laptop" {
			t.Errorf("%s alone: %+v", name, one)
		}
	}
	if pen := a.Only("pen"); len(pen.Decoders) != 1 || pen.Decoders[0].Params["size"] != 3 {
		t.Errorf("the decoder loses its parameters: %+v", pen.Decoders)
	}
	for _, name := range []string{"heart", "ear", "none", ""} {
		if one := a.Only(name); one != nil {
			t.Errorf("%q is not a function: %+v", name, one)
		}
	}
}
