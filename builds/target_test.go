package builds_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
)

const targets = `core: {llm: {ref: a@^2}}
exports:
  laptop:
    platform: linux/amd64
    onnx: [a, b]
    gguf: {quant: Q6_K, kv: fp8}
  phone:
    coreml: {core: int4}
    qnn:
      quant: w8a8
      modules: [b]
      options: {soc: SM8750}
    a-new.format: [b]
`

// A target is a list of exports, whatever the format is called and in both of
// the forms it may be written in.
func TestTargetForms(t *testing.T) {
	g, list := builds.Parse("b.graph.yaml", []byte(targets))
	if g == nil || len(list) > 0 {
		t.Fatal(list)
	}
	want := map[string]builds.Target{
		"laptop": {Platform: "linux/amd64", Exports: []builds.Export{
			{Format: "gguf", Precision: "Q6_K", KV: "fp8", Ptr: "/exports/laptop/gguf"},
			{Format: "onnx", Modules: []string{"a", "b"}, Ptr: "/exports/laptop/onnx"},
		}},
		"phone": {Exports: []builds.Export{
			{Format: "a-new.format", Modules: []string{"b"}, Ptr: "/exports/phone/a-new.format"},
			{Format: "coreml", Precision: "int4", Ptr: "/exports/phone/coreml"},
			{Format: "qnn", Precision: "w8a8", Modules: []string{"b"}, Options: json.RawMessage(`{"soc":"SM8750"}`), Ptr: "/exports/phone/qnn"},
		}},
	}
	if d := cmp.Diff(want, g.Exports, cmpopts.IgnoreUnexported(builds.Export{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	lines := map[string]int{}
	for _, target := range g.Targets() {
		for _, e := range g.Exports[target].Exports {
			lines[target+" "+string(e.Format)+" quant"] = g.Pos(e.PrecisionPtr()).Line*100 + g.Pos(e.PrecisionPtr()).Col
			lines[target+" "+string(e.Format)+" modules"] = g.Pos(e.ModulePtr(0)).Line*100 + g.Pos(e.ModulePtr(0)).Col
		}
	}
	for what, at := range map[string]int{"laptop gguf quant": 619, "laptop onnx modules": 512, "phone coreml quant": 820, "phone qnn quant": 1014, "phone qnn modules": 1117} {
		if lines[what] != at {
			t.Errorf("%s is at %d, want %d", what, lines[what], at)
		}
	}
	if e, ok := g.Exports["laptop"].Export(abi.GGUF); !ok || !e.Takes("x", abi.Core) || !e.Takes("y", abi.DraftCore) || e.Takes("a", abi.Encoder) {
		t.Errorf("an export without modules is for the core and its draft: %+v, %v", e, ok)
	}
	if e, ok := g.Exports["laptop"].Export(abi.ONNX); !ok || !e.Takes("a", abi.Encoder) || e.Takes("x", abi.Core) {
		t.Errorf("a list of modules is for those: %+v, %v", e, ok)
	}
}

func TestTargetFaults(t *testing.T) {
	for in, want := range map[string]diag.Code{
		"gguf: [a]":                                  diag.WrongType,
		"gguf: {kv: fp8}":                            diag.MissingKey,
		"onnx: {quants: int8}":                       diag.UnknownKey,
		"onnx: [a, a]":                               diag.RepeatedItem,
		"On/nx: [a]":                                 diag.WrongForm,
		"onnx: {options: 5}":                         diag.WrongType,
		"coreml: {core: int4, quant: int8}":          diag.RepeatedItem,
		"platform: linux":                            diag.WrongForm,
		"new: [nobody]":                              diag.ExportUnknown,
		"gguf: {quant: int8, kv: int3}":              diag.KVUnknown,
		"gguf: {quant: int8, method: hqq}":           diag.NotAllowed,
		"gguf: {quant: int8, imatrix: ../x}":         diag.BadPath,
		"gguf: {quant: int8, imatrix: none.dat}":     diag.FileMissing,
		"gguf: {quant: int8, calibration: none.txt}": diag.FileMissing,
		"gguf: {quant: int8, calibration: testdata}": diag.Unreadable,
		"onnx: {method: gptq}":                       diag.UnknownKey,
	} {
		g, list := builds.Parse("b.graph.yaml", []byte("core: {llm: {ref: a@^2}}\nexports:\n  t:\n    "+in+"\n"))
		if g != nil {
			list = append(list, g.Check(builds.Resolved{})...)
		}
		found := false
		for _, d := range list {
			found = found || d.Code == want && d.Pos.Line == 4
		}
		if !found {
			t.Errorf("%s: %v, want %s on line 4", in, list, want)
		}
	}
}

// The old form is parsed: one path a format, and a list of files.
func TestParseAssemblyOfOldForm(t *testing.T) {
	old := `{"name":"b","version":"1.0.0","abi":"mm-abi-1.0","target":"t","tokens":{},
		"core":{"name":"c","version":"1.0.0","type":"core","digest":"d","manifest":"c/module.yaml","files":{"gguf":"c/c.gguf"},"quant":"int4"},
		"files":[{"path":"c/c.gguf","digest":"d","size":1,"media_type":"m","role":"core"}]}`
	a, err := builds.ParseAssembly([]byte(old))
	if err != nil {
		t.Fatal(err)
	}
	if a.Core.Files.Entry(abi.GGUF) != "c/c.gguf" || a.Core.Files.Entry(abi.ONNX) != "" || a.Core.Quant != "int4" {
		t.Errorf("%+v", a.Core)
	}
	text, err := a.Encode()
	if err != nil || !strings.Contains(string(text), `"gguf": [`) || strings.Contains(string(text), "media_type") {
		t.Errorf("%v\n%s", err, text)
	}
	for _, bad := range []string{
		`{"core":{"name":"c","files":{"gguf":"../c"}}}`,
		`{"core":{"name":"c","files":{"gguf":["c","/etc/x"]}}}`,
		`{"core":{"name":"c","manifest":"../module.yaml"}}`,
		`{"core":{"name":"c","files":{"gguf":[]}}}`,
		`{"core":{"name":"c","files":{"gguf":5}}}`,
		`{"core":{"name":"c"},"fils":[]}`,
		`{"core":{}}`,
		`{"core":{"name":"c"},"tokens":{"max_seq":-1}}`,
	} {
		if _, err := builds.ParseAssembly([]byte(bad)); err == nil {
			t.Errorf("%s accepted", bad)
		}
	}
}

// A core is exported from its GGUF file in every format but onnx and safetensors, a
// function from its ONNX file.
func TestSourceOf(t *testing.T) {
	core, encoder := &modules.Manifest{Type: abi.Core}, &modules.Manifest{Type: abi.Encoder}
	for _, c := range []struct {
		format abi.Format
		module *modules.Manifest
		want   abi.Format
	}{
		{abi.OpenVINO, core, abi.GGUF}, {abi.CoreML, core, abi.GGUF}, {abi.ExecuTorch, core, abi.GGUF}, {abi.QNN, core, abi.GGUF},
		{abi.ONNX, core, abi.ONNX}, {abi.Safetensors, core, abi.Safetensors}, {abi.GGUF, core, ""},
		{abi.OpenVINO, encoder, abi.ONNX}, {abi.QNN, encoder, abi.ONNX},
	} {
		if got := builds.SourceOf(c.format, c.module); got != c.want {
			t.Errorf("%s of a %s: got %q, want %q", c.format, c.module.Type, got, c.want)
		}
	}
}
