package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/builds/resolve"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/inspect"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/workspace/home"
)

// ValidateOptions for [Workspace.Validate].
type ValidateOptions struct {
	Files bool // also compare each module with its files
}

// Validation is the result of [Workspace.Validate].
type Validation struct {
	Diagnostics diag.List // of every document, sorted
	Checked     int       // documents
}

// Validate checks documents, and folders of them, against their schemas and
// against each other, and reports every fault. Graphs are joined with the
// modules that Lock would choose offline. The error is that of a check that
// could not run.
func (w *Workspace) Validate(ctx context.Context, paths []string, opt ValidateOptions) (*Validation, error) {
	v := &validation{told: map[string]bool{}, broken: map[string]bool{}}
	for _, path := range paths {
		v.path(path)
	}
	if opt.Files {
		for _, m := range v.loaded {
			files := m.CheckFiles(ctx)
			if !files.Failed() { // a missing or different file is reported once
				files = append(files, inspect.Check(m, inspect.Folder(m))...)
			}
			v.list = append(v.list, files...)
		}
	}
	if err := w.checkGraphs(ctx, v); err != nil {
		return nil, err
	}
	return &Validation{Diagnostics: v.list, Checked: v.checked}, nil
}

// validation collects the documents of one run and their faults.
type validation struct {
	list    diag.List
	modules []*modules.Manifest // those without faults
	loaded  []*modules.Manifest // those that can be read
	graphs  []*builds.Graph
	checked int
	told    map[string]bool // absolute paths of the documents read
	broken  map[string]bool // names of invalid modules
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
		case e.Type()&fs.ModeSymlink != 0 && home.Exists(filepath.Join(p, modules.FileName)): // a linked module folder
			v.document(filepath.Join(p, modules.FileName), false)
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
	case modules.FileName, home.ConfigName, home.TrustName:
		return true
	}
	return strings.HasSuffix(name, ".graph.yaml") || strings.HasSuffix(name, ".lock.yaml")
}

// document reads one file. A file named on the command line must be one of
// mm's; in a folder others are passed over.
func (v *validation) document(path string, named bool) {
	data, faults := schemas.ReadFile(path, diag.Unreadable)
	if faults.Failed() {
		v.list = append(v.list, faults...)
		return
	}
	v.checked++
	v.told[home.Abs(path)] = true
	doc, faults := schemas.Parse(path, data)
	if doc == nil {
		if filepath.Base(path) == modules.FileName {
			v.broken[filepath.Base(filepath.Dir(home.Abs(path)))] = true // the best guess
		}
		v.list = append(v.list, faults...)
		return
	}
	kind, ok := doc.Detect()
	switch {
	case !ok && named:
		v.list.Add(diag.NotMM, diag.Pos{File: path, Line: 1, Col: 1}, "", "a module has a type key, a graph a core or a modalities key, a lock a modules key")
	case kind == schemas.Module:
		m, faults := modules.Load(path)
		v.list = append(v.list, faults...)
		if m != nil {
			v.loaded = append(v.loaded, m)
			m.NotePermissions(&v.list, m.Pos("/runtime/allow"))
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

// checkGraphs joins each graph with the modules that mm lock would choose:
// those of this run first, then those of the module folders and, offline, of
// the store and the layouts that the graph's mm.yaml names. Nothing is stored.
func (w *Workspace) checkGraphs(ctx context.Context, v *validation) error {
	for _, g := range v.graphs {
		set, passed, list := home.LoadSettings(filepath.Dir(g.File))
		for _, p := range passed {
			w.say("warning: %v", p)
		}
		resolved, faults, err := w.look(ctx, v, g, set)
		if err != nil {
			return err
		}
		list = append(list, faults...)
		for name := range v.broken {
			if _, ok := resolved[name]; !ok {
				resolved[name] = nil
			}
		}
		for _, d := range list {
			if !v.told[home.Abs(d.Pos.File)] || d.Severity != diag.Error {
				v.list = append(v.list, d)
			}
		}
		v.list = append(v.list, refuseUnknown(g, resolved, set, g.Check(resolved))...)
		unlisted, err := w.unlisted(ctx, v, g, set, resolved)
		if err != nil {
			return err
		}
		v.list = append(v.list, unlisted...)
		v.list = append(v.list, senses(g, resolved)...)
		within, err := w.agents(ctx, g, resolved)
		if err != nil {
			return err
		}
		v.list = append(v.list, within...)
	}
	v.list.Sort()
	v.list = slices.Compact(v.list)
	return nil
}

// refuseUnknown turns the warnings about modules that were not found into errors, unless a
// registry may have them: without one, mm lock and mm assemble refuse the graph.
func refuseUnknown(g *builds.Graph, resolved builds.Resolved, set home.Settings, list diag.List) diag.List {
	if len(set.Registries) > 0 {
		return list
	}
	local := map[diag.Pos]bool{}
	for _, n := range g.Nodes() {
		if _, found := resolved[n.Ref.Name]; !found && n.Ref.Source() == "" {
			local[g.Pos(n.Ptr+"/ref")] = true
		}
	}
	for i, d := range list {
		if d.Code == diag.NotChecked && local[d.Pos] {
			list[i].Severity = diag.Error
			list[i].Hint = "add its folder or a registry to mm.yaml, or check the name"
		}
	}
	return list
}

// unlisted warns about the modules of a graph that only this run finds.
func (w *Workspace) unlisted(ctx context.Context, v *validation, g *builds.Graph, set home.Settings, resolved builds.Resolved) (diag.List, error) {
	var listed []string
	for _, dir := range set.Modules {
		listed = append(listed, home.Abs(dir))
	}
	var nodes []builds.Node
	for _, n := range g.Nodes() {
		m := resolved[n.Ref.Name]
		if m != nil && slices.Contains(v.modules, m) && !slices.Contains(listed, home.Abs(filepath.Dir(m.Dir()))) {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 || len(set.Registries) > 0 {
		return nil, nil
	}
	found, _, err := w.look(ctx, &validation{}, g, set)
	if err != nil {
		return nil, err
	}
	var list diag.List
	for _, n := range nodes {
		if found[n.Ref.Name] == nil {
			m := resolved[n.Ref.Name]
			list.Warn(diag.Unlisted, g.Pos(n.Ptr+"/ref"), fmt.Sprintf("%s@%s is in %s", m.Name, m.Version, m.Dir()), "")
		}
	}
	return list, nil
}

// look resolves one graph without the network.
func (w *Workspace) look(ctx context.Context, v *validation, g *builds.Graph, set home.Settings) (builds.Resolved, diag.List, error) {
	var list diag.List
	opt := resolve.Options{Sources: []resolve.Source{resolve.Manifests(v.modules)}}
	for _, dir := range set.Modules {
		opt.Sources = append(opt.Sources, &resolve.Folder{Dir: dir})
	}
	places := set.Layouts
	if w.hasStore() {
		places = append([]string{w.StoreDir()}, places...)
	}
	verifier, err := w.around(g)
	if err != nil {
		list.Warn(diag.SourceFailed, diag.Pos{File: g.File}, err.Error(), "")
		places = nil
	}
	for _, dir := range places {
		from, err := registry.Open(dir, registry.Options{ReadOnly: true, MustExist: true})
		if err != nil {
			list.Warn(diag.SourceFailed, diag.Pos{File: dir}, err.Error(), "correct layouts in "+home.ConfigName)
			continue
		}
		defer from.Close()
		opt.Sources = append(opt.Sources, &resolve.Layout{From: from, Verifier: verifier, Label: dir})
	}
	if home.Exists(g.LockFile()) {
		opt.Lock, _ = builds.LoadLock(g.LockFile()) // its faults are reported where it is validated
	}
	resolved, faults, err := resolve.Look(ctx, g, opt)
	return resolved, append(list, faults...), err
}

// around returns the verifier for the modules of a graph, with the settings of
// the graph's folder.
func (w *Workspace) around(g *builds.Graph) (resolve.Verifier, error) {
	opt := w.opt
	opt.Dir, opt.Home = filepath.Dir(g.File), w.home
	there, err := Open(opt)
	if err != nil {
		return nil, err
	}
	w.later(there.Close)
	if _, err := there.judges(); err != nil {
		return nil, err
	}
	return there.Resolver(ResolveOptions{}), nil
}
