package workspace

import (
	"context"
	"errors"
	"path"
	"slices"

	"mm-abi.org/mm/builds/servers"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/artifact"
)

// ServerOptions for [Workspace.ExportServer].
type ServerOptions struct {
	Claim
	Kind   servers.Kind
	Target string // of a build. Empty: the first with the core
	Out    string // folder, absent or empty
	servers.ManifestOptions
}

// WebOptions for [Workspace.ExportWeb].
type WebOptions struct {
	Claim
	Target  string // of a build. Empty: the first with the core
	Out     string // folder, absent or empty
	Runtime servers.WebRuntime
}

// ExportWeb writes a static page that runs the functions of a verified build, and
// returns the paths of the files below the folder.
func (w *Workspace) ExportWeb(ctx context.Context, arg string, opt WebOptions) ([]string, error) {
	v, err := w.UseTarget(ctx, arg, opt.Target, opt.Claim)
	if err != nil {
		return nil, err
	}
	b, err := v.Build(ctx, opt.Target)
	if err != nil {
		return nil, err
	}
	files, err := servers.Web(ctx, b, opt.Runtime)
	if err != nil {
		return nil, err
	}
	return written(ctx, opt.Out, files, b.Files)
}

// written writes files and returns their paths.
func written(ctx context.Context, dir string, files []servers.File, from servers.Opener) ([]string, error) {
	if err := servers.Write(ctx, dir, files, from); err != nil {
		return nil, err
	}
	var paths []string
	for _, f := range files {
		paths = append(paths, f.Path)
	}
	return paths, nil
}

// ExportServer writes a verified artifact in the form of an inference server and returns
// the paths of the files below the folder. Kinds that refer to a registry take an
// artifact at one, which is verified there.
func (w *Workspace) ExportServer(ctx context.Context, arg string, opt ServerOptions) ([]string, error) {
	if opt.Kind == servers.VLLM {
		return w.exportCore(ctx, arg, opt)
	}
	files, from, err := w.serverFiles(ctx, arg, opt)
	if err != nil {
		return nil, err
	}
	return written(ctx, opt.Out, files, from)
}

// exportCore writes the core of a build as a folder of transformers.
func (w *Workspace) exportCore(ctx context.Context, arg string, opt ServerOptions) ([]string, error) {
	v, err := w.UseTarget(ctx, arg, opt.Target, opt.Claim)
	if err != nil {
		return nil, err
	}
	b, err := v.Build(ctx, opt.Target)
	if err != nil {
		return nil, err
	}
	files, notes, err := servers.Core(ctx, b, opt.Out)
	for _, note := range notes {
		w.Warn(errors.New(note))
	}
	return files, err
}

func (w *Workspace) serverFiles(ctx context.Context, arg string, opt ServerOptions) ([]servers.File, servers.Opener, error) {
	if opt.Kind.Published() {
		p, err := w.publication(ctx, arg, opt.Claim)
		if err != nil {
			return nil, nil, err
		}
		files, err := servers.Manifest(p, opt.Kind, opt.ManifestOptions)
		return files, nil, err
	}
	v, err := w.UseTarget(ctx, arg, opt.Target, opt.Claim)
	if err != nil {
		return nil, nil, err
	}
	b, err := v.Build(ctx, opt.Target)
	if err != nil {
		return nil, nil, err
	}
	files, err := servers.Repository(b, opt.Kind)
	return files, b.Files, err
}

// publication verifies an artifact at a registry and describes it.
func (w *Workspace) publication(ctx context.Context, arg string, claim Claim) (servers.Publication, error) {
	var p servers.Publication
	at, err := w.FindRemote(ctx, arg)
	if err != nil {
		return p, err
	}
	if at.remote.Layout != "" || !at.Remote() {
		return p, fault(diag.NotServed, arg+": want HOST/REPOSITORY:TAG: a cluster reads it from a registry", "mm push sends it to one")
	}
	j, _, _, err := w.Verify(ctx, at, claim)
	if err != nil {
		return p, err
	}
	one := at.tree.Parts[0].Artifact
	return servers.Publication{
		Name: path.Base(at.remote.Ref.Name), Place: at.remote.Place(), Digest: j.Digest,
		Image: at.tree.Index == nil && one.IsImage(),
		Core:  at.tree.Index == nil && slices.ContainsFunc(one.Layers, artifact.Layer.CoreModel),
	}, nil
}
