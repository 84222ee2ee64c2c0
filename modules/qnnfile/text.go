package qnnfile

import (
	"fmt"
	"io"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// WriteText describes the file.
func (v View) WriteText(w io.Writer) {
	fmt.Fprintln(w, diag.Printable(fmt.Sprintf("%s: %s, %s, %d contexts", v.File, v.Format, fsx.FormatSize(v.Bytes), len(v.Contexts))))
	if l := v.LiteRT; l != nil {
		diag.Fact(w, "stamp", "%s %s", l.Manufacturer, l.SoC)
		if l.MinRuntime != "" {
			diag.Fact(w, "runtime", "%s or newer", l.MinRuntime)
		}
		for _, g := range l.Subgraphs {
			diag.Fact(w, "subgraph", "%s: %s -> %s", g.Name, strings.Join(g.Inputs, ", "), strings.Join(g.Outputs, ", "))
		}
		for _, d := range l.Dispatches {
			diag.Fact(w, "dispatch", "operator %d of subgraph %d runs %s at %d, %s", d.Operator, d.Subgraph, d.Graph, d.Offset, fsx.FormatSize(d.Bytes))
		}
		diag.Fact(w, "processor", "%s", LeftList(l.Left))
	}
	if o := v.ONNX; o != nil {
		for _, n := range o.Nodes {
			where := "in itself"
			if !n.Embedded {
				where = n.File
			}
			diag.Fact(w, "node", "%s runs %s, context %s, by %s, SDK %s", n.Name, n.Graph, where, n.Source, n.SDK)
			for _, d := range n.Differs {
				diag.Fact(w, "differs", "%s", d)
			}
		}
		diag.Fact(w, "processor", "%s", LeftList(o.Left))
	}
	if d := v.DLC; d != nil {
		diag.Fact(w, "converter", "%s %s, notes %s", d.Tool, d.Converter, d.Version)
		for _, g := range d.Graphs {
			diag.Fact(w, "graph", "%s", g)
		}
		for _, e := range d.Entries {
			diag.Fact(w, "entry", "%s, %s", e.Name, fsx.FormatSize(e.Bytes))
		}
	}
	for _, c := range v.Contexts {
		c.writeText(w)
	}
}

func (c ContextView) writeText(w io.Writer) {
	fmt.Fprintln(w, diag.Printable(fmt.Sprintf("%s: %s at %d of %s", c.Name, fsx.FormatSize(c.Bytes), c.Offset, c.File)))
	diag.Fact(w, "layout", "metadata %d bytes, blob %d bytes at %d", c.Metadata, c.BlobBytes, c.BlobOffset)
	if c.Unread != "" {
		diag.Fact(w, "unread", "%s", c.Unread)
		return
	}
	chip := fmt.Sprintf("model %d", c.SoCModel)
	if len(c.SoCs) > 0 {
		chip += ", " + strings.Join(c.SoCs, ", ")
	}
	diag.Fact(w, "backend", "%s %s, architecture %s, %s", c.Backend, c.API, c.Arch, chip)
	diag.Fact(w, "sdk", "%s, core interface %s, blob %s, metadata schema %d", c.Build, c.Core, c.Blob, c.Schema)
	diag.Fact(w, "memory", "about %s to load", fsx.FormatSize(c.Memory))
	for _, g := range c.Graphs {
		used := ""
		if !g.Used {
			used = " (not used here)"
		}
		diag.Fact(w, "graph", "%s%s", g.Name, used)
		for _, t := range g.Inputs {
			diag.Fact(w, "  input", "%s", portText(t))
		}
		for _, t := range g.Outputs {
			diag.Fact(w, "  output", "%s", portText(t))
		}
		if m := g.Memory; m != nil {
			diag.Fact(w, "  takes", "%d bytes of VTCM, spill-fill %d, inputs and outputs %d, operators %d, weights %d; optimisation %d", m.VTCM, m.SpillFill, m.IO, m.OpData, m.Constants, m.Optimisation)
		}
	}
}

func portText(t Port) string {
	s := fmt.Sprintf("%s %s %v", t.Name, t.DType, t.Shape)
	if q := t.Quant; q != nil {
		s += ", " + q.Encoding
		switch { // scales along an axis may come without offsets
		case len(q.Scales) == 1 && len(q.Offsets) == 1:
			s += fmt.Sprintf(" (q + %d) * %g", q.Offsets[0], q.Scales[0])
		case len(q.Scales) == 1:
			s += fmt.Sprintf(" q * %g", q.Scales[0])
		}
	}
	return s
}

// LeftList lists the operators that were not compiled.
func LeftList(left []Left) string {
	if len(left) == 0 {
		return "none"
	}
	var names []string
	for _, l := range left {
		names = append(names, fmt.Sprintf("%s %d", l.Name, l.Count))
	}
	return strings.Join(names, ", ")
}
