package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/schemas"
)

func (p *program) validateCommand() *cli.Command {
	return &cli.Command{
		Name:      "validate",
		Usage:     "check module.yaml files, graphs and locks against MM-ABI",
		ArgsUsage: "[PATH…]",
		Description: "Each PATH is a document or a folder of them; the default is the current folder.\n" +
			"Graphs are checked against the modules among the paths, and against those in the\n" +
			"module folders of mm.yaml. Every fault is told, not only the first.",
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
			v := &validation{}
			for _, path := range paths {
				v.path(path)
			}
			if c.Bool("files") {
				for _, m := range v.modules {
					v.list = append(v.list, m.CheckFiles(c.Context)...)
				}
			}
			v.check()
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
	modules []*modules.Manifest
	graphs  []*builds.Graph
	checked int
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
	doc, faults := schemas.Parse(path, data)
	if doc == nil {
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

// check joins each graph with the modules at hand: those of this run and those
// in the module folders that the graph's mm.yaml names.
func (v *validation) check() {
	for _, g := range v.graphs {
		set, faults := loadSettings(filepath.Dir(g.File))
		v.list = append(v.list, faults...)
		resolved := builds.Resolved{}
		for _, n := range g.Nodes() {
			var found []*modules.Manifest
			for _, m := range v.modules {
				if m.Name == n.Ref.Name {
					found = append(found, m)
				}
			}
			for _, root := range set.Modules {
				if m, _ := modules.Load(filepath.Join(root, n.Ref.Name)); m != nil && m.Name == n.Ref.Name {
					found = append(found, m)
				}
			}
			v.pick(g, n, found, resolved)
		}
		v.list = append(v.list, g.Check(resolved)...)
	}
	v.list.Sort()
}

// pick enters the highest version that the reference allows.
func (v *validation) pick(g *builds.Graph, n builds.Node, found []*modules.Manifest, resolved builds.Resolved) {
	var best *semver.Version
	var have []string
	for _, m := range found {
		version, err := abi.ParseVersion(m.Version)
		if err != nil {
			continue
		}
		if have = append(have, m.Version); n.Ref.Allows(version) && (best == nil || version.GreaterThan(best)) {
			best, resolved[n.Ref.Name] = version, m
		}
	}
	if best == nil && have != nil {
		v.list.Warn(diag.NoVersion, g.Pos(n.Ptr+"/ref"), fmt.Sprintf("%s; the folders at hand have %s", n.Ref, strings.Join(have, ", ")), "")
	}
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
