package workspace

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
)

// Engine is a native engine's libraries, as [Workspace.AddEngine] packs them.
type Engine struct {
	Name, Version string
	License       string // SPDX
	Source        string // where they came from
	Upstream      string // digest of the package they came in; empty: none is known
	Systems       []EngineSystem
}

// EngineSystem is an engine's files for one system.
type EngineSystem struct {
	OS, Arch string
	Dir      string
	Files    map[string]string // names in Dir → sha256:…, which they must still be
}

// EngineTarget returns the target name of a system in an engine's index.
func EngineTarget(os, arch string) string { return os + "-" + arch }

// AddEngine packs an engine into the store as NAME:VERSION: an index over a
// manifest for each system, signed if signer is not nil.
func (w *Workspace) AddEngine(ctx context.Context, e Engine, signer assemble.Signer) (*Added, error) {
	if len(e.Systems) == 0 {
		return nil, errors.New("an engine for no system")
	}
	store, err := w.kept()
	if err != nil {
		return nil, err
	}
	if signer != nil {
		if err := w.recordable(ctx); err != nil {
			return nil, err
		}
	}
	notes := map[string]string{
		abi.AnnotationKind: abi.KindEngine, abi.AnnotationName: e.Name, abi.AnnotationVersion: e.Version,
		ocispec.AnnotationTitle: e.Name, ocispec.AnnotationVersion: e.Version, ocispec.AnnotationLicenses: e.License, ocispec.AnnotationSource: e.Source,
	}
	if e.Upstream != "" {
		notes[abi.AnnotationUpstream] = e.Upstream
	}
	added := &Added{Ref: e.Name + ":" + abi.VersionTag(e.Version)}
	var entries []artifact.IndexEntry
	for _, s := range e.Systems {
		desc, size, err := addSystem(ctx, store, e, s, notes)
		if err != nil {
			return nil, fmt.Errorf("packing %s for %s/%s: %w", e.Name, s.OS, s.Arch, err)
		}
		added.Size += size
		entries = append(entries, artifact.IndexEntry{Descriptor: desc, Target: EngineTarget(s.OS, s.Arch), Platform: &ocispec.Platform{OS: s.OS, Architecture: s.Arch}})
	}
	slices.SortFunc(entries, func(a, b artifact.IndexEntry) int { return strings.Compare(a.Target, b.Target) })
	desc, err := artifact.PackIndex(ctx, store, entries, notes)
	if err != nil {
		return nil, err
	}
	added.Digest = desc.Digest.String()
	if signer != nil {
		if _, err := signer.Sign(ctx, store, desc); err != nil {
			return nil, err
		}
		w.Record(ctx, audit.Entry{Action: "sign", Ref: added.Ref, Digest: added.Digest, Result: "ok"})
	}
	// An engine with one more system is other bytes of the same version.
	return added, claim(ctx, store, desc, added.Ref, true)
}

func addSystem(ctx context.Context, store *registry.Store, e Engine, s EngineSystem, notes map[string]string) (none ocispec.Descriptor, size int64, err error) {
	a := artifact.Artifact{Type: abi.ArtifactEngine, Name: e.Name, Version: e.Version, Annotations: map[string]string{abi.AnnotationTarget: EngineTarget(s.OS, s.Arch)}}
	for key, value := range notes {
		a.Annotations[key] = value
	}
	for name, want := range s.Files {
		media, role := abi.MediaCode, abi.KindEngine
		if !isLibrary(name) {
			media, role = abi.MediaDoc, abi.RoleDoc
		}
		desc, err := store.AddFile(ctx, filepath.Join(s.Dir, filepath.FromSlash(name)), cas.AddOptions{MediaType: media})
		if err != nil {
			return none, 0, err
		}
		if desc.Digest.String() != want {
			return none, 0, fmt.Errorf("%s is not the file that was installed: it is %s and was %s", name, desc.Digest, want)
		}
		a.Layers = append(a.Layers, artifact.Layer{Path: name, Descriptor: desc, Annotations: map[string]string{abi.AnnotationRole: role}})
	}
	desc, err := artifact.Pack(ctx, store, a)
	return desc, a.Size(), err
}

// isLibrary reports whether a file is a shared library.
func isLibrary(name string) bool {
	base := path.Base(name)
	return strings.Contains(base, ".so") || strings.HasSuffix(base, ".dylib") || strings.HasSuffix(base, ".dll")
}
