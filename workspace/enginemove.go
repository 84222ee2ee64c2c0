package workspace

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/runtimes/native"
)

// EnginePush are the options of [Workspace.PushEngine].
type EnginePush struct {
	Engine string   // NAME or NAME@VERSION of an installed engine; without a version, the newest
	Dest   string   // as for [Workspace.Push]
	With   []string // libraries for other systems: OS/ARCH=FOLDER, or an archive
	Signer assemble.Signer
	Push   PushOptions
}

// PushEngine packs an installed engine and sends it to a registry or layout.
func (w *Workspace) PushEngine(ctx context.Context, opt EnginePush) (done *Pushed, err error) {
	r, err := native.Installed(w.home, opt.Engine)
	if err != nil {
		return nil, err
	}
	if err := native.Portable(r.Name); err != nil {
		return nil, err
	}
	e := Engine{
		Name: r.Name, Version: r.Version, License: r.License, Source: r.Source, Upstream: r.Upstream,
		Systems: []EngineSystem{{OS: runtime.GOOS, Arch: runtime.GOARCH, Dir: r.Dir, Files: r.Files}},
	}
	if filepath.IsAbs(r.Source) { // a local path is private
		e.Source = filepath.Base(r.Source)
	}
	scratch, clear, err := native.Scratch(ctx, w.home)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, clear()) }()
	for i, text := range opt.With {
		s, err := anotherSystem(ctx, r.Name, text, filepath.Join(scratch, fmt.Sprint(i)))
		if err != nil {
			return nil, err
		}
		e.Systems = append(e.Systems, s)
	}
	added, err := w.AddEngine(ctx, e, opt.Signer)
	if err != nil {
		return nil, err
	}
	return w.Push(ctx, added.Ref, opt.Dest, opt.Push)
}

// ErrSystem reports an invalid element of EnginePush.With.
var ErrSystem = errors.New("want OS/ARCH=FOLDER")

// anotherSystem parses OS/ARCH=FROM and collects the libraries for that system.
func anotherSystem(ctx context.Context, name, text, dir string) (s EngineSystem, err error) {
	system, from, ok := strings.Cut(text, "=")
	s.OS, s.Arch, _ = strings.Cut(system, "/")
	if !ok || !abi.ValidTarget(EngineTarget(s.OS, s.Arch)) || s.OS == "" || s.Arch == "" {
		return s, fmt.Errorf("--with %s: %w", text, ErrSystem)
	}
	s.Dir = filepath.Join(dir, "engine")
	s.Files, err = native.Files(ctx, name, s.OS, s.Arch, from, dir)
	return s, err
}

// PullEngine pulls an engine for this system to a temporary folder, which clear
// removes, and returns how to install it from there.
func (w *Workspace) PullEngine(ctx context.Context, ref string, claim Claim) (opt native.Options, clear func() error, err error) {
	scratch, clear, err := native.Scratch(ctx, w.home)
	if err != nil {
		return opt, nil, err
	}
	dir := filepath.Join(scratch, "files")
	got, err := w.Pull(ctx, ref, PullOptions{Claim: claim, Kind: abi.KindEngine, Target: EngineTarget(runtime.GOOS, runtime.GOARCH), Out: dir})
	if err != nil {
		return opt, nil, errors.Join(err, clear())
	}
	opt = native.Options{Name: got.Identity.Name, From: dir, Source: ref + "@" + got.Digest, Version: got.Identity.Version}
	if strings.Contains(ref, "@") {
		opt.Source = ref
	}
	for _, k := range got.Keys {
		opt.SignedBy = append(opt.SignedBy, k.ID)
	}
	return opt, clear, nil
}
