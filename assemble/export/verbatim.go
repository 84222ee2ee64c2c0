package export

import (
	"context"
	"fmt"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/builds/resolve"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/inspect"
	"mm-abi.org/mm/registry/artifact"
)

// Verbatim exports the files of a format unchanged: the entry, the files that the
// manifest lists with it, and the external data of an ONNX model.
type Verbatim struct{ format abi.Format }

// NewVerbatim returns the exporter of a format.
func NewVerbatim(format abi.Format) Verbatim { return Verbatim{format} }

// Format returns the format.
func (x Verbatim) Format() abi.Format { return x.format }

// Check refuses a module without the format, a precision and options.
func (x Verbatim) Check(m *modules.Manifest, e builds.Export) diag.List {
	var list diag.List
	if m.Entry(x.format) == "" {
		list.Add(diag.NotExported, diag.Pos{}, fmt.Sprintf("%s exports no %s", m.ID(), x.format), fmt.Sprintf("add export.%s to its manifest", x.format))
	}
	if e.Precision != "" {
		list.Add(diag.QuantUnknown, diag.Pos{}, fmt.Sprintf("%s as %s: files of this format are exported unchanged", m.ID(), e.Precision), "remove the precision")
	}
	if e.Options != nil {
		list.Add(diag.BadExport, diag.Pos{}, fmt.Sprintf("%s takes no options", x.format), "remove them")
	}
	return list
}

// Export returns the module's files.
func (x Verbatim) Export(_ context.Context, m *resolve.Module, _ builds.Export, out Sink) ([]artifact.Layer, []string, error) {
	var layers []artifact.Layer
	for _, path := range inspect.Weights(m.Manifest, Files(out.Store, m))[x.format] {
		l, err := out.Layer(m, path)
		if err != nil {
			return nil, nil, err
		}
		layers = append(layers, l)
	}
	return layers, nil, nil
}
