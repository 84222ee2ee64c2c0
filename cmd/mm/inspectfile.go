package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules/modelfile"
)

// inspectFile shows what a model file is made of, each node of an ONNX graph only
// when it is asked for.
func (p *program) inspectFile(ctx context.Context, path string, nodes bool) error {
	v, err := modelfile.Inspect(ctx, path)
	if err != nil {
		return err
	}
	if v.ONNX != nil && !nodes {
		v.ONNX.Nodes = nil
	}
	if p.json {
		return p.printJSON(v)
	}
	fmt.Fprintf(p.stdout, "%s: %s, %s, %d parameters\n", v.File, v.Format, size(v.Bytes), v.Parameters)
	for _, name := range slices.Sorted(maps.Keys(v.Weights)) {
		p.fact("weights", "%s %s", name, size(v.Weights[name]))
	}
	if v.Producer != "" {
		p.fact("producer", "%s", v.Producer)
	}
	if o := v.ONNX; o != nil {
		p.onnxFacts(o)
	}
	if g := v.GGUF; g != nil {
		p.fact("architecture", "%s, GGUF version %d, %d tensors", g.Architecture, g.Version, g.Tensors)
		p.fact("context", "%d", g.Context)
		p.fact("tokenizer", "%s, %d tokens", g.Tokenizer, g.Vocabulary)
	}
	for _, e := range v.Metadata {
		p.fact("metadata", "%s: %s", e.Key, e.Value)
	}
	if v.Runs {
		p.fact("core", "our own engine runs it")
	}
	for _, why := range v.Refusals {
		p.fact("core", "our own engine does not run it: %s", why)
	}
	p.tell(p.stdout, v.Faults)
	return nil
}

func (p *program) fact(name, format string, args ...any) {
	fmt.Fprintf(p.stdout, "  %-12s %s\n", name, diag.Printable(fmt.Sprintf(format, args...)))
}

func (p *program) onnxFacts(o *modelfile.ONNX) {
	for _, v := range o.Inputs {
		p.fact("input", "%s", port(v))
	}
	for _, v := range o.Outputs {
		p.fact("output", "%s", port(v))
	}
	for _, s := range o.Opsets {
		p.fact("opset", "%s %d", s.Domain, s.Version)
	}
	p.fact("format", "IR version %d", o.IRVersion)
	if o.MinRuntime != "" {
		p.fact("onnxruntime", "%s or newer", o.MinRuntime)
	}
	byDomain := map[string][]string{}
	for _, op := range o.Operators {
		byDomain[op.Domain] = append(byDomain[op.Domain], fmt.Sprintf("%s %d", op.Name, op.Count))
	}
	for _, d := range slices.Sorted(maps.Keys(byDomain)) {
		p.fact("operators", "%s: %s", d, strings.Join(byDomain[d], ", "))
	}
	if q := o.Quantisation; len(q.Forms) > 0 {
		per := "one scale a tensor"
		if q.PerAxis {
			per = "scales by channel"
		}
		p.fact("quantised", "%s, weights %s, activations %s, %s", strings.Join(q.Forms, " and "), or(q.Weights), or(q.Activations), per)
	} else {
		p.fact("quantised", "no")
	}
	for _, f := range o.Functions {
		p.fact("function", "%s", f)
	}
	for _, f := range o.External {
		p.fact("external", "%s", f)
	}
	for _, n := range o.Nodes {
		var given []string
		for _, v := range n.Outputs {
			given = append(given, strings.TrimSuffix(port(v), " untyped"))
		}
		p.fact("node", "%-12s -> %s", n.Op, strings.Join(given, ", "))
	}
}

// or lists names, or says that there are none.
func or(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func port(v modelfile.Port) string {
	s := v.Name + " " + v.Kind
	if v.Kind == "tensor" {
		s = v.Name + " " + v.DType
	}
	if v.Ranked {
		s += " [" + strings.Join(v.Shape, ", ") + "]"
	}
	return s
}
