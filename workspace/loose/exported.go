package loose

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"mm-abi.org/mm/assemble/export/coreml"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/onnx/ovir"
)

// Exported holds the properties of a file for another runtime.
type Exported struct {
	Version   string     `json:"version"` // of the format
	Inputs    []Port     `json:"inputs"`
	Outputs   []Port     `json:"outputs"`
	Operators []Operator `json:"operators"`
}

// notRun is the reason that mm's engine does not run an exported file.
const notRun = "a file for another runtime"

// unread reports a file that cannot be read as a diagnostic. The error of a missing
// file stays as it is.
func unread(path string, err error) error {
	if pe := (*os.PathError)(nil); errors.As(err, &pe) && pe.Path == path {
		return err
	}
	var list diag.List
	list.Add(diag.WeightsFault, diag.Pos{File: path}, err.Error(), "fetch or export the file again")
	return list.Err()
}

func (v *View) tflite(path string) (err error) {
	f, err := fsx.OpenRegular(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	m, err := htp.ReadLiteRT(f, v.Bytes)
	if err != nil {
		return unread(path, err)
	}
	v.exported("schema 3", m.Weights, m.Parameters)
	count := map[string]int{}
	for i, g := range m.Subgraphs {
		for _, o := range g.Left {
			count[o.Name] += o.Count
		}
		if i == 0 {
			v.Exported.Inputs, v.Exported.Outputs = tensors(g.Inputs), tensors(g.Outputs)
		}
	}
	if n := len(m.Dispatches); n > 0 {
		count["DISPATCH_OP"] = n
	}
	v.Exported.Operators = counted(count)
	if m.MinRuntime != "" {
		v.Metadata = append(v.Metadata, Entry{"min_runtime_version", m.MinRuntime})
	}
	return nil
}

func (v *View) executorch(path string) (err error) {
	f, err := fsx.OpenRegular(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	p, err := htp.ReadExecuTorch(f, v.Bytes)
	if err != nil {
		return unread(path, err)
	}
	v.exported("methods "+strings.Join(p.Names(), ", "), p.Weights, p.Parameters)
	if len(p.Methods) > 0 {
		v.Exported.Inputs, v.Exported.Outputs = tensors(p.Methods[0].Inputs), tensors(p.Methods[0].Outputs)
	}
	v.Exported.Operators = counted(p.Calls())
	for _, name := range slices.Compact(slices.Sorted(slices.Values(p.Delegates))) {
		v.Metadata = append(v.Metadata, Entry{"delegate", name})
	}
	return nil
}

// exported sets what all files for other runtimes have.
func (v *View) exported(version string, weights map[string]int64, parameters int64) {
	v.Parameters, v.Weights, v.Refusals = parameters, weights, []string{notRun}
	if v.Weights == nil {
		v.Weights = map[string]int64{}
	}
	for _, name := range slices.Sorted(maps.Keys(v.Weights)) {
		if v.Quant == "" || v.Weights[name] > v.Weights[v.Quant] {
			v.Quant = name
		}
	}
	v.Exported = &Exported{Version: version, Inputs: []Port{}, Outputs: []Port{}, Operators: []Operator{}}
}

func tensors(list []htp.LiteRTTensor) []Port {
	out := []Port{}
	for _, t := range list {
		shape := make([]int, len(t.Dims))
		for i, d := range t.Dims {
			shape[i] = int(d)
		}
		out = append(out, port(t.Name, t.DType, shape))
	}
	return out
}

// port describes a tensor; a dimension of -1 is open.
func port(name, dtype string, shape []int) Port {
	p := Port{Name: name, Kind: "tensor", DType: dtype, Shape: []string{}, Ranked: true}
	for _, d := range shape {
		text := fmt.Sprint(d)
		if d < 0 {
			text = "?"
		}
		p.Shape = append(p.Shape, text)
	}
	return p
}

// counted sorts operators by their counts.
func counted(count map[string]int) []Operator {
	out := []Operator{}
	for _, name := range slices.Sorted(maps.Keys(count)) {
		out = append(out, Operator{Name: name, Count: count[name]})
	}
	slices.SortStableFunc(out, func(a, b Operator) int { return b.Count - a.Count })
	return out
}

func (v *View) coreml(path string) error {
	p, err := coreml.Open(path)
	if err != nil {
		return unread(path, err)
	}
	v.Bytes = p.Size
	version := fmt.Sprintf("specification %d", p.Specification)
	if p.Program {
		version += ", ML program, opset " + p.Opset
		if n := len(p.States); n > 0 {
			version += fmt.Sprintf(", functions %s with %d states", strings.Join(p.Functions, " and "), n)
		}
	}
	v.exported(version, p.Weights, p.Count)
	v.Exported.Operators = counted(p.Operations)
	v.Exported.Inputs, v.Exported.Outputs = values(p.Inputs), values(p.Outputs)
	for _, e := range p.Metadata {
		v.Metadata = append(v.Metadata, Entry(e))
	}
	return nil
}

func (v *View) openvino(path string) error {
	m, err := ovir.Open(path)
	if err != nil {
		return unread(path, err)
	}
	v.Bytes = m.Bytes
	v.exported("IR "+m.Version, m.Weights, m.Parameters)
	v.Exported.Operators = counted(m.Operations)
	v.Exported.Inputs, v.Exported.Outputs = ends(m.Inputs), ends(m.Outputs)
	return nil
}

func ends(list []ovir.Port) []Port {
	out := []Port{}
	for _, p := range list {
		shape := make([]int, len(p.Shape))
		for i, d := range p.Shape {
			shape[i] = int(d)
		}
		out = append(out, port(p.Name, p.Type, shape))
	}
	return out
}

func values(list []coreml.Value) []Port {
	out := []Port{}
	for _, v := range list {
		out = append(out, port(v.Name, v.Type.DType.String(), v.Type.Shape))
	}
	return out
}

func (x *Exported) writeText(w io.Writer) {
	diag.Fact(w, "format", "%s", x.Version)
	for _, v := range x.Inputs {
		diag.Fact(w, "input", "%s", v.String())
	}
	for _, v := range x.Outputs {
		diag.Fact(w, "output", "%s", v.String())
	}
	var names []string
	for _, o := range x.Operators {
		names = append(names, fmt.Sprintf("%s %d", o.Name, o.Count))
	}
	diag.Fact(w, "operators", "%s", strings.Join(names, ", "))
}
