package workspace

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// Write writes the manifest, and the targets of an index.
func (v View) Write(to io.Writer) error { return v.write(to, "") }

func (v View) write(to io.Writer, indent string) error {
	fmt.Fprintf(to, "%s%s %s  %s\n", indent, diag.Printable(v.Name), diag.Printable(v.Version), v.Digest)
	if v.Format != "" {
		fmt.Fprintf(to, "%s  format: %s\n", indent, v.Format)
	}
	for _, key := range slices.Sorted(maps.Keys(v.Annotations)) {
		fmt.Fprintf(to, "%s  %s: %s\n", indent, diag.Printable(key), diag.Printable(v.Annotations[key]))
	}
	fmt.Fprintf(to, "%s  signatures: %d\n", indent, len(v.Signatures))
	WriteStatements(to, v.Evidence, indent+"  ")
	if len(v.Functions) > 0 {
		fmt.Fprintf(to, "%s  functions: %s\n", indent, diag.Printable(strings.Join(v.Functions, ", ")))
	}
	for _, ask := range v.Permissions {
		fmt.Fprintf(to, "%s  %s\n", indent, diag.Printable(ask.String()))
	}
	if err := writeLayers(to, v.Layers, indent+"  "); err != nil {
		return err
	}
	for _, t := range v.Targets {
		fmt.Fprintf(to, "\n%s  target %s\n", indent, diag.Printable(t.Target))
		if err := t.write(to, indent+"  "); err != nil {
			return err
		}
	}
	return nil
}

// writeLayers writes a table of layers, with the backends that the graph asks for.
func writeLayers(to io.Writer, layers []ViewLayer, indent string) error {
	heading := []string{indent + "PATH", "ROLE", "FORMAT", "QUANT", "SIZE", "DIGEST"}
	asked := slices.ContainsFunc(layers, func(l ViewLayer) bool { return l.Annotations[abi.AnnotationBackend] != "" })
	if asked {
		heading = append(heading, "BACKEND")
	}
	var rows [][]string
	for _, l := range layers {
		a := l.Annotations
		row := []string{indent + diag.Printable(l.Path), cmp.Or(a[abi.AnnotationRole], l.Role), cmp.Or(a[abi.AnnotationFormat], l.Packing), a[abi.AnnotationQuant], fsx.FormatSize(l.Size), diag.Short(l.Digest)}
		if asked {
			row = append(row, a[abi.AnnotationBackend])
		}
		rows = append(rows, row)
	}
	if rows == nil {
		return nil
	}
	return diag.Table(to, heading, rows)
}

// WriteStatements writes attestations by trusted keys, one a line, and their figures.
func WriteStatements(to io.Writer, list []Statement, indent string) {
	for _, s := range list {
		note := ""
		switch {
		case s.Fault != "":
			note = ", INVALID: " + s.Fault
		case s.Failed:
			note = ", FAILED"
		}
		fmt.Fprintf(to, "%sevidence: %s by %s%s\n", indent, diag.Printable(s.Type), s.Signer, diag.Printable(note))
		for _, e := range s.Evaluations {
			for _, t := range e.Tasks {
				for _, f := range t.Figures {
					fmt.Fprintf(to, "%s  %s %s %.4f [%.4f, %.4f], n %d, suite %s, %s\n", indent, diag.Printable(t.Name), diag.Printable(f.Name()), f.Value, f.Low, f.High, f.N, diag.Short(t.Suite), diag.Printable(e.Engine))
				}
			}
		}
	}
}

// Write writes the licenses of each module, the documents and the conditions.
func (l *Licenses) Write(to io.Writer) error {
	var rows [][]string
	for _, m := range l.Modules {
		for i, t := range m.Texts {
			from, digest := t.From, diag.Short(t.Digest)
			if from == "" {
				from, digest = "missing", "-"
			}
			name := ""
			if i == 0 {
				name = m.Name + " " + m.Version
			}
			rows = append(rows, []string{diag.Printable(name), diag.Printable(t.ID), diag.Printable(from), digest})
		}
		for _, n := range m.Notices {
			rows = append(rows, []string{"", "notice", diag.Printable(n.Path), diag.Short(n.Digest)})
		}
	}
	if err := diag.Table(to, []string{"MODULE", "LICENSE", "TEXT", "DIGEST"}, rows); err != nil {
		return err
	}
	fmt.Fprintf(to, "\nlicense of the build: %s\n", diag.Printable(l.License))
	for _, d := range l.Documents {
		fmt.Fprintf(to, "%s: %s\n", d.Path, d.Digest)
	}
	for _, m := range l.Modules {
		for _, t := range m.Terms {
			fmt.Fprintf(to, "%s: %s %s %s\n", diag.Printable(m.Name), diag.Printable(t.License), t.Kind, t.Clause)
		}
	}
	return nil
}
