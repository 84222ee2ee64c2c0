package convert

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/htp/blob"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/onnx"
)

// DescribeContext is the manifest of a file for QNN, without its name, version
// and files: a port for each input and output of the one graph that the file
// uses. Shapes are the graph's, the batch too: none of them is free. Integers
// with one scale are numbers, as the backend qnn takes and gives them.
func DescribeContext(f *qnnfile.File) (modules.Manifest, error) {
	m := modules.Manifest{Type: abi.Encoder, Modality: abi.Image, ABI: abi.V1_1}
	if len(f.Parts) != 1 {
		return m, fmt.Errorf("it holds %d contexts, and a file with one is run", len(f.Parts))
	}
	p := f.Parts[0]
	if p.Context.Unread != "" {
		return m, fmt.Errorf("what its context takes is not known: %s", p.Context.Unread)
	}
	var names []string
	var graph blob.Graph
	for _, g := range p.Context.Graphs {
		if len(p.Graphs) == 0 || slices.Contains(p.Graphs, g.Name) {
			names, graph = append(names, g.Name), g
		}
	}
	if len(names) != 1 {
		return m, fmt.Errorf("its context has %d graphs to run (%s), and one is run: mm qnn wrap --graph makes a model around one", len(names), strings.Join(names, ", "))
	}
	var first, second error
	m.Inputs, first = contextPorts(graph.Inputs)
	m.Outputs, second = contextPorts(graph.Outputs)
	return m, errors.Join(first, second)
}

func contextPorts(tensors []blob.Tensor) (out []abi.Port, _ error) {
	var errs []error
	for _, t := range tensors {
		p := abi.Port{Name: t.Name, Shape: abi.Shape{}}
		for _, d := range t.Dims {
			p.Shape = append(p.Shape, abi.Dim{Size: int64(d)})
		}
		d, _ := onnx.DTypeOf(t.DType.ONNX())
		p.DType = elements[d]
		if t.DType.Fixed() && t.Quant.Encoding == blob.ScaleOffset {
			p.DType = abi.FP32
		}
		if p.DType == "" {
			errs = append(errs, fmt.Errorf("%q is of %s, which no port is", t.Name, t.DType))
		}
		out = append(out, p)
	}
	return out, errors.Join(errs...)
}
