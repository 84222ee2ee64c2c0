package servers

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/onnx"
)

// Repository returns the files of a model repository: a folder for each ONNX function
// of the build and, for Triton, an ensemble for each encoder with its projector.
func Repository(b *builds.Build, kind Kind) ([]File, error) {
	var list diag.List
	var models []Model
	var files []File
	for _, p := range b.Assembly.Functions() {
		paths := p.Files["onnx"]
		if len(paths) == 0 {
			fault(&list, fmt.Sprintf("%s: got no ONNX file in this target, want one", p.Name), "export it as onnx: in the graph")
			continue
		}
		m, err := read(b.Files, p.Name, paths[0])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		models = append(models, m)
		files = append(files, copies(p.Name, paths)...)
	}
	if len(models) == 0 && !list.Failed() {
		fault(&list, b.Assembly.Name+": got no function, want an encoder, projector or decoder", "the core is served by mm serve, or by engines for GGUF")
	}
	if kind == Triton {
		models = append(models, ensembles(b.Assembly, models)...)
	}
	if check(&list, models); list.Failed() {
		return nil, list.Err()
	}
	switch kind {
	case Triton:
		for _, m := range models {
			files = append(files, File{Path: m.Name + "/config.pbtxt", Text: m.text()})
			if m.Steps != nil { // a version folder, which an ensemble has empty
				files = append(files, File{Path: m.Name + "/1/README.md", Text: []byte("This folder is the version of the ensemble, which has no file.\n")})
			}
		}
	case OVMS:
		files = append(files, File{Path: "config.json", Text: ovmsConfig(models)})
	}
	return sorted(append(files, File{Path: "README.md", Text: readme(kind, b.Assembly.Name, "")})), nil
}

// copies returns the files of a function: its model as 1/model.onnx, and files with
// external data in the same folder under their own names.
func copies(name string, paths []string) (files []File) {
	dir := path.Dir(paths[0])
	for i, p := range paths {
		to := strings.TrimPrefix(p, dir+"/")
		if i == 0 {
			to = "model.onnx"
		}
		files = append(files, File{Path: path.Join(name, "1", to), From: p})
	}
	return files
}

// read reads the inputs and outputs of an ONNX file.
func read(from builds.Files, name, file string) (Model, error) {
	p, err := from.Path(file)
	if err != nil {
		return Model{}, err
	}
	m, err := onnx.Open(p)
	if err != nil {
		return Model{}, err
	}
	defer m.Close()
	return Model{Name: name, Folder: name, Backend: "onnxruntime", Inputs: ports(m.Inputs()), Outputs: ports(m.Graph.Outputs)}, nil
}

// ports converts values. A type other than a tensor has no name in Triton: check refuses
// it.
func ports(values []onnx.Value) (out []Port) {
	for _, v := range values {
		p := Port{Name: strings.Clone(v.Name)}
		if v.Type.Kind == onnx.TensorKind {
			p.Type = types[v.Type.DType]
		}
		for _, d := range v.Type.Dims {
			n := d.Value
			if d.Param != "" || n < 0 {
				n = -1
			}
			p.Dims = append(p.Dims, n)
		}
		if v.Type.Ranked && len(v.Type.Dims) == 0 {
			p.Scalar = true
		}
		out = append(out, p)
	}
	return out
}

// types are Triton's names of element types.
var types = map[onnx.DType]string{
	onnx.FLOAT: "TYPE_FP32", onnx.FLOAT16: "TYPE_FP16", onnx.DOUBLE: "TYPE_FP64", onnx.BFLOAT16: "TYPE_BF16", onnx.BOOL: "TYPE_BOOL", onnx.STRING: "TYPE_STRING",
	onnx.INT8: "TYPE_INT8", onnx.INT16: "TYPE_INT16", onnx.INT32: "TYPE_INT32", onnx.INT64: "TYPE_INT64",
	onnx.UINT8: "TYPE_UINT8", onnx.UINT16: "TYPE_UINT16", onnx.UINT32: "TYPE_UINT32", onnx.UINT64: "TYPE_UINT64",
}

// ensembles returns a model for each encoder and its projector, named as the modality.
// A pair of more than one tensor has none: what joins it is in the build alone.
func ensembles(a *builds.Assembly, models []Model) (out []Model) {
	find := func(name string) *Model {
		if i := slices.IndexFunc(models, func(m Model) bool { return m.Name == name }); i >= 0 {
			return &models[i]
		}
		return nil
	}
	for _, mod := range a.Modalities {
		if !mod.Projects() {
			continue
		}
		enc, proj := find(mod.Encoder.Name), find(mod.Projector.Name)
		if enc == nil || proj == nil || find(string(mod.Modality)) != nil || len(enc.Outputs) != 1 || len(proj.Inputs) != 1 {
			continue
		}
		const between = "encoded"
		name := string(mod.Modality)
		out = append(out, Model{Name: name, Folder: name, Platform: "ensemble", Inputs: enc.Inputs, Outputs: proj.Outputs, Steps: []Step{
			{Model: enc.Name, Inputs: identity(enc.Inputs), Outputs: []Wire{{enc.Outputs[0].Name, between}}},
			{Model: proj.Name, Inputs: []Wire{{proj.Inputs[0].Name, between}}, Outputs: identity(proj.Outputs)},
		}})
	}
	return out
}

// identity wires each port to the tensor of the same name.
func identity(ports []Port) (out []Wire) {
	for _, p := range ports {
		out = append(out, Wire{p.Name, p.Name})
	}
	return out
}

// ovmsConfig returns the configuration of OpenVINO Model Server; /models is the folder
// in its container.
func ovmsConfig(models []Model) []byte {
	type config struct {
		Name string `json:"name"`
		Base string `json:"base_path"`
	}
	type entry struct {
		Config config `json:"config"`
	}
	doc := struct {
		Models []entry `json:"model_config_list"`
	}{[]entry{}}
	for _, m := range models {
		doc.Models = append(doc.Models, entry{config{m.Name, "/models/" + m.Folder}})
	}
	data, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		panic(err) // strings only
	}
	return append(data, '\n')
}
