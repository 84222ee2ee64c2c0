package assemble

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/builds/resolve"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry/artifact"
)

// Exporter writes one format. It is safe for concurrent use.
type Exporter interface {
	// Format is the key that graphs use.
	Format() abi.Format
	// Check says, from the manifest and before hours of work, why m cannot be
	// exported as e asks. Faults need no place; they are shown at the export.
	Check(m *modules.Manifest, e builds.Export) diag.List
	// Export hands the files of m to out and returns them as layers, the entry
	// first, with paths inside the module's folder; and what is not exactly as
	// asked for, for people.
	Export(ctx context.Context, m *resolve.Module, e builds.Export, out export.Sink) (files []artifact.Layer, notes []string, err error)
}

// exporter finds the exporter of a format; nil where there is none.
func (o Options) exporter(f abi.Format) Exporter {
	for _, x := range o.Exporters {
		if x.Format() == f {
			return x
		}
	}
	return nil
}

// exportable drops, under KeepGoing, the targets that cannot be built, with
// warnings, and otherwise reports why they cannot.
func (b *build) exportable() {
	var kept []*target
	for _, t := range b.targets {
		faults := b.checkTarget(t)
		if len(faults) == 0 {
			kept = append(kept, t)
		}
		for _, d := range faults {
			if b.opt.KeepGoing {
				d.Severity, d.Detail, d.Hint = diag.Warning, d.Detail+"; the target is left out", ""
			}
			if !b.told(d) {
				b.list = append(b.list, d)
			}
		}
	}
	if len(kept) == 0 && b.opt.KeepGoing {
		b.list.Add(diag.NoTarget, b.graph.Pos("/exports"), "no target is left that can be built", "")
	}
	b.targets = kept
}

// checkTarget asks the exporters of a target whether they can do what it
// wants.
func (b *build) checkTarget(t *target) diag.List {
	var list diag.List
	for _, e := range t.spec.Exports {
		x := b.opt.exporter(e.Format)
		if x == nil {
			list.Add(diag.NoExporter, b.pos(e, e.Ptr), fmt.Sprintf("target %s wants %s; there is %s", t.name, e.Format, b.formats()), "choose another target with --target, or --keep-going builds the others")
			continue
		}
		for _, m := range b.taken(e) {
			for _, d := range x.Check(m.Manifest, e) {
				if d.Pos == (diag.Pos{}) {
					d.Pos = b.pos(e, faultPtr(e, d.Code, m.Manifest.Name))
				}
				list = append(list, d)
			}
		}
	}
	return list
}

// faultPtr is where a fault of an export is shown: at the precision, at the
// module's name, or at the export.
func faultPtr(e builds.Export, code diag.Code, name string) string {
	if i := slices.Index(e.Modules, name); code == diag.NotExported && i >= 0 {
		return e.ModulePtr(i)
	}
	if code == diag.QuantUnknown {
		return e.PrecisionPtr()
	}
	return e.Ptr
}

// told reports whether the same was said of the same place already.
func (b *build) told(d diag.Diagnostic) bool {
	return slices.ContainsFunc(b.list, func(o diag.Diagnostic) bool {
		return o.Code == d.Code && o.Pos == d.Pos && (d.Code != diag.QuantUnknown || o.Detail == d.Detail)
	})
}

// taken are the modules that an export is for, each once, in the order of the
// graph.
func (b *build) taken(e builds.Export) []*resolve.Module {
	var list []*resolve.Module
	for _, n := range b.graph.Nodes() {
		m := b.modules[n.Ref.Name]
		if m != nil && e.Takes(m.Manifest.Name, m.Manifest.Type) && !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list
}

// pos is the place of a part of an export: in the graph, or on the command
// line.
func (b *build) pos(e builds.Export, ptr string) diag.Pos {
	if e.Ptr == "" {
		return diag.Pos{File: exportFlag}
	}
	return b.graph.Pos(ptr)
}

// exportFlag stands for a file where exports are given as Options.Exports.
const exportFlag = "--export"

// formats lists the formats that can be written.
func (b *build) formats() string {
	var names []string
	for _, x := range b.opt.Exporters {
		names = append(names, string(x.Format()))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
