package dashboard

import (
	"maps"
	"slices"
	"strings"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/builds/card"
	"mm-abi.org/mm/workspace"
)

// level is the state of one type of evidence.
type level struct {
	Name    string
	Tag     string // a short name
	Type    string
	State   string // verified, failed, invalid, absent
	Signers []string
	Note    string
}

// levels lists the evidence about a version: the types that mm writes, then others.
func levels(o workspace.Overview) (out []level) {
	names := []struct{ name, short string }{{"Bill of materials, CycloneDX", "sbom"}, {"Bill of materials, SPDX 3", "spdx"}, {"Provenance, SLSA", "provenance"}}
	list := []level{}
	for _, n := range names {
		typ, _ := workspace.PredicateType(n.short) // short names of mm
		list = append(list, level{Name: n.name, Tag: n.short, Type: typ})
	}
	list = append(list, level{Name: "Evaluation", Tag: "eval", Type: card.Type})
	for _, s := range o.Evidence.Statements {
		if !slices.ContainsFunc(list, func(l level) bool { return l.Type == s.Type }) {
			list = append(list, level{Name: "Other", Tag: "other", Type: s.Type})
		}
	}
	for _, l := range list {
		l.State = "absent"
		for _, s := range o.Evidence.Statements {
			if s.Type == l.Type {
				l.add(s)
			}
		}
		l.Type = line(l.Type)
		out = append(out, l)
	}
	return out
}

// add adds a statement: a failed one outweighs a verified one, and this an invalid one.
func (l *level) add(s workspace.Statement) {
	state := "verified"
	switch {
	case s.Fault != "":
		state, l.Note = "invalid", line(s.Fault)
	case s.Failed:
		state, l.Note = "failed", "its signer states that a limit was missed"
	}
	rank := []string{"absent", "invalid", "verified", "failed"}
	if slices.Index(rank, state) > slices.Index(rank, l.State) {
		l.State = state
	}
	if who := line(s.Signer.String()); !slices.Contains(l.Signers, who) {
		l.Signers = append(l.Signers, who)
	}
}

// compatibility is a table of modules against versions.
type compatibility struct {
	Modules []*fit
	Checked builds.Compat
	More    int // combinations that are not shown
}

// fit is a module in all versions.
type fit struct {
	Name, Version, Type, ABI, Core string
	Cells                          []fitCell
}

// fitCell is a module in one version; Formats is empty for one without files.
type fitCell struct {
	In      bool
	Formats string
	Backend string
	Digest  string
}

// maxChecked bounds the rows of checked combinations.
const maxChecked = 1000

// fits returns the compatibility of the modules of versions.
func fits(versions []*version, checked builds.Compat) (c compatibility) {
	index := map[string]*fit{}
	for i, v := range versions {
		for _, m := range v.Modules {
			key := m.Name + "\n" + m.Version + "\n" + string(m.ABI) + "\n" + m.Core
			f := index[key]
			if f == nil {
				f = &fit{Name: line(m.Name), Version: line(m.Version), Type: line(m.Type), ABI: line(string(m.ABI)), Core: line(m.Core), Cells: make([]fitCell, len(versions))}
				index[key] = f
				c.Modules = append(c.Modules, f)
			}
			f.Cells[i] = cellOf(m)
		}
	}
	slices.SortStableFunc(c.Modules, func(a, b *fit) int {
		return strings.Compare(a.Name+"\n"+a.Version+"\n"+a.Core, b.Name+"\n"+b.Version+"\n"+b.Core)
	})
	c.Checked = checked[:min(len(checked), maxChecked)]
	c.More = len(checked) - len(c.Checked)
	return c
}

func cellOf(m workspace.PartOverview) fitCell {
	return fitCell{In: true, Formats: line(shipped(m.Files, m.Quant)), Backend: line(m.Backend), Digest: m.Digest}
}

// shipped returns the formats of files, sorted, and their precision.
func shipped(files builds.Formats, quant string) string {
	formats := strings.Join(slices.Sorted(maps.Keys(files)), ", ")
	return strings.TrimSpace(strings.ToUpper(formats) + " " + quant)
}
