package assemble

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/builds/bom"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry/artifact"
)

// legal adds LICENSE and NOTICE of the modules of a target.
func (b *build) legal(ctx context.Context, t *target) error {
	manifests := map[string]*modules.Manifest{}
	for name, m := range b.modules {
		manifests[name] = m.Manifest
	}
	parts, err := LegalParts(ctx, b.opt.Store, t.assembly, manifests, t.layers)
	if err != nil {
		return err
	}
	license, notice, err := bom.Documents(t.assembly.Name+" "+t.assembly.Version, t.assembly.License, parts)
	if err != nil {
		return err
	}
	for _, doc := range []struct {
		path string
		text []byte
	}{{bom.LicenseFile, license}, {bom.NoticeFile, notice}} {
		if doc.text == nil {
			continue
		}
		desc, err := b.opt.Store.AddBytes(ctx, abi.MediaDoc, doc.text)
		if err != nil {
			return err
		}
		t.add(artifact.Layer{Path: doc.path, Descriptor: desc, Annotations: LegalNotes()})
	}
	for _, p := range parts {
		if ids := p.Missing(); ids != nil && !b.warned[p.Name] {
			b.warned[p.Name] = true
			b.list.Warn(diag.LicenseText, b.legalPos(p.Name), fmt.Sprintf("%s: no text of %s", p, strings.Join(ids, ", ")), "add LICENSE to the module's folder")
		}
	}
	return nil
}

// legalPos returns the position of a module in the graph.
func (b *build) legalPos(name string) diag.Pos {
	for _, n := range b.graph.Nodes() {
		if n.Ref.Name == name {
			return b.graph.Pos(n.Ptr + "/ref")
		}
	}
	return b.graph.Pos("")
}

// LegalNotes returns the annotations of LICENSE and NOTICE.
func LegalNotes() map[string]string {
	return map[string]string{abi.AnnotationRole: abi.RoleDoc, abi.AnnotationFormat: "text"}
}

// LegalParts returns the modules of a target with their license and notice files, in the
// order of the assembly.
func LegalParts(ctx context.Context, src content.Fetcher, a *builds.Assembly, manifests map[string]*modules.Manifest, layers []artifact.Layer) ([]bom.Part, error) {
	var parts []bom.Part
	for _, p := range a.Parts() {
		m := manifests[p.Name]
		if m == nil || slices.ContainsFunc(parts, func(o bom.Part) bool { return o.Name == p.Name }) {
			continue
		}
		one := bom.Part{Name: p.Name, Version: p.Version, License: m.License, Source: m.Source, Digest: p.Digest}
		files := map[string]artifact.Layer{}
		for _, l := range layers {
			if rest, ok := strings.CutPrefix(l.Path, p.Name+"/"); ok && modules.IsLegal(rest) {
				files[rest] = l
			}
		}
		for _, path := range slices.Sorted(maps.Keys(files)) {
			f, err := LegalFile(ctx, src, path, files[path])
			if err != nil {
				return nil, err
			}
			one.Files = append(one.Files, f)
		}
		parts = append(parts, one)
	}
	return parts, nil
}

// LegalFile reads a license text or a notice.
func LegalFile(ctx context.Context, src content.Fetcher, path string, l artifact.Layer) (bom.LegalFile, error) {
	if l.Descriptor.Size > bom.MaxText {
		return bom.LegalFile{}, fmt.Errorf("%s: got %d bytes, limit %d", l.Path, l.Descriptor.Size, bom.MaxText)
	}
	text, err := content.FetchAll(ctx, src, l.Descriptor)
	return bom.LegalFile{Path: path, Digest: l.Descriptor.Digest.String(), Text: text}, err
}
