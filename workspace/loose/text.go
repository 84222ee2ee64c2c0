package loose

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// WriteText describes the file, except for its faults.
func (v View) WriteText(w io.Writer) {
	fmt.Fprintf(w, "%s: %s, %s, %d parameters\n", v.File, v.Format, fsx.FormatSize(v.Bytes), v.Parameters)
	for _, name := range slices.Sorted(maps.Keys(v.Weights)) {
		diag.Fact(w, "weights", "%s %s", name, fsx.FormatSize(v.Weights[name]))
	}
	if v.Producer != "" {
		diag.Fact(w, "producer", "%s", v.Producer)
	}
	if o := v.ONNX; o != nil {
		o.writeText(w)
	}
	if g := v.GGUF; g != nil {
		diag.Fact(w, "architecture", "%s, GGUF version %d, %d tensors", g.Architecture, g.Version, g.Tensors)
		diag.Fact(w, "context", "%d", g.Context)
		diag.Fact(w, "tokenizer", "%s, %d tokens", g.Tokenizer, g.Vocabulary)
	}
	if x := v.Exported; x != nil {
		x.writeText(w)
	}
	for _, e := range v.Metadata {
		diag.Fact(w, "metadata", "%s: %s", e.Key, e.Value)
	}
	if v.Runs {
		diag.Fact(w, "core", "supported by mm's engine")
	}
	for why := range strings.SplitSeq(strings.Join(v.Refusals, "\n"), "\n") {
		if why != "" {
			diag.Fact(w, "core", "not supported by mm's engine: %s", why)
		}
	}
}

func (o *ONNX) writeText(w io.Writer) {
	for _, v := range o.Inputs {
		diag.Fact(w, "input", "%s", v.String())
	}
	for _, v := range o.Outputs {
		diag.Fact(w, "output", "%s", v.String())
	}
	for _, s := range o.Opsets {
		diag.Fact(w, "opset", "%s %d", s.Domain, s.Version)
	}
	diag.Fact(w, "format", "IR version %d", o.IRVersion)
	if o.MinRuntime != "" {
		diag.Fact(w, "onnxruntime", "%s or newer", o.MinRuntime)
	}
	byDomain := map[string][]string{}
	for _, op := range o.Operators {
		byDomain[op.Domain] = append(byDomain[op.Domain], fmt.Sprintf("%s %d", op.Name, op.Count))
	}
	for _, d := range slices.Sorted(maps.Keys(byDomain)) {
		diag.Fact(w, "operators", "%s: %s", d, strings.Join(byDomain[d], ", "))
	}
	if q := o.Quantization; len(q.Forms) > 0 {
		per := "one scale per tensor"
		if q.PerAxis {
			per = "one scale per channel"
		}
		diag.Fact(w, "quantized", "%s, weights %s, activations %s, %s", strings.Join(q.Forms, " and "), joinOr(q.Weights), joinOr(q.Activations), per)
	} else {
		diag.Fact(w, "quantized", "no")
	}
	for _, f := range o.Functions {
		diag.Fact(w, "function", "%s", f)
	}
	for _, f := range o.External {
		diag.Fact(w, "external", "%s", f)
	}
	for _, n := range o.Nodes {
		var outputs []string
		for _, v := range n.Outputs {
			outputs = append(outputs, strings.TrimSuffix(v.String(), " untyped"))
		}
		diag.Fact(w, "node", "%-12s -> %s", n.Op, strings.Join(outputs, ", "))
	}
}

// joinOr joins names, or returns "none".
func joinOr(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// String describes the port in one line.
func (v Port) String() string {
	s := v.Name + " " + v.Kind
	if v.Kind == "tensor" {
		s = v.Name + " " + v.DType
	}
	if v.Ranked {
		s += " [" + strings.Join(v.Shape, ", ") + "]"
	}
	return s
}
