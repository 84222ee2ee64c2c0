package coreml

import (
	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/onnx/lower"
)

// Exporter writes packages.
type Exporter struct{}

// Format implements export.Form.
func (Exporter) Format() abi.Format { return abi.CoreML }

// Precisions implements export.Form.
func (Exporter) Precisions() []string { return []string{fp32, fp16, int8s, int4s} }

// Files implements export.Form.
func (Exporter) Files(g *lower.Graph, name, precision string) ([]export.Output, []lower.Problem, error) {
	p, problems, err := convert(g, precision)
	if err != nil || len(problems) > 0 {
		return nil, problems, err
	}
	p.Description, p.Metadata = name, []Entry{{"precision", precision}, {"status", "validated, not run on a device"}}
	files, err := p.Files()
	if err != nil {
		return nil, nil, err
	}
	var out []export.Output
	for _, f := range files {
		out = append(out, export.Output{Path: name + Extension + "/" + f.Path, Write: f.Write})
	}
	return out, nil, nil
}

// Compose implements export.Composer: each graph has its own files.
func (x Exporter) Compose(graphs []export.Named, name, precision string) ([]export.Output, []lower.Problem, error) {
	return export.Each(x, graphs, name, precision)
}
