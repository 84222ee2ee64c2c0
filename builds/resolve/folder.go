package resolve

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/modelpack"
	"mm-abi.org/mm/schemas"
)

// Folder is a Source over a folder of module folders, such as modules/. The
// name in module.yaml counts, not the folder's name.
type Folder struct {
	Dir   string
	Store *registry.Store // where the chosen modules are packed; nil: nothing is fetched

	mu    sync.Mutex
	files map[string]*manifestFile
}

// manifestFile caches a module.yaml: each name that is looked up asks all of them.
type manifestFile struct {
	info fs.FileInfo // of the file when it was read
	data []byte
	list diag.List
	name func() string
}

// read reads a module.yaml unless it is unchanged.
func (f *Folder) read(file string, info fs.FileInfo) *manifestFile {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.files[file]
	if m != nil && info != nil && os.SameFile(m.info, info) && m.info.ModTime().Equal(info.ModTime()) && m.info.Size() == info.Size() {
		return m
	}
	data, list := schemas.ReadFile(file, diag.Unreadable)
	m = &manifestFile{info, data, list, sync.OnceValue(func() string { return modules.NameIn(data) })}
	if f.files == nil {
		f.files = map[string]*manifestFile{}
	}
	if info != nil {
		f.files[file] = m
	}
	return m
}

// String is the folder's path.
func (f *Folder) String() string { return f.Dir }

// Candidates reads the module.yaml of every folder and returns the modules
// named q.Name. Faults of such a module are returned as diag.Faults, those of
// other modules are ignored.
func (f *Folder) Candidates(ctx context.Context, q Query) ([]Candidate, error) {
	entries, err := os.ReadDir(f.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []Candidate
	var faults diag.List
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m, list := f.load(e, q.Name)
		faults = append(faults, list...)
		if m == nil || list.Failed() {
			continue
		}
		c, err := loaded(m, f.Store)
		if err != nil {
			return nil, err
		}
		c.Origin = filepath.ToSlash(filepath.Join(filepath.Base(f.Dir), e.Name()))
		found = append(found, c)
	}
	return found, faults.Err()
}

// load reads the module in the folder e if it is named name. An unreadable
// module.yaml is assumed to have the folder's name, so that its fault is
// reported and not only a missing module.
func (f *Folder) load(e fs.DirEntry, name string) (*modules.Manifest, diag.List) {
	dir := filepath.Join(f.Dir, e.Name())
	if info, err := os.Stat(dir); err != nil && e.Name() == name { // a link to nothing
		var list diag.List
		list.Add(diag.Unreadable, diag.Pos{File: dir}, err.Error(), "")
		return nil, list
	} else if err != nil || !info.IsDir() {
		return nil, nil
	}
	file := filepath.Join(dir, modules.FileName)
	info, err := os.Stat(file) // after another error it is nil, and the file is read for its fault
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	m := f.read(file, info)
	if e.Name() != name && !bytes.Contains(m.data, []byte(name)) && !bytes.Contains(m.data, []byte(`\`)) {
		return nil, nil // another module's: without escapes a name appears literally
	}
	named := m.name()
	if named == "" {
		named = e.Name()
	}
	switch {
	case named != name:
		return nil, nil
	case m.list.Failed():
		return nil, m.list
	}
	return modules.Load(file)
}

// Manifests is a Source over manifests that were read already. They can be
// looked at and not fetched.
type Manifests []*modules.Manifest

// String returns a label for the source.
func (Manifests) String() string { return "the documents given" }

// Candidates returns the manifests called q.Name.
func (s Manifests) Candidates(_ context.Context, q Query) ([]Candidate, error) {
	var found []Candidate
	for _, m := range s {
		if m.Name != q.Name {
			continue
		}
		c, err := loaded(m, nil)
		if err != nil {
			return nil, err
		}
		c.Origin = m.Dir()
		found = append(found, c)
	}
	return found, nil
}

// folder is a module in its own folder.
type folder struct {
	m      *modules.Manifest
	store  *registry.Store
	hashed string // its digest, once it is known
}

func loaded(m *modules.Manifest, store *registry.Store) (Candidate, error) {
	version, err := abi.ParseVersion(m.Version)
	return Candidate{Name: m.Name, Version: version, module: &folder{m: m, store: store}}, err
}

func (f *folder) manifest(context.Context) (*modules.Manifest, error) { return f.m, nil }

// digest reads the module's files; nothing is stored.
func (f *folder) digest(ctx context.Context) (string, error) {
	if f.hashed == "" {
		d, err := modelpack.Digest(ctx, f.m)
		if err != nil {
			return "", err
		}
		f.hashed = d.String()
	}
	return f.hashed, nil
}

// fetch packs the module into the store.
func (f *folder) fetch(ctx context.Context) (*Module, error) {
	if f.store == nil {
		return nil, errors.New("no store to pack " + f.m.ID() + " into")
	}
	a, desc, err := modelpack.Pack(ctx, f.store, f.m)
	if err != nil {
		return nil, err
	}
	return &Module{Manifest: f.m, Artifact: a, Descriptor: desc}, nil
}
