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
	p := &Program{}
	f, problems, err := convert(&p.weights, g, mainFunction, precision, nil)
	if err != nil || len(problems) > 0 {
		return nil, problems, err
	}
	p.Function = *f
	files, err := p.outputs(name, precision)
	return files, nil, err
}

// outputs returns the files of the package NAME.mlpackage.
func (p *Program) outputs(name, precision string) ([]export.Output, error) {
	p.Description, p.Metadata = name, []Entry{{"precision", precision}, {"status", "validated, not run on a device"}}
	files, err := p.Files()
	if err != nil {
		return nil, err
	}
	var out []export.Output
	for _, f := range files {
		out = append(out, export.Output{Path: name + Extension + "/" + f.Path, Write: f.Write})
	}
	return out, nil
}

// Keep implements export.Keeper: the graphs are functions of one package, which has
// their caches as states.
func (Exporter) Keep(graphs []export.Named, states map[string]string, name, precision string) ([]export.Output, []lower.Problem, error) {
	p := &Program{}
	for i, g := range graphs {
		f, problems, err := convert(&p.weights, g.Graph, g.Name, precision, states)
		if err != nil || len(problems) > 0 {
			return nil, problems, err
		}
		if i == 0 {
			p.Function = *f
		} else {
			p.More = append(p.More, f)
		}
	}
	files, err := p.outputs(name, precision)
	return files, nil, err
}

// Compose implements export.Composer: each graph has its own files.
func (x Exporter) Compose(graphs []export.Named, name, precision string) ([]export.Output, []lower.Problem, error) {
	return export.Each(x, graphs, name, precision)
}
