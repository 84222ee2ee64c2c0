package tflite

import (
	"io"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/onnx/lower"
)

// Exporter writes TFLite files. NNAPI reads the same files: with Delegate they
// contain only what its delegate takes.
type Exporter struct{ Delegate bool }

// Format implements export.Form.
func (x Exporter) Format() abi.Format {
	if x.Delegate {
		return abi.NNAPI
	}
	return abi.TFLite
}

// Precisions implements export.Form.
func (Exporter) Precisions() []string { return []string{fp32, fp16, int8s} }

// Files implements export.Form.
func (x Exporter) Files(g *lower.Graph, name, precision string) ([]export.Output, []lower.Problem, error) {
	m, problems := convert(g, precision, x.Delegate)
	if len(problems) > 0 {
		return nil, problems, nil
	}
	m.Description = name
	m.Metadata = []Entry{{"min_runtime_version", "2.16.0"}}
	data, err := m.Encode()
	if err != nil {
		return nil, nil, err
	}
	return []export.Output{{Path: name + ".tflite", Write: func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}}}, nil, nil
}
