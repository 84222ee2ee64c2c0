package openvino

import (
	"io"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/onnx/lower"
)

// The precisions of weights. Int4 has groups of 32 inputs for linear layers, and
// eight bits elsewhere.
const (
	fp32  = "fp32"
	fp16  = "fp16"
	int8s = "int8"
	int4s = "int4"
)

// Form writes lowered graphs.
type Form struct{}

// Format returns "openvino".
func (Form) Format() abi.Format { return abi.OpenVINO }

// Precisions returns the precisions of weights, the default first.
func (Form) Precisions() []string { return []string{fp32, fp16, int8s, int4s} }

// Files writes NAME.xml and NAME.bin.
func (Form) Files(g *lower.Graph, name, precision string) ([]export.Output, []lower.Problem, error) {
	w := newWriter(precision)
	problems := w.graph(g)
	if len(problems) > 0 {
		return nil, problems, nil
	}
	text := w.xml(name)
	return []export.Output{
		{Path: name + ".xml", Write: func(to io.Writer) error {
			_, err := to.Write(text)
			return err
		}},
		{Path: name + ".bin", Write: w.bin.write},
	}, nil, nil
}

// Compose implements export.Composer: each graph has its own files.
func (x Form) Compose(graphs []export.Named, name, precision string) ([]export.Output, []lower.Problem, error) {
	return export.Each(x, graphs, name, precision)
}
