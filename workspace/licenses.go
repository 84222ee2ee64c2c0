package workspace

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/builds/bom"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/spdx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry/artifact"
)

// Licenses are the licenses of one manifest.
type Licenses struct {
	Digest    string           `json:"digest"`
	Target    string           `json:"target,omitempty"`
	License   string           `json:"license"` // of the whole
	Documents []bom.LegalFile  `json:"documents"`
	Modules   []LicensedModule `json:"modules"`
	// Faults are the conflicts and conditions of the modules together.
	Faults diag.List `json:"diagnostics"`
}

// LicensedModule is a module with the texts and terms of its licenses.
type LicensedModule struct {
	Name    string          `json:"name"`
	Version string          `json:"version"`
	License string          `json:"license"`
	Source  string          `json:"source,omitempty"`
	Texts   []bom.Text      `json:"texts"`
	Notices []bom.LegalFile `json:"notices"`
	Terms   []Term          `json:"terms"`
}

// Term is a condition of a license with the clause that states it; kind unknown: the license
// is in no table of mm.
type Term struct {
	License string `json:"license"`
	Kind    string `json:"kind"`
	Clause  string `json:"clause,omitempty"`
}

// Licenses returns the licenses of an artifact, or of one target of an index.
func (w *Workspace) Licenses(ctx context.Context, at *Located, target string) (*Licenses, error) {
	p, err := w.part(ctx, at, target)
	if err != nil {
		return nil, err
	}
	parts, faults, err := licensedParts(ctx, at, p)
	if err != nil {
		return nil, err
	}
	out := &Licenses{Digest: p.Descriptor.Digest.String(), Target: p.Artifact.Annotations[abi.AnnotationTarget], License: p.Artifact.Annotations[ocispec.AnnotationLicenses], Documents: []bom.LegalFile{}, Modules: []LicensedModule{}, Faults: faults}
	for _, l := range p.Artifact.Layers {
		if l.Path == bom.LicenseFile || l.Path == bom.NoticeFile {
			out.Documents = append(out.Documents, bom.LegalFile{Path: l.Path, Digest: l.Descriptor.Digest.String()})
		}
	}
	for _, one := range parts {
		m := LicensedModule{Name: one.Name, Version: one.Version, License: one.License, Source: one.Source, Texts: one.Texts(), Notices: []bom.LegalFile{}, Terms: termsOf(one.License)}
		for _, f := range one.Files {
			if modules.IsNotice(f.Path) {
				m.Notices = append(m.Notices, f)
			}
		}
		out.Modules = append(out.Modules, m)
	}
	return out, nil
}

// Missing returns a fault for each license without its text.
func (l *Licenses) Missing() (list diag.List) {
	for _, m := range l.Modules {
		for _, t := range m.Texts {
			if t.From == "" {
				list.Add(diag.LicenseText, diag.Pos{}, fmt.Sprintf("%s %s: no text of %s", m.Name, m.Version, cmp.Or(t.ID, "an unknown license")), "add LICENSE to the module's folder")
			}
		}
	}
	return list
}

// termsOf returns the terms of the licenses of an expression, in order.
func termsOf(expression string) []Term {
	terms := []Term{}
	e, err := spdx.Parse(expression)
	if err != nil {
		return append(terms, Term{License: expression, Kind: "unknown"})
	}
	seen := map[string]bool{}
	for _, choice := range e.Choices() {
		for _, id := range choice {
			if seen[id] {
				continue
			}
			seen[id] = true
			found, ok := spdx.TermsOf(id)
			if !ok {
				terms = append(terms, Term{License: id, Kind: "unknown"})
			}
			for _, kind := range []spdx.Kind{spdx.Copyleft, spdx.ShareAlike, spdx.NonCommercial, spdx.NoDerivatives, spdx.Restricted, spdx.Additional} {
				if clause := found[kind]; clause != "" {
					terms = append(terms, Term{id, string(kind), clause})
				}
			}
		}
	}
	return terms
}

// licensedParts returns the modules of a manifest with their texts, and the judgment of
// their licenses together, which needs the graph.
func licensedParts(ctx context.Context, at *Located, p artifact.Part) (parts []bom.Part, faults diag.List, err error) {
	c := &claims{ref: at.ref, reader: newLayerReader(at.src, p.Artifact)}
	faults = diag.List{}
	if _, ok := c.reader.layers[builds.AssemblyFile]; !ok {
		one, err := c.reader.licensed(ctx, p)
		if err != nil || one == nil {
			return nil, faults, err
		}
		return []bom.Part{*one}, faults, nil
	}
	d, err := c.sources(ctx)
	if err != nil {
		return nil, nil, err
	}
	if parts, err = assemble.LegalParts(ctx, at.src, d.assembly, d.manifests, p.Artifact.Layers); err != nil {
		return nil, nil, err
	}
	if d.graph != nil {
		faults = append(faults, d.graph.Licenses(d.manifests)...)
	}
	return parts, faults, nil
}

// licensed returns the module that an artifact is; nil for that of another tool.
func (r layerReader) licensed(ctx context.Context, p artifact.Part) (*bom.Part, error) {
	m, err := r.manifest(ctx, modules.FileName)
	if err != nil || m == nil {
		return nil, err
	}
	one := &bom.Part{Name: m.Name, Version: m.Version, License: m.License, Source: m.Source, Digest: p.Descriptor.Digest.String()}
	for _, l := range p.Artifact.Layers {
		if modules.IsLegal(l.Path) {
			f, err := assemble.LegalFile(ctx, r.src, l.Path, l)
			if err != nil {
				return nil, err
			}
			one.Files = append(one.Files, f)
		}
	}
	slices.SortFunc(one.Files, func(a, b bom.LegalFile) int { return strings.Compare(a.Path, b.Path) })
	return one, nil
}

// lawful refuses to publish an artifact that lacks a license text, and returns the text for
// one whose only license has the same text for every work.
func lawful(ctx context.Context, at *Located, p artifact.Part) (license []byte, err error) {
	parts, _, err := licensedParts(ctx, at, p)
	if err != nil {
		return nil, err
	}
	var list diag.List
	has := false
	for _, l := range p.Artifact.Layers {
		has = has || modules.IsLegal(l.Path) && !modules.IsNotice(l.Path)
	}
	for _, one := range parts {
		for _, id := range one.Missing() {
			list.Add(diag.LicenseText, diag.Pos{}, one.String()+": no text of "+id, "add LICENSE to the module's folder, and add or assemble it again")
		}
	}
	if list.Failed() || has {
		return nil, list.Err()
	}
	license, _ = bom.Standard(p.Artifact.Annotations[ocispec.AnnotationLicenses])
	return license, nil
}
