package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/resolve"
	"mm-abi.org/mm/schemas"
)

func (p *program) validateCommand() *cli.Command {
	return &cli.Command{
		Name:      "validate",
		Usage:     "check module.yaml files, graphs and locks against MM-ABI",
		ArgsUsage: "[PATH…]",
		Description: "Each PATH is a document or a folder of them; the default is the current folder.\n" +
			"Graphs are checked against the modules that mm lock would choose offline: among the\n" +
			"paths, in the module folders and layouts of mm.yaml and in the store. Every fault is\n" +
			"told, not only the first.",
		Flags: []cli.Flag{
			p.jsonFlag(),
			&cli.StringFlag{Name: "format", Usage: "text, json or github (annotations in CI)", Value: "text"},
			&cli.BoolFlag{Name: "files", Usage: "also check that each module's files are there and have their digests"},
			&cli.BoolFlag{Name: "strict", Usage: "warnings fail as well"},
		},
		Action: func(c *cli.Context) error {
			paths := c.Args().Slice()
			if len(paths) == 0 {
				paths = []string{"."}
			}
			v := &validation{told: map[string]bool{}, broken: map[string]bool{}}
			for _, path := range paths {
				v.path(path)
			}
			if c.Bool("files") {
				for _, m := range v.loaded {
					v.list = append(v.list, m.CheckFiles(c.Context)...)
				}
			}
			if err := p.checkGraphs(c, v); err != nil {
				return err
			}
			return p.report(c, v)
		},
	}
}

func (p *program) jsonFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print JSON", Destination: &p.json}
}

// validation collects the documents of one run and what is wrong with them.
type validation struct {
	list    diag.List
	modules []*modules.Manifest // those without faults
	loaded  []*modules.Manifest // those that can be read
	graphs  []*builds.Graph
	checked int
	told    map[string]bool // absolute paths of the documents read
	broken  map[string]bool // names of modules with faults of their own
}

// path reads a document, or every document below a folder.
func (v *validation) path(path string) {
	info, err := os.Stat(path)
	if err != nil {
		v.list.Add(diag.Unreadable, diag.Pos{File: path}, reason(err), "")
		return
	}
	if !info.IsDir() {
		v.document(path, true)
		return
	}
	err = filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			v.list.Add(diag.Unreadable, diag.Pos{File: p}, reason(err), "")
		case e.IsDir() && p != path && (strings.HasPrefix(e.Name(), ".") || e.Name() == "testdata"):
			return fs.SkipDir
		case e.Type().IsRegular() && isDocument(e.Name()):
			v.document(p, false)
		}
		return nil
	})
	if err != nil {
		v.list.Add(diag.Unreadable, diag.Pos{File: path}, reason(err), "")
	}
}

// reason is an error without the path that the position shows already.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// isDocument reports whether a folder's file is one of mm's by its name.
func isDocument(name string) bool {
	switch name {
	case modules.FileName, configFile, trustFile:
		return true
	}
	return strings.HasSuffix(name, ".graph.yaml") || strings.HasSuffix(name, ".lock.yaml")
}

// document reads one file. A file named on the command line must be one of
// mm's; in a folder others are passed over.
func (v *validation) document(path string, named bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		v.list.Add(diag.Unreadable, diag.Pos{File: path}, reason(err), "")
		return
	}
	v.checked++
	v.told[absolute(path)] = true
	doc, faults := schemas.Parse(path, data)
	if doc == nil {
		if filepath.Base(path) == modules.FileName {
			v.broken[filepath.Base(filepath.Dir(absolute(path)))] = true // as far as one can tell
		}
		v.list = append(v.list, faults...)
		return
	}
	kind, ok := doc.Detect()
	switch {
	case !ok && named:
		v.list.Add(diag.NotMM, diag.Pos{File: path, Line: 1, Col: 1}, "", "a module has a type key, a graph a core key, a lock a modules key")
	case kind == schemas.Module:
		m, faults := modules.Load(path)
		v.list = append(v.list, faults...)
		if m != nil {
			v.loaded = append(v.loaded, m)
		}
		if m == nil || faults.Failed() {
			v.broken[modules.NameIn(data)] = true
		} else {
			v.modules = append(v.modules, m)
		}
	case kind == schemas.Graph:
		g, faults := builds.Parse(path, data)
		v.list = append(v.list, faults...)
		if g != nil {
			v.graphs = append(v.graphs, g)
		}
	case kind == schemas.Lock:
		_, faults := builds.ParseLock(path, data)
		v.list = append(v.list, faults...)
	case ok:
		v.list = append(v.list, doc.Validate(kind)...)
	}
}

// checkGraphs joins each graph with the modules at hand, as mm lock would choose
// them: those of this run first, then those of the module folders and, offline,
// of the store and the layouts that the graph's mm.yaml names. Nothing is
// stored.
func (p *program) checkGraphs(c *cli.Context, v *validation) error {
	for _, g := range v.graphs {
		resolved, list, err := p.look(c, v, g)
		if err != nil {
			return err
		}
		for name := range v.broken {
			if _, ok := resolved[name]; !ok {
				resolved[name] = nil
			}
		}
		for _, d := range list {
			if !v.told[absolute(d.Pos.File)] || d.Severity != diag.Error {
				v.list = append(v.list, d)
			}
		}
		v.list = append(v.list, g.Check(resolved)...)
	}
	v.list.Sort()
	v.list = slices.Compact(v.list)
	return nil
}

// look resolves one graph without the network.
func (p *program) look(c *cli.Context, v *validation, g *builds.Graph) (builds.Resolved, diag.List, error) {
	set, list := loadSettings(filepath.Dir(g.File))
	opt := resolve.Options{Sources: []resolve.Source{resolve.Manifests(v.modules)}}
	for _, dir := range set.Modules {
		opt.Sources = append(opt.Sources, &resolve.Folder{Dir: dir})
	}
	places := set.Layouts
	if dir, err := home(); err == nil && isLayout(filepath.Join(dir, storeDir)) {
		places = append([]string{filepath.Join(dir, storeDir)}, places...)
	}
	for _, dir := range places {
		verifier, err := p.moduleVerifier(c)
		if err != nil {
			list.Warn(diag.SourceFailed, diag.Pos{File: dir}, err.Error(), "")
			continue
		}
		from, err := registry.Open(dir, registry.Options{ReadOnly: true, MustExist: true})
		if err != nil {
			list.Warn(diag.SourceFailed, diag.Pos{File: dir}, err.Error(), "correct layouts in mm.yaml")
			continue
		}
		defer from.Close()
		opt.Sources = append(opt.Sources, &resolve.Layout{From: from, Verifier: verifier, Label: dir})
	}
	if exists(g.LockFile()) {
		opt.Lock, _ = builds.LoadLock(g.LockFile()) // its own faults are told where it is validated
	}
	resolved, faults, err := resolve.Look(c.Context, g, opt)
	return resolved, append(list, faults...), err
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// report prints what was found in the format asked for.
func (p *program) report(c *cli.Context, v *validation) error {
	format := c.String("format")
	if p.json {
		format = "json"
	}
	var err error
	switch format {
	case "text":
		if err = p.tell(p.stdout, v.list); err == nil {
			p.say("checked %s: %s, %s", count(v.checked, "document"), count(v.list.Count(diag.Error), "error"), count(v.list.Count(diag.Warning), "warning"))
		}
	case "json":
		err = v.list.JSON(p.stdout)
	case "github":
		err = v.list.GitHub(p.stdout)
	default:
		return usageError{fmt.Errorf("--format is %q, wanted text, json or github", format)}
	}
	if err != nil {
		return err
	}
	if v.checked == 0 && !v.list.Failed() {
		return errors.New("no module.yaml, graph or lock found")
	}
	if c.Bool("strict") && v.list.Count(diag.Warning) > 0 {
		return reported{&diag.Faults{List: slices.Clone(v.list)}}
	}
	if err := v.list.Err(); err != nil {
		return reported{err}
	}
	return nil
}
