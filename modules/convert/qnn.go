package convert

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/htp"
)

// DescribeContext returns the manifest of a QNN file without its name, version and
// files: a port for each input and output of its graph. Shapes are static and
// include the batch. Integers with a single scale are declared as floats, since the
// backend qnn converts them.
func DescribeContext(f *qnnfile.File) (modules.Manifest, error) {
	m := modules.Manifest{Type: abi.Encoder, Modality: abi.Image, ABI: abi.V1_1}
	if len(f.Parts) != 1 {
		return m, fmt.Errorf("unsupported number of contexts: got %d, want 1", len(f.Parts))
	}
	p := f.Parts[0]
	if p.Context.Unread != "" {
		return m, fmt.Errorf("unknown inputs of the context: %s", p.Context.Unread)
	}
	var names []string
	var graph htp.Graph
	for _, g := range p.Context.Graphs {
		if len(p.Graphs) == 0 || slices.Contains(p.Graphs, g.Name) {
			names, graph = append(names, g.Name), g
		}
	}
	if len(names) != 1 {
		return m, fmt.Errorf("the context has %d graphs (%s), want 1: select one with mm qnn wrap --graph", len(names), strings.Join(names, ", "))
	}
	var first, second error
	m.Inputs, first = contextPorts(graph.Inputs)
	m.Outputs, second = contextPorts(graph.Outputs)
	return m, errors.Join(first, second)
}

func contextPorts(tensors []htp.Tensor) (out []abi.Port, _ error) {
	var errs []error
	for _, t := range tensors {
		p := abi.Port{Name: t.Name, Shape: abi.Shape{}}
		for _, d := range t.Dims {
			p.Shape = append(p.Shape, abi.Dim{Size: int64(d)})
		}
		d, _ := onnx.DTypeOf(t.DType.ONNX())
		p.DType = elements[d]
		if t.DType.Fixed() && t.Quant.Encoding == htp.ScaleOffset {
			p.DType = abi.FP32
		}
		if p.DType == "" {
			errs = append(errs, fmt.Errorf("%q: unsupported element type %s", t.Name, t.DType))
		}
		out = append(out, p)
	}
	return out, errors.Join(errs...)
}
