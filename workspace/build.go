package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/workspace/loose"
)

// maxSmall bounds a layer that is read into memory, in bytes.
const maxSmall = 4 << 20

// Build returns the target of the artifact as a build for engines: the
// requested one, the one that the argument named, or the first with the core;
// in a build without a core, the first with a function. A single core module
// or function is a build by itself.
func (v *Verified) Build(ctx context.Context, target string) (*builds.Build, error) {
	a, err := v.choose(ctx, target)
	if err != nil {
		return nil, err
	}
	return v.build(ctx, a, "")
}

// build returns an artifact as a build; of one of its functions alone, if a name is set.
func (v *Verified) build(ctx context.Context, a *artifact.Artifact, function string) (b *builds.Build, err error) {
	f := &files{v: v, artifact: a, layers: map[string]artifact.Layer{}}
	for _, l := range a.Layers {
		f.layers[l.Path] = l
	}
	if a.Foreign != "" || v.Identity.Kind == "" && a.Annotations[abi.AnnotationType] == "" && f.layers[builds.AssemblyFile].Path == "" {
		if b, err = v.foreign(ctx, f); err == nil {
			b.Digest = v.Digest
		}
		return b, err
	}
	b = &builds.Build{Manifests: map[string]*modules.Manifest{}, Files: f, Digest: v.Digest}
	if _, ok := f.layers[builds.AssemblyFile]; ok {
		b.Assembly, err = v.assembly(ctx, a)
	} else {
		b.Assembly, err = v.lone(ctx, f)
	}
	if err != nil {
		return nil, err
	}
	if function != "" {
		if b.Assembly = b.Assembly.Only(function); b.Assembly == nil {
			return nil, fmt.Errorf("%s: no function %s", v.Ref, function)
		}
	}
	for _, p := range b.Assembly.Parts() {
		if err := f.holds(p); err != nil {
			return nil, err
		}
		m, err := v.manifest(ctx, f, p)
		if err != nil {
			return nil, err
		}
		if m != nil {
			b.Manifests[p.Name] = m
		}
	}
	return b, nil
}

// manifest reads the manifest of a part; nil if the build has none.
func (v *Verified) manifest(ctx context.Context, f *files, p builds.Part) (*modules.Manifest, error) {
	l, ok := f.layers[p.Manifest]
	if !ok {
		return nil, nil
	}
	if l.Descriptor.Size > schemas.MaxBytes {
		return nil, fault(diag.HostileInput, fmt.Sprintf("%s: %s of %d bytes", v.Ref, l.Path, l.Descriptor.Size), "do not use the artifact")
	}
	data, err := v.small(ctx, l)
	if err != nil {
		return nil, err
	}
	m, list := modules.Parse(v.Ref+"/"+l.Path, data)
	if err := list.Err(); err != nil {
		return nil, err
	}
	return m, nil
}

// choose returns the manifest of the target.
func (v *Verified) choose(ctx context.Context, want string) (*artifact.Artifact, error) {
	if want == "" {
		want = v.at.target
	}
	if _, err := v.at.identify(ctx); err != nil {
		return nil, err
	}
	t := v.at.tree
	if t.Index == nil {
		if have := v.Identity.Target; want != "" && have != want {
			return nil, noTarget(want, []string{have})
		}
		return t.Parts[0].Artifact, nil
	}
	if want == "" && t.Index.Foreign {
		want = t.Pick(runtime.GOOS, runtime.GOARCH)
	}
	var names []string
	for _, p := range t.Parts {
		names = append(names, p.Target)
		if p.Target == want || want == "" && ships(p.Artifact, artifact.Layer.CoreModel) {
			return p.Artifact, nil
		}
		if want == "" && ships(p.Artifact, isFunction) {
			if assembly, err := v.assembly(ctx, p.Artifact); err != nil || !assembly.HasCore() {
				return p.Artifact, err
			}
		}
	}
	return nil, noTarget(want, names)
}

// assembly reads the assembly of a target; it is empty if there is none.
func (v *Verified) assembly(ctx context.Context, a *artifact.Artifact) (*builds.Assembly, error) {
	i := slices.IndexFunc(a.Layers, func(l artifact.Layer) bool { return l.Path == builds.AssemblyFile })
	if i < 0 {
		return &builds.Assembly{}, nil
	}
	data, err := v.small(ctx, a.Layers[i])
	if err != nil {
		return nil, err
	}
	assembly, err := builds.ParseAssembly(data)
	if err != nil {
		return nil, fault(diag.HostileInput, v.Ref+": "+err.Error(), "do not use the artifact")
	}
	return assembly, nil
}

func noTarget(want string, have []string) error {
	if want == "" {
		return fault(diag.NoTarget, "none of "+strings.Join(have, ", ")+" ships the core", "choose one with --target")
	}
	return fault(diag.NoTarget, fmt.Sprintf("%q; there is %s", want, cmp.Or(strings.Join(have, ", "), "one without a name")), "choose one with --target")
}

func ships(a *artifact.Artifact, what func(artifact.Layer) bool) bool {
	return slices.ContainsFunc(a.Layers, what)
}

// isFunction reports whether a layer is the weights of a function.
func isFunction(l artifact.Layer) bool {
	role := abi.ModuleType(l.Annotations[abi.AnnotationRole])
	return role == abi.Encoder || role == abi.Projector || role == abi.Decoder
}

// lone returns an assembly of a single module: a core, or a function.
func (v *Verified) lone(ctx context.Context, f *files) (*builds.Assembly, error) {
	a := f.artifact
	part := builds.Part{Name: a.Name, Version: a.Version, Type: abi.ModuleType(a.Annotations[abi.AnnotationType]), Manifest: modules.FileName, Files: builds.Formats{}}
	switch part.Type {
	case abi.Core, abi.DraftCore:
		part.Type = abi.Core
		for _, l := range a.Layers {
			if format := l.Annotations[abi.AnnotationFormat]; format == string(abi.GGUF) {
				part.Files[format] = append(part.Files[format], l.Path)
			}
		}
		return &builds.Assembly{Name: a.Name, Version: a.Version, ABI: abi.Version(a.Annotations[abi.AnnotationABI]), Core: part}, nil
	case abi.Encoder, abi.Decoder:
		m, err := v.manifest(ctx, f, part)
		if err != nil || m == nil {
			return nil, cmp.Or(err, fmt.Errorf("%s: no %s", v.Ref, modules.FileName))
		}
		for format, e := range m.Export {
			part.Files[string(format)] = e.Files()
		}
		return loose.FunctionAssembly(part, m), nil
	}
	return nil, diag.Hinted(fmt.Errorf("%s is a %s, which does not run by itself", a.Name, part.Type), "run a build that contains it")
}

// small reads a layer into memory.
func (v *Verified) small(ctx context.Context, l artifact.Layer) ([]byte, error) {
	if l.Descriptor.Size > maxSmall {
		return nil, fault(diag.HostileInput, fmt.Sprintf("%s: %s of %d bytes is over the limit of %d", v.Ref, l.Path, l.Descriptor.Size, maxSmall), "do not use the artifact")
	}
	r, err := v.at.store.Fetch(ctx, l.Descriptor)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, maxSmall))
}

// files are the layers of a verified artifact.
type files struct {
	v        *Verified
	artifact *artifact.Artifact
	layers   map[string]artifact.Layer

	mu      sync.Mutex
	scratch *fsx.Dir
}

// holds refuses a part whose files the artifact does not have.
func (f *files) holds(p builds.Part) error {
	for _, format := range slices.Sorted(maps.Keys(p.Files)) {
		for _, path := range p.Files[format] {
			if _, ok := f.layers[path]; !ok {
				return fault(diag.HostileInput, fmt.Sprintf("%s: %s names %s, which the artifact does not hold", f.v.Ref, p.ID(), path), "do not use the artifact")
			}
		}
	}
	return nil
}

// Sealed marks files whose bytes match their digests (runtimes.Bundle).
func (f *files) Sealed() {}

// Open implements builds.Files.
func (f *files) Open(name string) (*os.File, error) {
	path, err := f.Path(name)
	if err != nil {
		return nil, err
	}
	return fsx.OpenRegular(path)
}

// Path implements builds.Files.
func (f *files) Path(name string) (string, error) {
	l, ok := f.layers[name]
	if !ok {
		return "", fmt.Errorf("%s does not hold %s", f.v.Ref, name)
	}
	return filepath.Abs(f.v.at.store.BlobPath(l.Descriptor))
}

// Dir implements builds.Files. The folder is in the home and is removed when
// the workspace is closed.
func (f *files) Dir(ctx context.Context, names ...string) (string, error) {
	for _, name := range names {
		if _, ok := f.layers[name]; !ok {
			return "", fmt.Errorf("%s does not hold %s", f.v.Ref, name)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.scratch == nil {
		dir, err := f.v.w.scratch()
		if err != nil {
			return "", err
		}
		f.scratch = dir
	}
	opt := registry.CheckoutOptions{Link: true, Cached: true, Only: func(l artifact.Layer) bool { return slices.Contains(names, l.Path) }}
	if _, err := f.v.at.store.Checkout(ctx, f.artifact, f.scratch.Path(), opt); err != nil {
		return "", err
	}
	return f.scratch.Path(), nil
}

// scratch creates a private folder, which is removed when the workspace is closed:
// in the home or, if that cannot be written, in the system's temporary folder.
// Folders of killed processes are removed first.
func (w *Workspace) scratch() (*fsx.Dir, error) {
	top, err := fsx.Create(filepath.Join(w.home, scratchDir), 0o700, fsx.Options{})
	if err == nil {
		defer top.Close()
		var dir *fsx.Dir
		var done func() error
		if dir, done, err = top.Scratch(context.Background()); err == nil {
			w.later(done)
			return dir, nil
		}
	}
	temp, other := fsx.MkdirTemp("mm-run-*")
	if other != nil {
		return nil, errors.Join(err, other)
	}
	w.later(func() error { return fsx.RemoveAll(temp) })
	return fsx.Open(temp, fsx.Options{})
}
