package workspace

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/builds/bom"
	"mm-abi.org/mm/builds/card"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/sign"
)

// The predicate types that mm writes itself and whose contents it checks.
const (
	cycloneDXType  = "https://cyclonedx.org/bom"
	provenanceType = "https://slsa.dev/provenance/v1"
	spdxType       = "https://spdx.dev/Document"
)

// predicateTypes maps the short names of cosign and mm to predicate types.
var predicateTypes = map[string]string{
	"cyclonedx": cycloneDXType, "sbom": cycloneDXType,
	"slsaprovenance1": provenanceType, "slsa": provenanceType, "provenance": provenanceType,
	"spdxjson": spdxType, "spdx": spdxType,
	"eval": card.Type,
}

// PredicateType returns the type for a short name or a URI.
func PredicateType(name string) (string, error) {
	if uri, ok := predicateTypes[name]; ok {
		return uri, nil
	}
	if strings.Contains(name, "://") {
		return name, nil
	}
	return "", fmt.Errorf("evidence %q: want sbom, spdx, provenance, eval or the URI of a predicate type", name)
}

// BillOptions for [Workspace.Bill].
type BillOptions struct {
	Target   string // manifest of an index
	Format   string // cyclonedx, cyclonedx1.7 or spdx3
	Supplier string // publisher. Empty: unnamed
}

// Bill returns the bill of materials of an artifact.
func (w *Workspace) Bill(ctx context.Context, at *Located, opt BillOptions) ([]byte, error) {
	types := map[string]string{"cyclonedx": cycloneDXType, newestBill: cycloneDXType, "spdx3": spdxType}
	typ, ok := types[opt.Format]
	if !ok {
		return nil, fmt.Errorf("bill of materials: got format %q, want cyclonedx, cyclonedx1.7 or spdx3", opt.Format)
	}
	p, err := w.part(ctx, at, opt.Target)
	if err != nil {
		return nil, err
	}
	return w.predicate(ctx, at, p, typ, bom.Options{Supplier: opt.Supplier, Newest: opt.Format == newestBill})
}

// newestBill is the format of CycloneDX 1.7.
const newestBill = "cyclonedx1.7"

// part returns the manifest of an artifact, or that of one target of an index.
func (w *Workspace) part(ctx context.Context, at *Located, target string) (artifact.Part, error) {
	if _, err := at.identify(ctx); err != nil {
		return artifact.Part{}, err
	}
	var names []string
	for _, p := range at.tree.Parts {
		if at.tree.Index == nil || p.Target == target {
			return p, nil
		}
		names = append(names, p.Target)
	}
	return artifact.Part{}, fault(diag.NoTarget, fmt.Sprintf("%s has the targets %s", at.ref, strings.Join(names, ", ")), "--target names one")
}

// predicate returns the content of evidence that mm writes itself.
func (w *Workspace) predicate(ctx context.Context, at *Located, p artifact.Part, typ string, opt bom.Options) ([]byte, error) {
	a, err := w.describe(ctx, at, p)
	if err != nil {
		return nil, err
	}
	created, err := SourceDate()
	if err != nil {
		return nil, err
	}
	opt.Time, opt.Version = time.Now(), w.opt.Version
	if created != nil {
		opt.Time = *created
	}
	if typ == cycloneDXType {
		e, err := w.evidence(ctx, at, p)
		if err != nil {
			return nil, err
		}
		a.Metrics = metrics(e.evaluations())
	}
	switch typ {
	case cycloneDXType:
		return bom.CycloneDX(a, opt)
	case spdxType:
		return bom.SPDX3(a, opt)
	case provenanceType:
		return bom.Provenance(a, p.Target, opt, os.Getenv)
	}
	return nil, fmt.Errorf("%s: mm does not write this evidence: --predicate names a file of it", typ)
}

// describe returns the contents of a manifest for its evidence.
func (w *Workspace) describe(ctx context.Context, at *Located, p artifact.Part) (bom.Artifact, error) {
	a := p.Artifact
	out := bom.Artifact{
		Name: a.Name, Version: a.Version, Digest: p.Descriptor.Digest.String(),
		Description: a.Annotations[ocispec.AnnotationDescription], License: a.Annotations[ocispec.AnnotationLicenses],
	}
	r := newLayerReader(at.src, a)
	parts, err := r.parts(ctx, a, out.Digest)
	if err != nil {
		return out, err
	}
	owners := map[string]int{} // modules by name
	for i, part := range parts {
		m, err := r.manifest(ctx, part.Manifest)
		if err != nil {
			return out, err
		}
		one := bom.Module{Name: part.Name, Version: part.Version, Digest: part.Digest, Type: part.Type, Quant: part.Quant, DependsOn: part.needs}
		if m != nil {
			one.Description, one.License = m.Description, m.License
			one.Inputs, one.Outputs = portNames(m.Inputs), portNames(m.Outputs)
			for _, d := range m.Datasets {
				one.Datasets = append(one.Datasets, bom.Dataset{Name: d.Name, License: d.License, Source: d.Source, Digest: prefixed(d.SHA256)})
			}
		}
		owners[part.Name], out.Modules = i, append(out.Modules, one)
	}
	for _, l := range a.Layers {
		f := bom.File{Path: l.Path, Digest: l.Descriptor.Digest.String(), Format: l.Annotations[abi.AnnotationFormat]}
		i, ok := owners[l.Annotations[abi.AnnotationComponent]]
		switch {
		case len(parts) == 1 && parts[0].Digest == out.Digest: // the artifact is this module
			out.Modules[0].Files = append(out.Modules[0].Files, f)
		case ok:
			out.Modules[i].Files = append(out.Modules[i].Files, f)
		default:
			out.Files = append(out.Files, f)
		}
	}
	return out, nil
}

// prefixed returns hex digits of SHA-256 as a digest; "" without any.
func prefixed(digits string) string {
	if digits == "" {
		return ""
	}
	return "sha256:" + digits
}

// part is a module of an artifact and the modules that it needs.
type part struct {
	builds.Part
	needs []string
}

// parts lists the modules of a build, or the one that the artifact is.
func (r layerReader) parts(ctx context.Context, a *artifact.Artifact, digest string) ([]part, error) {
	if _, ok := r.layers[builds.AssemblyFile]; !ok {
		m, err := r.manifest(ctx, modules.FileName)
		if err != nil || m == nil {
			return nil, err
		}
		return []part{{Part: builds.Part{Name: m.Name, Version: m.Version, Type: m.Type, Digest: digest, Manifest: modules.FileName}}}, nil
	}
	data, err := r.read(ctx, builds.AssemblyFile)
	if err != nil {
		return nil, err
	}
	assembly, err := builds.ParseAssembly(data)
	if err != nil {
		return nil, err
	}
	needs := map[string][]string{}
	if assembly.HasCore() {
		for _, p := range assembly.Adapters {
			needs[p.Name] = []string{assembly.Core.Name}
		}
		for _, m := range assembly.Modalities {
			if m.Projects() {
				needs[m.Projector.Name] = []string{assembly.Core.Name, m.Encoder.Name}
			}
		}
		if assembly.Draft != nil {
			needs[assembly.Draft.Name] = []string{assembly.Core.Name}
		}
	}
	var list []part
	for _, p := range assembly.Parts() {
		if !slices.ContainsFunc(list, func(q part) bool { return q.Name == p.Name }) {
			list = append(list, part{p, needs[p.Name]})
		}
	}
	return list, nil
}

// portNames lists ports with their shapes.
func portNames(ports []abi.Port) []string {
	var out []string
	for _, p := range ports {
		out = append(out, p.String())
	}
	return out
}

// Attest signs evidence about an artifact and attaches it; of an index, to each manifest.
// If predicate is nil, mm writes the evidence itself.
func (w *Workspace) Attest(ctx context.Context, at *Located, typ string, predicate []byte, s *Signer) ([]sign.Signature, error) {
	return w.attest(ctx, at, typ, s, func(p artifact.Part) ([]byte, error) {
		if predicate != nil {
			return predicate, nil
		}
		return w.predicate(ctx, at, p, typ, bom.Options{})
	})
}

// attest signs evidence about each manifest of which has something; nil: nothing.
func (w *Workspace) attest(ctx context.Context, at *Located, typ string, s *Signer, has func(artifact.Part) ([]byte, error)) ([]sign.Signature, error) {
	if at.store == nil {
		return nil, fault(diag.NoArtifact, at.ref+" is at a registry", "mm pull it, attest it, mm push it")
	}
	if _, err := at.identify(ctx); err != nil {
		return nil, err
	}
	if err := w.recordable(ctx); err != nil {
		return nil, err
	}
	dst, err := registry.Open(at.store.Dir(), registry.Options{MustExist: true})
	if err != nil {
		return nil, err
	}
	defer dst.Close()
	var done []sign.Signature
	for _, p := range at.tree.Parts {
		var one []byte
		if one, err = has(p); err != nil {
			break
		}
		if one == nil {
			continue
		}
		a := sign.Attestation{PredicateType: typ, Predicate: json.RawMessage(one)}
		if err = checkEvidence(a, p.Descriptor); err != nil {
			err = fmt.Errorf("%s: %w", p.Descriptor.Digest, err)
			break
		}
		var signature sign.Signature
		if signature, err = sign.Attest(ctx, dst, p.Descriptor, a, s.Sealer, s.Options); err != nil {
			break
		}
		done = append(done, signature)
	}
	w.Record(ctx, audit.Entry{Action: "attest", Ref: at.ref, Digest: at.desc.Digest.String(), Keys: []string{s.Sealer.SealerID()}, Result: Outcome(err)})
	return done, err
}

// checkEvidence checks the contents of evidence about desc. Signers of other tools sign
// any JSON under any type, so a signature alone proves nothing about the contents.
func checkEvidence(a sign.Attestation, desc ocispec.Descriptor) error {
	switch a.PredicateType {
	case cycloneDXType:
		return bom.Check(a.Predicate, desc.Digest.String())
	case provenanceType:
		return bom.CheckProvenance(a.Predicate)
	case card.Type:
		return card.Check(a.Predicate)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(a.Predicate, &object); err != nil {
		return fmt.Errorf("predicate: %w", err)
	}
	if _, old := object["spdxVersion"]; a.PredicateType == spdxType && !old { // SPDX 2 has this field
		return bom.CheckSPDX3(a.Predicate, desc.Digest.String())
	}
	if len(object) == 0 {
		return fmt.Errorf("predicate of type %s: empty", a.PredicateType)
	}
	return nil
}

// requireEvidence checks that each type is attested for every manifest of an artifact, by
// keys that may release it, with contents that are valid.
func (w *Workspace) requireEvidence(ctx context.Context, at *Located, repository string, types []string) error {
	b, err := w.judges()
	if err != nil {
		return err
	}
	var list diag.List
	for _, p := range at.tree.Parts {
		for _, typ := range types {
			err := b.Require(ctx, at.src, repository, p.Descriptor, typ, func(a sign.Attestation) error { return checkEvidence(a, p.Descriptor) })
			if err != nil {
				what := at.ref
				if p.Target != "" {
					what += " (" + p.Target + ")"
				}
				list.Add(diag.NoEvidence, diag.Pos{}, fmt.Sprintf("%s: %v", what, err), "ask the publisher for it; mm attest adds your own")
			}
		}
	}
	return list.Err()
}
