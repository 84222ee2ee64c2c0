package executorch

import (
	"io"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/onnx/lower"
)

// Exporter writes programs.
type Exporter struct{}

// Format implements export.Form.
func (Exporter) Format() abi.Format { return abi.ExecuTorch }

// Precisions implements export.Form.
func (Exporter) Precisions() []string { return []string{fp32, fp16, int8s, int4s} }

// Files implements export.Form.
func (Exporter) Files(g *lower.Graph, name, precision string) ([]export.Output, []lower.Problem, error) {
	p := &Program{}
	if problems := p.convert(g, "forward", precision); len(problems) > 0 {
		return nil, problems, nil
	}
	return p.file(name), nil, nil
}

// Compose implements export.Composer: the graphs are methods over the same
// constants.
func (Exporter) Compose(graphs []export.Named, name, precision string) ([]export.Output, []lower.Problem, error) {
	p := &Program{}
	for _, g := range graphs {
		if problems := p.convert(g.Graph, g.Name, precision); len(problems) > 0 {
			return nil, problems, nil
		}
	}
	return p.file(name), nil, nil
}

// file returns the file of a program.
func (p *Program) file(name string) []export.Output {
	return []export.Output{{Path: name + ".pte", Write: func(w io.Writer) error {
		_, err := p.WriteTo(w)
		return err
	}}}
}
