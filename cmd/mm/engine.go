package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/urfave/cli/v2"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/workspace"
)

// engineCommands push, pull and remove engines, as artifacts.
func (p *program) engineCommands() []*cli.Command {
	return []*cli.Command{
		{
			Name: "push", Usage: "send an installed engine to a registry or layout", ArgsUsage: "NAME[@VERSION] DEST",
			Description: "The engine becomes an artifact: its libraries and licenses as raw layers, and an index of\n" +
				"its platforms. DEST is HOST/REPOSITORY[:TAG] or oci:DIR[:NAME], and the\n" +
				"repository must have the name of the engine. Without --sign, other machines refuse it by default.",
			Flags: append([]cli.Flag{
				p.jsonFlag(), &cli.StringFlag{Name: "sign", Usage: "sign with the private key `FILE` (\"default\": the key of mm keys generate)"},
				&cli.StringSliceFlag{Name: "with", Usage: "libraries for another platform, `OS/ARCH=FOLDER|ARCHIVE.tgz`; they are not tried"}, expectFlag(),
			}, remoteFlags()...),
			Action: func(c *cli.Context) error {
				return p.enginePush(c.Context, remoteOptions(c, "."), enginePush{
					engine: c.Args().Get(0), dest: c.Args().Get(1), sign: c.String("sign"), with: c.StringSlice("with"), push: workspace.PushOptions{Expect: c.String("expect")},
				})
			},
		},
		{
			Name: "pull", Usage: "verify an engine at a registry or layout and install it", ArgsUsage: "REF",
			Description: "Like mm pull: name, version, kind and signatures are checked before a library is fetched. After\n" +
				"all bytes are verified, the library is loaded once to check that it works.",
			Flags: append(append([]cli.Flag{p.jsonFlag(), expectFlag()}, remoteFlags()...), claimFlags()...),
			Action: func(c *cli.Context) error {
				return p.enginePull(c.Context, remoteOptions(c, "."), c.Args().First(), claimOptions(c))
			},
		},
		{
			Name: "rm", Usage: "remove an installed engine", ArgsUsage: "NAME[@VERSION]",
			Action: func(c *cli.Context) error {
				return p.engineRemove(c.Context, c.Args().First())
			},
		},
	}
}

// enginePush holds the options of mm runtime push.
type enginePush struct {
	engine, dest, sign string
	with               []string
	push               workspace.PushOptions
}

func (p *program) enginePush(ctx context.Context, open workspace.Options, opt enginePush) (err error) {
	r, err := installed(opt.engine)
	if err != nil {
		return err
	}
	if err := native.Portable(r.Name); err != nil {
		return err
	}
	e := workspace.Engine{
		Name: r.Name, Version: r.Version, License: r.License, Source: r.Source, Upstream: r.Upstream,
		Systems: []workspace.EngineSystem{{OS: runtime.GOOS, Arch: runtime.GOARCH, Dir: r.Dir, Files: r.Files}},
	}
	if filepath.IsAbs(r.Source) { // a local path is private
		e.Source = filepath.Base(r.Source)
	}
	home, err := workspace.DefaultHome()
	if err != nil {
		return err
	}
	scratch, clear, err := native.Scratch(ctx, home)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clear()) }()
	for i, text := range opt.with {
		s, err := another(ctx, r.Name, text, filepath.Join(scratch, fmt.Sprint(i)))
		if err != nil {
			return err
		}
		e.Systems = append(e.Systems, s)
	}
	t := p.newTransfer("pushing")
	open.Progress = t.event
	w, err := p.open(open)
	if err != nil {
		return err
	}
	defer w.Close()
	key, err := p.signer(w, opt.sign)
	if err != nil {
		return err
	}
	added, err := w.AddEngine(ctx, e, key)
	if err != nil {
		return err
	}
	done, err := w.Push(ctx, added.Ref, opt.dest, opt.push)
	t.wait()
	if errors.Is(err, errdef.ErrInvalidReference) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	if p.json {
		done.Report.Tags = listed(done.Report.Tags)
		return p.printJSON(map[string]any{"ref": done.Ref, "digest": done.Digest, "report": done.Report})
	}
	_, err = fmt.Fprintf(p.stdout, "%s@%s\n", done.Ref, done.Digest)
	return err
}

// another parses OS/ARCH=FROM and collects the libraries for that platform.
func another(ctx context.Context, name, text, dir string) (s workspace.EngineSystem, err error) {
	system, from, ok := strings.Cut(text, "=")
	s.OS, s.Arch, _ = strings.Cut(system, "/")
	if !ok || !abi.ValidTarget(workspace.EngineTarget(s.OS, s.Arch)) || s.OS == "" || s.Arch == "" {
		return s, usageError{fmt.Errorf("--with %s: want OS/ARCH=FOLDER", text)}
	}
	s.Dir = filepath.Join(dir, "engine")
	s.Files, err = native.Files(ctx, name, s.OS, s.Arch, from, dir)
	return s, err
}

// installed finds an installed engine by NAME or NAME@VERSION. Without a version,
// it is the newest.
func installed(arg string) (native.Record, error) {
	home, err := workspace.DefaultHome()
	if err != nil {
		return native.Record{}, err
	}
	return native.Installed(home, arg)
}

func (p *program) enginePull(ctx context.Context, open workspace.Options, ref string, claim workspace.Claim) (err error) {
	home, err := workspace.DefaultHome()
	if err != nil {
		return err
	}
	scratch, clear, err := native.Scratch(ctx, home)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clear()) }()
	t := p.newTransfer("pulling")
	open.Progress = t.event
	w, err := p.open(open)
	if err != nil {
		return err
	}
	defer w.Close()
	dir := filepath.Join(scratch, "files")
	got, err := w.Pull(ctx, ref, workspace.PullOptions{Claim: claim, Kind: abi.KindEngine, Target: workspace.EngineTarget(runtime.GOOS, runtime.GOARCH), Out: dir})
	t.wait()
	if errors.Is(err, errdef.ErrInvalidReference) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	opt := native.Options{
		Name: got.Identity.Name, From: dir, Source: ref + "@" + got.Digest, Version: got.Identity.Version,
		Say: func(text string) { p.say("%s", text) },
	}
	if strings.Contains(ref, "@") {
		opt.Source = ref
	}
	for _, k := range got.Keys {
		opt.SignedBy = append(opt.SignedBy, k.ID)
	}
	return p.installEngine(ctx, opt)
}

func (p *program) engineRemove(ctx context.Context, arg string) error {
	r, err := installed(arg)
	if err != nil {
		return err
	}
	if err := native.Remove(ctx, r); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "%s %s removed from %s\n", r.Name, r.Version, r.Dir)
	return err
}
