package export

import (
	"fmt"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/onnx"
	"mm-abi.org/mm/diag"
	"mm-abi.org/mm/resolve"
)

// elements are ONNX's names of the element types of ports.
var elements = map[abi.DType]onnx.DType{
	abi.FP32: onnx.FLOAT, abi.FP16: onnx.FLOAT16, abi.BF16: onnx.BFLOAT16, abi.Int64: onnx.INT64, abi.Int32: onnx.INT32,
	abi.Int16: onnx.INT16, abi.Int8: onnx.INT8, abi.UInt8: onnx.UINT8, abi.Int4: onnx.INT4, abi.Bool: onnx.BOOL, abi.FP8: onnx.FLOAT8E4M3FN,
}

// inspectONNX checks the file by ONNX's own rules and its inputs and outputs
// against the manifest's ports.
func inspectONNX(path string, m *resolve.Module, list *diag.List) {
	pos := m.Manifest.Pos("/export/onnx")
	model, err := onnx.Open(path)
	if err != nil {
		list.Add(diag.GraphInvalid, pos, m.Manifest.ID()+": "+err.Error(), "export it again")
		return
	}
	defer model.Close()
	external := func(location string) (int64, bool) {
		l, ok := m.Layer(location)
		return l.Descriptor.Size, ok
	}
	for _, p := range model.Check(onnx.CheckOptions{External: external}) {
		if p.Warning {
			list.Warn(diag.GraphInvalid, pos, m.Manifest.ID()+": "+p.String(), "")
		} else {
			list.Add(diag.GraphInvalid, pos, m.Manifest.ID()+": "+p.String(), "export it again")
		}
	}
	var b abi.Binding
	m.Manifest.Bind(&b)
	c := ports{m: m, binding: &b, list: list}
	// With a preprocess block the file takes what that block makes of the
	// manifest's raw input.
	if m.Manifest.Preprocess == nil {
		c.compare("inputs", m.Manifest.Inputs, model.Inputs())
	}
	c.compare("outputs", m.Manifest.Outputs, model.Graph.Outputs)
}

// ports compares a manifest's ports with a graph's values.
type ports struct {
	m       *resolve.Module
	binding *abi.Binding
	list    *diag.List
}

func (c ports) compare(side string, want []abi.Port, have []onnx.Value) {
	for i, p := range want {
		v, ok := find(have, p.Name)
		if !ok {
			c.fault(side, i, fmt.Sprintf("%s %q is not in the file, which has %s", strings.TrimSuffix(side, "s"), p.Name, names(have)))
			continue
		}
		if v.Type.Kind != onnx.TensorKind {
			c.fault(side, i, fmt.Sprintf("%q is no tensor in the file", p.Name))
			continue
		}
		if want := elements[p.DType]; v.Type.DType != want {
			c.fault(side, i, fmt.Sprintf("%q is %s in the file, %s in the manifest", p.Name, v.Type.DType, p.DType))
		}
		c.shape(side, i, p, v)
	}
	for _, v := range have {
		if len(want) > 0 && !declared(want, v.Name) {
			c.fault(side, -1, fmt.Sprintf("the file's %s %q is not in the manifest", strings.TrimSuffix(side, "s"), v.Name))
		}
	}
}

// shape compares dimensions. The file may have a leading batch dimension, of
// size 1 or with a name, that manifests leave out.
func (c ports) shape(side string, i int, p abi.Port, v onnx.Value) {
	if !v.Type.Ranked {
		return // the smoke test will see
	}
	dims := v.Type.Dims
	if len(dims) == len(p.Shape)+1 && (dims[0].Value == 1 || dims[0].Value == onnx.Unknown) {
		dims = dims[1:]
	}
	if len(dims) != len(p.Shape) {
		c.fault(side, i, fmt.Sprintf("%q has %d dimensions in the file, %s in the manifest", p.Name, len(v.Type.Dims), p.Shape))
		return
	}
	for k, d := range dims {
		if d.Value == onnx.Unknown {
			continue // names in files mean nothing across modules
		}
		size, by := p.Shape[k].Size, "the manifest"
		if name := p.Shape[k].Name; name != "" {
			n, who, ok := c.binding.Size(c.m.Manifest.ID(), name)
			if !ok {
				continue
			}
			size, by = n, who
		}
		if d.Value != size {
			c.fault(side, i, fmt.Sprintf("%s of %q is %d in the file, %d in %s", p.Shape[k], p.Name, d.Value, size, by))
		}
	}
}

func (c ports) fault(side string, i int, detail string) {
	ptr := "/" + side
	if i >= 0 {
		ptr = fmt.Sprintf("/%s/%d", side, i)
	}
	c.list.Add(diag.WeightsFault, c.m.Manifest.Pos(ptr), c.m.Manifest.ID()+": "+detail, "correct the manifest, or export the file again")
}

func find(values []onnx.Value, name string) (onnx.Value, bool) {
	for _, v := range values {
		if v.Name == name {
			return v, true
		}
	}
	return onnx.Value{}, false
}

func declared(ports []abi.Port, name string) bool {
	for _, p := range ports {
		if p.Name == name {
			return true
		}
	}
	return false
}

func names(values []onnx.Value) string {
	var out []string
	for _, v := range values {
		out = append(out, v.Name)
	}
	return strings.Join(out, ", ")
}
