package main

import (
	"fmt"
	"strings"

	"mm-abi.org/mm/core/htp/fit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules/qnnfile"
)

// printQNN shows what a file for QNN is made of.
func (p *program) printQNN(v qnnfile.View) {
	fmt.Fprintln(p.stdout, diag.Printable(fmt.Sprintf("%s: %s, %s, %d contexts", v.File, v.Format, size(v.Bytes), len(v.Contexts))))
	if l := v.LiteRT; l != nil {
		p.fact("stamp", "%s %s", l.Manufacturer, l.SoC)
		if l.MinRuntime != "" {
			p.fact("runtime", "%s or newer", l.MinRuntime)
		}
		for _, g := range l.Subgraphs {
			p.fact("subgraph", "%s: %s -> %s", g.Name, strings.Join(g.Inputs, ", "), strings.Join(g.Outputs, ", "))
		}
		for _, d := range l.Dispatches {
			p.fact("dispatch", "operator %d of subgraph %d runs %s at %d, %s", d.Operator, d.Subgraph, d.Graph, d.Offset, size(d.Bytes))
		}
		p.fact("processor", "%s", leftOf(l.Left))
	}
	if o := v.ONNX; o != nil {
		for _, n := range o.Nodes {
			where := "in itself"
			if !n.Embedded {
				where = n.File
			}
			p.fact("node", "%s runs %s, context %s, by %s, SDK %s", n.Name, n.Graph, where, n.Source, n.SDK)
			for _, d := range n.Differs {
				p.fact("differs", "%s", d)
			}
		}
		p.fact("processor", "%s", leftOf(o.Left))
	}
	if d := v.DLC; d != nil {
		p.fact("converter", "%s %s, notes %s", d.Tool, d.Converter, d.Version)
		for _, g := range d.Graphs {
			p.fact("graph", "%s", g)
		}
		for _, e := range d.Entries {
			p.fact("entry", "%s, %s", e.Name, size(e.Bytes))
		}
	}
	for _, c := range v.Contexts {
		p.printContext(c)
	}
}

func (p *program) printContext(c qnnfile.ContextView) {
	fmt.Fprintln(p.stdout, diag.Printable(fmt.Sprintf("%s: %s at %d of %s", c.Name, size(c.Bytes), c.Offset, c.File)))
	p.fact("layout", "metadata %d bytes, blob %d bytes at %d", c.Metadata, c.BlobBytes, c.BlobOffset)
	if c.Unread != "" {
		p.fact("unread", "%s", c.Unread)
		return
	}
	chip := fmt.Sprintf("model %d", c.SoCModel)
	if len(c.SoCs) > 0 {
		chip += ", " + strings.Join(c.SoCs, ", ")
	}
	p.fact("backend", "%s %s, architecture %s, %s", c.Backend, c.API, c.Arch, chip)
	p.fact("sdk", "%s, core interface %s, blob %s, metadata schema %d", c.Build, c.Core, c.Blob, c.Schema)
	p.fact("memory", "about %s to load", size(c.Memory))
	for _, g := range c.Graphs {
		used := ""
		if !g.Used {
			used = " (not used here)"
		}
		p.fact("graph", "%s%s", g.Name, used)
		for _, t := range g.Inputs {
			p.fact("  input", "%s", qnnPort(t))
		}
		for _, t := range g.Outputs {
			p.fact("  output", "%s", qnnPort(t))
		}
		if m := g.Memory; m != nil {
			p.fact("  takes", "%d bytes of VTCM, spill-fill %d, inputs and outputs %d, operators %d, weights %d; optimisation %d", m.VTCM, m.SpillFill, m.IO, m.OpData, m.Constants, m.Optimisation)
		}
	}
}

func qnnPort(t qnnfile.Port) string {
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

// leftOf lists operators that were not compiled.
func leftOf(left []qnnfile.Left) string {
	if len(left) == 0 {
		return "nothing is left for it"
	}
	var names []string
	for _, l := range left {
		names = append(names, fmt.Sprintf("%s %d", l.Name, l.Count))
	}
	return strings.Join(names, ", ")
}

// printQNNReport shows what a check came to; its faults make the exit code.
func (p *program) printQNNReport(r qnnfile.Report) error {
	if p.json {
		if err := p.printJSON(r); err != nil {
			return err
		}
	} else {
		for _, c := range r.Contexts {
			var rows [][]string
			for _, a := range c.Axes {
				verdict := string(a.Verdict)
				if a.Accepted {
					verdict = string(fit.Unknown) + ", accepted"
				}
				rows = append(rows, []string{a.Name, verdict, a.File, a.Target})
			}
			if err := p.printTable([]string{c.Name, "VERDICT", "FILE", r.Target}, rows); err != nil {
				return err
			}
		}
		p.tell(p.stderr, r.Faults)
	}
	if err := r.Faults.Err(); err != nil {
		return reported{err}
	}
	p.say("%s fits %s", r.File, r.Target)
	return nil
}
