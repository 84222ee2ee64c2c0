package main

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/diag"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/remote"
	"mm-abi.org/mm/resolve"
)

// resolveFlags choose where references are looked up and how the lock counts.
func resolveFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "locked", Usage: "refuse any drift from the lock file"},
		&cli.BoolFlag{Name: "offline", Usage: "do not use the network"},
		&cli.StringSliceFlag{Name: "plain-http", Usage: "speak HTTP without TLS to `HOST[:PORT]` (loopback needs no flag)"},
	}
}

func (p *program) assembleCommand() *cli.Command {
	return &cli.Command{
		Name: "assemble", Usage: "check, export and compose a build into OCI artifacts", ArgsUsage: "GRAPH",
		Description: "DIR of --out becomes an OCI image layout with a folder of named files for each\n" +
			"target beside it. The build is in the store as NAME:VERSION as well.",
		Flags: append(append([]cli.Flag{
			p.jsonFlag(),
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "output folder `DIR`"},
			&cli.StringFlag{Name: "target", Usage: "build only this target of the graph"},
			&cli.StringSliceFlag{Name: "export", Usage: "`SPEC` in place of the graph's exports: gguf=int4,kv=fp8 or onnx=NAME,NAME"},
			&cli.StringFlag{Name: "sign", Usage: "sign with the private key `FILE` (\"default\": the one of mm keys generate)"},
			forceFlag(),
			&cli.BoolFlag{Name: "keep-going", Usage: "leave out targets that cannot be built, build the others"},
		}, resolveFlags()...), trustFlags()...),
		Action: p.assemble,
	}
}

func (p *program) assemble(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	store, err := openStore()
	if err != nil {
		return err
	}
	defer store.Close()
	opt := assemble.Options{
		Graph: c.Args().First(), Out: c.String("out"), Target: c.String("target"), Exports: c.StringSlice("export"),
		KeepGoing: c.Bool("keep-going"), Force: c.Bool("force"), Store: store, Progress: p.step,
	}
	if opt.Signer, err = p.assembleSigner(c.String("sign")); err != nil {
		return err
	}
	result, err := p.build(c, opt)
	if err != nil {
		return err
	}
	if opt.Signer != nil {
		p.record(c.Context, audit.Entry{Action: "sign", Ref: result.Ref, Digest: result.Digest, Result: "ok"})
	}
	return p.printResult(result)
}

// assembleSigner is the Signer that --sign asks for; nil without the flag.
func (p *program) assembleSigner(key string) (assemble.Signer, error) {
	switch key {
	case "":
		return nil, nil
	case "default":
		key = ""
	}
	s, err := p.newSigner(key)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// build runs assemble with the resolver, the cache and the date of this
// command.
func (p *program) build(c *cli.Context, opt assemble.Options) (*assemble.Result, error) {
	dir, err := home()
	if err != nil {
		return nil, err
	}
	opt.Cache, opt.Exporters = filepath.Join(dir, cacheDir), exporters()
	if opt.Created, err = sourceDate(); err != nil {
		return nil, err
	}
	opt.Resolver = &resolver{p: p, c: c, store: opt.Store, locked: c.Bool("locked")}
	return assemble.Assemble(c.Context, opt)
}

// step tells what assemble is doing.
func (p *program) step(step, detail string) {
	if detail != "" {
		p.say("%-9s %s", step, detail)
	}
}

func (p *program) printResult(r *assemble.Result) error {
	if p.json {
		return p.printJSON(r)
	}
	if err := p.tell(p.stderr, r.Diagnostics); err != nil {
		return err
	}
	var rows [][]string
	for _, t := range r.Targets {
		rows = append(rows, []string{t.Target, t.Ref, fmt.Sprint(t.Files), size(t.Bytes), short(t.Digest)})
	}
	if err := p.printTable([]string{"TARGET", "REF", "FILES", "SIZE", "DIGEST"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.stdout, "%s %s\n", r.Ref, r.Digest)
	return err
}

// resolver finds modules for assemble and lock: it joins the sources of the
// settings with the lock beside the graph.
type resolver struct {
	p      *program
	c      *cli.Context
	store  *registry.Store
	locked bool
	update []string
}

// Resolve implements assemble.Resolver.
func (r *resolver) Resolve(ctx context.Context, g *builds.Graph) (map[string]*resolve.Module, *builds.Lock, error) {
	opt := resolve.Options{Locked: r.locked, Update: r.update}
	client, err := r.p.client(r.c, nil)
	if err != nil {
		return nil, nil, err
	}
	defer client.Close()
	if err := r.sources(g, client, &opt); err != nil {
		return nil, nil, err
	}
	if exists(g.LockFile()) {
		lock, list := builds.LoadLock(g.LockFile())
		if err := list.Err(); err != nil {
			return nil, nil, err
		}
		opt.Lock = lock
	}
	return resolve.Resolve(ctx, g, opt)
}

// sources are the places that mm.yaml around the graph names: module folders
// first, then the store, layouts and, unless offline, registries; and those
// that the graph's own references name.
func (r *resolver) sources(g *builds.Graph, client *remote.Client, opt *resolve.Options) error {
	set, list := loadSettings(filepath.Dir(g.File))
	if err := list.Err(); err != nil {
		return err
	}
	verifier, err := r.p.moduleVerifier(r.c)
	if err != nil {
		return err
	}
	for _, folder := range set.Modules {
		opt.Sources = append(opt.Sources, &resolve.Folder{Dir: folder, Store: r.store})
	}
	opt.Sources = append(opt.Sources, &resolve.Layout{From: r.store, Into: r.store, Verifier: verifier, Label: "store"})
	for _, layout := range set.Layouts {
		from, err := registry.Open(layout, registry.Options{ReadOnly: true, MustExist: true})
		if err != nil {
			list.Add(diag.SourceFailed, diag.Pos{File: layout}, err.Error(), "correct layouts in mm.yaml")
			return list.Err()
		}
		opt.Sources = append(opt.Sources, &resolve.Layout{From: from, Into: r.store, Verifier: verifier, Label: layout})
	}
	for _, prefix := range prefixes(g, set.Registries) {
		if r.c.Bool("offline") {
			opt.Skipped = append(opt.Skipped, prefix)
			continue
		}
		opt.Sources = append(opt.Sources, &resolve.Registry{Client: client, Prefix: prefix, Into: r.store, Verifier: verifier})
	}
	return nil
}

// prefixes are the registries of the settings and those that references of the
// graph name, each once.
func prefixes(g *builds.Graph, settings []string) []string {
	out := slices.Clone(settings)
	for _, n := range g.Nodes() {
		if n.Ref.Source() == "" {
			continue
		}
		if prefix := path.Dir(n.Ref.Source()); !slices.Contains(out, prefix) {
			out = append(out, prefix)
		}
	}
	return out
}
