package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/workspace/trust"
)

// Permission is a request of a skill of an artifact.
type Permission struct {
	Skill   string   `json:"skill"`             // NAME@VERSION
	Program string   `json:"program,omitempty"` // digest, for a grant in trust.yaml
	Asks    []string `json:"asks"`              // read:PATH, env:NAME, network:HOST, clock, random
}

// String describes the permission in a line.
func (p Permission) String() string {
	text := fmt.Sprintf("skill %s asks for", p.Skill)
	for _, a := range p.Asks {
		text += " " + a
	}
	if p.Program != "" {
		text += " (program " + p.Program + ")"
	}
	return text
}

// Grants returns the permissions that the user grants to skills: those of the
// user's trust file or of the file that decides alone. A project's file grants
// nothing.
func (w *Workspace) Grants() ([]modules.Grant, error) {
	t, err := trust.Load(cmp.Or(w.opt.Trust, w.TrustFile()))
	if err != nil {
		return nil, err
	}
	return t.Granted()
}

// permissions returns the requests of the skills of an artifact. Documents that
// cannot be parsed are left to those that use them.
func permissions(ctx context.Context, src content.Fetcher, a *artifact.Artifact) ([]Permission, error) {
	r := newLayerReader(src, a)
	parts, err := r.skills(ctx, a)
	if err != nil {
		return nil, err
	}
	var list []Permission
	for _, s := range parts {
		if s.Asks().Empty() {
			continue
		}
		p := Permission{Skill: s.ID(), Asks: s.Asks().List()}
		if m, err := r.manifest(ctx, s.Manifest); err != nil {
			return nil, err
		} else if m != nil && m.Runtime != nil {
			p.Program = r.program(s, m.Runtime)
		}
		list = append(list, p)
	}
	return list, nil
}

// layerReader reads the documents of an artifact, in a store or at a registry.
type layerReader struct {
	src    content.Fetcher
	layers map[string]artifact.Layer
}

// newLayerReader returns a reader of the layers of an artifact.
func newLayerReader(src content.Fetcher, a *artifact.Artifact) layerReader {
	r := layerReader{src, map[string]artifact.Layer{}}
	for _, l := range a.Layers {
		r.layers[l.Path] = l
	}
	return r
}

// skills returns the skills of a build, or the one that the artifact is.
func (r layerReader) skills(ctx context.Context, a *artifact.Artifact) ([]builds.SkillPart, error) {
	if a.Annotations[abi.AnnotationType] == string(abi.Skill) {
		m, err := r.manifest(ctx, modules.FileName)
		if err != nil || m == nil || m.Runtime == nil {
			return nil, err
		}
		s := builds.SkillPart{Part: builds.Part{Name: m.Name, Version: m.Version, Manifest: modules.FileName, Files: builds.Formats{}}, Allow: m.Runtime.Allow}
		for engine, path := range m.Runtime.Programs() {
			s.Files[engine] = []string{path}
		}
		return []builds.SkillPart{s}, nil
	}
	hasSkill := func(l artifact.Layer) bool { return l.Annotations[abi.AnnotationRole] == string(abi.Skill) }
	if _, ok := r.layers[builds.AssemblyFile]; !ok || !slices.ContainsFunc(a.Layers, hasSkill) {
		return nil, nil
	}
	data, err := r.read(ctx, builds.AssemblyFile)
	if err != nil {
		return nil, err
	}
	assembly, err := builds.ParseAssembly(data)
	if err != nil {
		return nil, nil
	}
	return assembly.Skills, nil
}

// program returns the digest of a skill's program.
func (r layerReader) program(s builds.SkillPart, runtime *modules.Runtime) string {
	engine, _ := runtime.Engine()
	if paths := s.Files[engine]; len(paths) == 1 {
		return runtime.ProgramDigest(r.layers[paths[0]].Descriptor.Digest.String())
	}
	return runtime.ProgramDigest("")
}

// manifest reads a module.yaml; nil if the artifact has none.
func (r layerReader) manifest(ctx context.Context, path string) (*modules.Manifest, error) {
	if _, ok := r.layers[path]; !ok {
		return nil, nil
	}
	data, err := r.read(ctx, path)
	if err != nil {
		return nil, err
	}
	m, list := modules.Parse(path, data)
	if list.Failed() {
		return nil, nil
	}
	return m, nil
}

// read reads a document and checks its digest.
func (r layerReader) read(ctx context.Context, path string) ([]byte, error) {
	desc := r.layers[path].Descriptor
	if desc.Size > maxSmall {
		return nil, fault(diag.HostileInput, fmt.Sprintf("%s of %d bytes is over the limit of %d", path, desc.Size, maxSmall), "do not use the artifact")
	}
	return content.FetchAll(ctx, r.src, desc)
}

// pulledPermissions returns the requests of the skills of the pulled targets, each
// skill once. A part that was not pulled is passed over.
func pulledPermissions(ctx context.Context, src content.ReadOnlyStorage, t *artifact.Tree, target string) ([]Permission, error) {
	var list []Permission
	for _, part := range t.Parts {
		if target != "" && part.Target != target {
			continue
		}
		found, err := permissions(ctx, src, part.Artifact)
		if errors.Is(err, errdef.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			if !slices.ContainsFunc(list, func(q Permission) bool { return q.Skill == p.Skill && q.Program == p.Program }) {
				list = append(list, p)
			}
		}
	}
	return list, nil
}

// Warn reports a fault to the user that work continues in spite of.
func (w *Workspace) Warn(err error) { w.say("warning: %v", err) }
