package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/modelpack"
)

// claims compares the statements of an artifact with the documents inside it.
type claims struct {
	ref    string
	reader layerReader
	list   diag.List
}

// checkClaims refuses an artifact whose config or annotations contradict the
// documents inside it: module.yaml, the assembly, its lock and its graph. A
// signature covers all of them, but not that they agree. If target is not empty,
// only that target is read. Artifacts of other tools state nothing that mm uses.
func checkClaims(ctx context.Context, src content.Fetcher, ref string, t *artifact.Tree, target string) error {
	c := &claims{ref: ref}
	if t.Index != nil && !t.Index.Foreign {
		c.index(t)
	}
	for _, p := range t.Parts {
		if p.Artifact.Foreign != "" || target != "" && p.Target != "" && p.Target != target {
			continue
		}
		c.reader = newLayerReader(src, p.Artifact)
		if err := c.part(ctx, p.Artifact); err != nil {
			return err
		}
	}
	return c.list.Err()
}

// differs reports a statement that has another value in the documents.
func (c *claims) differs(what, got, want string) {
	c.list.Add(diag.ClaimDiffers, diag.Pos{}, fmt.Sprintf("%s: %s: got %q, want %q as in its contents", c.ref, what, shorten(got), shorten(want)),
		"do not use the artifact; ask its publisher to assemble it again")
}

// compare is differs if there is a statement and it has another value.
func (c *claims) compare(what, got, want string) {
	if got != "" && got != want {
		c.differs(what, got, want)
	}
}

// index compares an index with its targets.
func (c *claims) index(t *artifact.Tree) {
	for i, p := range t.Parts {
		notes := maps.Clone(p.Artifact.Annotations)
		c.compare("target of "+p.Target, notes[abi.AnnotationTarget], p.Target)
		delete(notes, abi.AnnotationTarget)
		c.annotations(t.Index.Annotations, notes)
		if at := t.Index.Entries[i].Platform; at != nil && p.Artifact.Type == abi.ArtifactEngine {
			c.compare("platform of "+p.Target, EngineTarget(at.OS, at.Architecture), p.Target)
		}
	}
}

// annotations compares those annotations that have a meaning.
func (c *claims) annotations(got, want map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(got)) {
		switch {
		case strings.HasPrefix(key, abi.AnnotationPrefix), key == ocispec.AnnotationVersion, key == ocispec.AnnotationTitle,
			key == ocispec.AnnotationLicenses, key == ocispec.AnnotationDescription, key == ocispec.AnnotationCreated:
			c.compare("annotation "+key, got[key], want[key])
		}
	}
}

// part compares a manifest and its config with its documents.
func (c *claims) part(ctx context.Context, a *artifact.Artifact) error {
	_, assembled := c.reader.layers[builds.AssemblyFile]
	kind := a.Annotations[abi.AnnotationKind]
	switch {
	case a.Type == abi.ArtifactEngine || kind == abi.KindEngine:
		c.compare("annotation "+abi.AnnotationKind, kind, abi.KindEngine)
		c.config(a, artifact.ModelConfig{Descriptor: artifact.ModelDescriptor{Name: a.Name, Version: a.Version}}, nil)
		return nil
	case assembled || kind == abi.KindAssembly:
		return c.assembly(ctx, a)
	case kind == abi.KindModule || a.Annotations[abi.AnnotationType] != "":
		return c.module(ctx, a)
	}
	return nil
}

// module compares a module with its module.yaml.
func (c *claims) module(ctx context.Context, a *artifact.Artifact) error {
	m, err := c.manifest(ctx, modules.FileName)
	if err != nil {
		return err
	}
	c.annotations(a.Annotations, modelpack.Annotations(m))
	var formats []string
	for f := range m.Export {
		formats = append(formats, string(f))
	}
	c.config(a, modelpack.Config(m), formats)
	paths := m.Paths()
	for _, path := range paths {
		if _, ok := c.reader.layers[path]; !ok {
			c.differs("files", "none", path)
		}
	}
	for _, l := range a.Layers {
		if !slices.Contains(paths, l.Path) && !modules.IsLegal(l.Path) {
			c.differs("files", l.Path, "no such file")
		}
		c.layer(l, modelpack.Layer(m, l.Path).Annotations)
	}
	if list := modelpack.Declared(m, a.Layers); list.Failed() {
		c.differs("files", list[0].Detail, "the declared digest")
	}
	return nil
}

// manifest reads a module.yaml.
func (c *claims) manifest(ctx context.Context, path string) (*modules.Manifest, error) {
	data, err := c.document(ctx, path)
	if err != nil {
		return nil, err
	}
	m, list := modules.Parse(path, data)
	if list.Failed() {
		return nil, c.unreadable(path, list.Err())
	}
	return m, nil
}

// document reads a document.
func (c *claims) document(ctx context.Context, path string) ([]byte, error) {
	if _, ok := c.reader.layers[path]; !ok {
		return nil, c.unreadable(path, errors.New("missing"))
	}
	return c.reader.read(ctx, path)
}

// unreadable refuses an artifact without a valid document.
func (c *claims) unreadable(path string, err error) error {
	return fault(diag.ClaimDiffers, fmt.Sprintf("%s: %s: %v", c.ref, path, err), "do not use the artifact; ask its publisher to assemble it again")
}

// layer compares the annotations of a file.
func (c *claims) layer(l artifact.Layer, want map[string]string) {
	for _, key := range []string{abi.AnnotationComponent, abi.AnnotationRole, abi.AnnotationVersion, abi.AnnotationFormat, abi.AnnotationQuant, abi.AnnotationBackend} {
		c.compare("annotation "+key+" of "+l.Path, l.Annotations[key], want[key])
	}
}

// config compares a config with the one that follows from the documents. Statements for
// which no document has a value, such as the number of parameters, are refused.
// The format is one of formats.
func (c *claims) config(a *artifact.Artifact, want artifact.ModelConfig, formats []string) {
	got, none := a.Config, &artifact.ModelCapabilities{}
	if !slices.Contains(formats, got.Config.Format) {
		c.compare("config format", got.Config.Format, strings.Join(formats, " or "))
	}
	can, may := cmp.Or(got.Config.Capabilities, none), cmp.Or(want.Config.Capabilities, none)
	created := a.Annotations[ocispec.AnnotationCreated]
	if at := got.Descriptor.CreatedAt; at != nil && created != "" {
		c.compare("config createdAt", at.UTC().Format(time.RFC3339), created)
	}
	for _, row := range []struct{ what, got, want string }{
		{"name", got.Descriptor.Name, want.Descriptor.Name},
		{"version", got.Descriptor.Version, want.Descriptor.Version},
		{"description", got.Descriptor.Description, want.Descriptor.Description},
		{"licenses", strings.Join(got.Descriptor.Licenses, ", "), strings.Join(want.Descriptor.Licenses, ", ")},
		{"architecture", got.Config.Architecture, want.Config.Architecture},
		{"paramSize", got.Config.ParamSize, want.Config.ParamSize},
		{"precision", got.Config.Precision, want.Config.Precision},
		{"quantization", got.Config.Quantization, want.Config.Quantization},
		{"inputTypes", strings.Join(can.InputTypes, ", "), strings.Join(may.InputTypes, ", ")},
		{"outputTypes", strings.Join(can.OutputTypes, ", "), strings.Join(may.OutputTypes, ", ")},
		{"languages", strings.Join(can.Languages, ", "), strings.Join(may.Languages, ", ")},
		{"reasoning", yes(can.Reasoning), yes(may.Reasoning)},
		{"toolUsage", yes(can.ToolUsage), yes(may.ToolUsage)},
	} {
		c.compare("config "+row.what, row.got, row.want)
	}
}

// yes returns "true" for true, otherwise "": a capability that is left out is not claimed.
func yes(b *bool) string {
	if b != nil && *b {
		return "true"
	}
	return ""
}
