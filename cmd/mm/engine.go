package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/workspace"
)

// engineCommands move engines between machines, as artifacts, and take them
// away.
func (p *program) engineCommands() []*cli.Command {
	return []*cli.Command{
		{
			Name: "push", Usage: "send an installed engine to a registry or layout", ArgsUsage: "NAME[@VERSION] DEST",
			Description: "The engine becomes an artifact as any other: its libraries and licences as raw layers, an index\n" +
				"over the systems that it is for. DEST is HOST/REPOSITORY[:TAG] or oci:DIR[:NAME], and the\n" +
				"repository is called as the engine. Without --sign no mm will pull it unasked.",
			Flags: append([]cli.Flag{
				p.jsonFlag(), &cli.StringFlag{Name: "sign", Usage: "sign with the private key `FILE` (\"default\": the one of mm keys generate)"},
				&cli.StringSliceFlag{Name: "with", Usage: "the libraries of another system as well, `OS/ARCH=FOLDER|ARCHIVE.tgz`; they are not tried"}, expectFlag(),
			}, remoteFlags()...),
			Action: func(c *cli.Context) error {
				if err := wantArgs(c, 2, 2); err != nil {
					return err
				}
				return p.enginePush(c.Context, remoteOptions(c, "."), enginePush{
					engine: c.Args().Get(0), dest: c.Args().Get(1), sign: c.String("sign"), with: c.StringSlice("with"), push: workspace.PushOptions{Expect: c.String("expect")},
				})
			},
		},
		{
			Name: "pull", Usage: "verify an engine at a registry or layout and install it", ArgsUsage: "REF",
			Description: "As mm pull: name, version, kind and signatures are checked by your trust before a library is\n" +
				"fetched, every byte is hashed, and only then the library is loaded, once, to see that it fits.",
			Flags: append(append([]cli.Flag{p.jsonFlag(), expectFlag()}, remoteFlags()...), claimFlags()...),
			Action: func(c *cli.Context) error {
				if err := wantArgs(c, 1, 1); err != nil {
					return err
				}
				return p.enginePull(c.Context, remoteOptions(c, "."), c.Args().First(), claimOptions(c))
			},
		},
		{
			Name: "rm", Usage: "take an installed engine away", ArgsUsage: "NAME[@VERSION]",
			Action: func(c *cli.Context) error {
				if err := wantArgs(c, 1, 1); err != nil {
					return err
				}
				return p.engineRemove(c.Context, c.Args().First())
			},
		},
	}
}

// enginePush is what mm runtime push is asked for.
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
	if filepath.IsAbs(r.Source) { // a folder is nobody else's business
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

// another reads OS/ARCH=FROM and takes the libraries for that system.
func another(ctx context.Context, name, text, dir string) (s workspace.EngineSystem, err error) {
	system, from, ok := strings.Cut(text, "=")
	s.OS, s.Arch, _ = strings.Cut(system, "/")
	if !ok || !abi.ValidTarget(workspace.EngineTarget(s.OS, s.Arch)) || s.OS == "" || s.Arch == "" {
		return s, usageError{fmt.Errorf("--with %s is not OS/ARCH=FOLDER", text)}
	}
	s.Dir = filepath.Join(dir, "engine")
	s.Files, err = native.Files(ctx, name, s.OS, s.Arch, from, dir)
	return s, err
}

// installed finds NAME, or NAME@VERSION, among the installed engines; the
// newest where no version is said.
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
	_, err = fmt.Fprintf(p.stdout, "%s %s is gone from %s\n", r.Name, r.Version, r.Dir)
	return err
}

// origin says where an engine came from and who vouches for it.
func origin(r native.Record) string {
	switch {
	case len(r.SignedBy) > 0:
		return r.Source + ", released by key " + strings.Join(r.SignedBy, ", ")
	case r.Pinned:
		return r.Source + " (digest as released)"
	}
	return r.Source + " (not the bytes that this mm was released with)"
}

// notices are the files that hold an engine's licences.
func notices(r native.Record) []string {
	var list []string
	for name := range r.Files {
		upper := strings.ToUpper(name)
		for _, begin := range []string{"LICEN", "NOTICE", "THIRDPARTY", "COPYING", "QUALCOMM_LICEN"} {
			if strings.HasPrefix(upper, begin) {
				list = append(list, filepath.Join(r.Dir, name))
			}
		}
	}
	slices.Sort(list)
	return list
}
