package servers

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/internal/diag"
)

// pair returns an encoder, a projector and their ensemble.
func pair() []Model {
	in, mid, out := Port{Name: "pcm", Type: "TYPE_FP32", Dims: []int64{-1, 300}}, Port{Name: "y", Type: "TYPE_FP32", Dims: []int64{-1, 16}}, Port{Name: "tokens", Type: "TYPE_FP32", Dims: []int64{1, 8}}
	return []Model{
		{Name: "enc", Folder: "enc", Backend: "onnxruntime", Inputs: []Port{in}, Outputs: []Port{mid}},
		{Name: "proj", Folder: "proj", Backend: "onnxruntime", Inputs: []Port{mid}, Outputs: []Port{out}},
		{Name: "audio", Folder: "audio", Platform: "ensemble", Inputs: []Port{in}, Outputs: []Port{out}, Steps: []Step{
			{Model: "enc", Inputs: []Wire{{"pcm", "pcm"}}, Outputs: []Wire{{"y", "between"}}},
			{Model: "proj", Inputs: []Wire{{"y", "between"}}, Outputs: []Wire{{"tokens", "tokens"}}},
		}},
	}
}

// Every fault that Triton refuses is refused before a file is written.
func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m []Model) []Model
		want   string // empty: accepted
	}{
		"good":       {func(m []Model) []Model { return m }, ""},
		"folder":     {func(m []Model) []Model { m[0].Folder = "other"; return m }, "want the name of the model"},
		"name":       {func(m []Model) []Model { m[0].Name, m[0].Folder = "../x", "../x"; return m }, "want the name of the model"},
		"twice":      {func(m []Model) []Model { return append(m, m[0]) }, "two models of one name"},
		"no outputs": {func(m []Model) []Model { m[1].Outputs = nil; return m }, "0 outputs"},
		"no inputs":  {func(m []Model) []Model { m[0].Inputs = nil; return m }, "0 inputs"},
		"dims":       {func(m []Model) []Model { m[1].Outputs[0].Dims = nil; return m }, "unknown number of dimensions"},
		"scalar":     {func(m []Model) []Model { m[1].Outputs[0].Dims, m[1].Outputs[0].Scalar = nil, true; return m }, "is a scalar"},
		"zero":       {func(m []Model) []Model { m[0].Inputs[0].Dims[1] = 0; return m }, "want positive ones"},
		"negative":   {func(m []Model) []Model { m[0].Inputs[0].Dims[1] = -2; return m }, "want positive ones"},
		"type":       {func(m []Model) []Model { m[0].Inputs[0].Type = ""; return m }, "element type"},
		"port":       {func(m []Model) []Model { m[0].Inputs[0].Name = ""; return m }, "port name"},
		"port twice": {func(m []Model) []Model { m[0].Outputs[0].Name = "pcm"; return m }, "port name"},
		"backend":    {func(m []Model) []Model { m[0].Backend = "onnx"; return m }, "want backend onnxruntime"},
		"no backend": {func(m []Model) []Model { m[0].Backend = ""; return m }, "want backend onnxruntime"},
		"both":       {func(m []Model) []Model { m[2].Backend = "onnxruntime"; return m }, "want backend onnxruntime"},
		"platform":   {func(m []Model) []Model { m[2].Platform = "onnxruntime_onnx"; return m }, "want backend onnxruntime"},
		"no steps":   {func(m []Model) []Model { m[2].Steps = nil; return m }, "want backend onnxruntime"},
		"step":       {func(m []Model) []Model { m[2].Steps[0].Model = "none"; return m }, `names the model "none"`},
		"ensemble type": {func(m []Model) []Model {
			m[1].Inputs = []Port{{Name: "y", Type: "TYPE_FP16", Dims: []int64{-1, 16}}}
			return m
		}, "TYPE_FP16, got TYPE_FP32"},
		"ensemble shape": {func(m []Model) []Model {
			m[1].Inputs = []Port{{Name: "y", Type: "TYPE_FP32", Dims: []int64{-1, 17}}}
			return m
		}, "[-1 17], got [-1 16]"},
		"ensemble rank": {func(m []Model) []Model {
			m[1].Inputs = []Port{{Name: "y", Type: "TYPE_FP32", Dims: []int64{16}}}
			return m
		}, "[16], got [-1 16]"},
		"ensemble output": {func(m []Model) []Model {
			m[2].Outputs = []Port{{Name: "tokens", Type: "TYPE_INT8", Dims: []int64{1, 8}}}
			return m
		}, "TYPE_INT8, got TYPE_FP32"},
		"unwritten":        {func(m []Model) []Model { m[2].Steps[1].Inputs[0].Tensor = "none"; return m }, `writes "none"`},
		"order":            {func(m []Model) []Model { s := m[2].Steps; s[0], s[1] = s[1], s[0]; return m }, `writes "between"`},
		"unknown port":     {func(m []Model) []Model { m[2].Steps[1].Inputs[0].Port = "none"; return m }, `no port "none"`},
		"unknown output":   {func(m []Model) []Model { m[2].Steps[0].Outputs[0].Port = "none"; return m }, `no output "none"`},
		"unwired":          {func(m []Model) []Model { m[2].Steps[1].Inputs = nil; return m }, "wires 0 inputs, want 1"},
		"missing, written": {func(m []Model) []Model { m[2].Steps = m[2].Steps[:1]; return m }, `writes "tokens"`},
	} {
		t.Run(name, func(t *testing.T) {
			var list diag.List
			check(&list, c.change(pair()))
			err := list.Err()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestText(t *testing.T) {
	m := pair()[2]
	m.Inputs[0].Name = "a\"\\é"
	want := `name: "audio"
platform: "ensemble"
max_batch_size: 0
input {
  name: "a\"\\\303\251"
  data_type: TYPE_FP32
  dims: [-1, 300]
}
output {
  name: "tokens"
  data_type: TYPE_FP32
  dims: [1, 8]
}
ensemble_scheduling {
  step {
    model_name: "enc"
    model_version: -1
    input_map {
      key: "pcm"
      value: "pcm"
    }
    output_map {
      key: "y"
      value: "between"
    }
  }
  step {
    model_name: "proj"
    model_version: -1
    input_map {
      key: "y"
      value: "between"
    }
    output_map {
      key: "tokens"
      value: "tokens"
    }
  }
}
`
	if d := cmp.Diff(want, string(m.text())); d != "" {
		t.Error(d)
	}
}
