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

// Exporter writes a format. It is safe for concurrent use.
type Exporter interface {
	// Format returns the key in graphs.
	Format() abi.Format
	// Check reports, from the manifest and before hours of work, why m cannot be
	// exported as e requires. Faults need no position; they are reported at the
	// export.
	Check(m *modules.Manifest, e builds.Export) diag.List
	// Export writes the files of m to out and returns them as layers, the entry
	// first, with paths in the module's folder. The notes describe deviations from
	// e.
	Export(ctx context.Context, m *resolve.Module, e builds.Export, out export.Sink) (files []artifact.Layer, notes []string, err error)
}

// exporter returns the exporter of a format, or nil.
func (o Options) exporter(f abi.Format) Exporter {
	for _, x := range o.Exporters {
		if x.Format() == f {
			return x
		}
	}
	return nil
}

// exportable reports why targets cannot be built; with KeepGoing, it drops these
// targets with warnings.
func (b *build) exportable() {
	var kept []*target
	for _, t := range b.targets {
		faults := b.checkTarget(t)
		if len(faults) == 0 {
			kept = append(kept, t)
		}
		for _, d := range faults {
			if b.opt.KeepGoing {
				d.Severity, d.Detail, d.Hint = diag.Warning, d.Detail+"; the target is skipped", ""
			}
			if !b.reported(d) {
				b.list = append(b.list, d)
			}
		}
	}
	if len(kept) == 0 && b.opt.KeepGoing {
		b.list.Add(diag.NoTarget, b.graph.Pos("/exports"), "none of the targets can be built", "")
	}
	b.targets = kept
}

// checkTarget checks a target with its exporters.
func (b *build) checkTarget(t *target) diag.List {
	var list diag.List
	for _, e := range t.spec.Exports {
		x := b.opt.exporter(e.Format)
		if x == nil {
			list.Add(diag.NoExporter, b.pos(e, e.Ptr), fmt.Sprintf("target %s wants %s, supported are %s", t.name, e.Format, b.formats()), "choose another target with --target, or build the others with --keep-going")
			continue
		}
		for _, m := range b.modulesOf(e) {
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

// faultPtr returns the position of a fault: the precision, the module's name, or
// the export.
func faultPtr(e builds.Export, code diag.Code, name string) string {
	if i := slices.Index(e.Modules, name); code == diag.NotExported && i >= 0 {
		return e.ModulePtr(i)
	}
	if code == diag.QuantUnknown {
		return e.PrecisionPtr()
	}
	return e.Ptr
}

// reported reports whether an equal diagnostic was already reported.
func (b *build) reported(d diag.Diagnostic) bool {
	return slices.ContainsFunc(b.list, func(o diag.Diagnostic) bool {
		return o.Code == d.Code && o.Pos == d.Pos && (d.Code != diag.QuantUnknown || o.Detail == d.Detail)
	})
}

// modulesOf returns the modules of an export without duplicates, in the order of
// the graph.
func (b *build) modulesOf(e builds.Export) []*resolve.Module {
	var list []*resolve.Module
	for _, n := range b.graph.Nodes() {
		m := b.modules[n.Ref.Name]
		if m != nil && e.Takes(m.Manifest.Name, m.Manifest.Type) && !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list
}

// pos returns the position of a part of an export: in the graph, or on the command
// line.
func (b *build) pos(e builds.Export, ptr string) diag.Pos {
	if e.Ptr == "" {
		return diag.Pos{File: exportFlag}
	}
	return b.graph.Pos(ptr)
}

// exportFlag is the file in positions of Options.Exports.
const exportFlag = "--export"

// formats lists the supported formats.
func (b *build) formats() string {
	var names []string
	for _, x := range b.opt.Exporters {
		names = append(names, string(x.Format()))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
