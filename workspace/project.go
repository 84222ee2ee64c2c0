package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/workspace/home"
)

// Project is the folder that [NewProject] created.
type Project struct {
	Dir   string   `json:"dir"`
	Name  string   `json:"name"`  // of the build
	Files []string `json:"files"` // in Dir
	Next  []string `json:"next"`  // commands, in order
}

// ErrName reports that a folder's name is not a valid name of a build.
var ErrName = errors.New("invalid name of a build")

// projectGraph is the graph of a new project. Its core is what `mm module new core
// core-llm` creates.
const projectGraph = `name: %s
version: 0.1.0

core:
  llm: {ref: core-llm@^0.1}

exports:
  laptop:
    gguf: {quant: fp16}
`

const projectReadme = `# %s

A build of [mm](https://mm-abi.org): build.graph.yaml names its modules, mm.yaml the folders where
they are found, and build.lock.yaml, once mm lock has written it, their exact bytes.

    mm validate
    mm lock build.graph.yaml
    mm assemble build.graph.yaml --out dist
    mm run dist "Once upon a time"

.gitattributes keeps git from converting line endings: modules are identified by their digests.
`

// NewProject creates a project in dir, which may exist: the settings, a first
// graph, a README, and the rules that keep git from changing the bytes of modules.
// Nothing is written if one of the files exists. If name is empty, it is that of
// the folder.
func NewProject(dir, name string) (*Project, error) {
	full, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = strings.ToLower(filepath.Base(full))
	}
	if !abi.ValidName(name) {
		return nil, fmt.Errorf("%w: got %q, want lower-case letters and digits joined by . - _", ErrName, name)
	}
	files := []struct{ name, text string }{
		{home.ConfigName, "modules: [modules]\n" + schemas.EditorComment(schemas.Config)},
		{"build.graph.yaml", fmt.Sprintf(projectGraph, name) + schemas.EditorComment(schemas.Graph)},
		{modules.GitFile, modules.GitAttributes},
		{".gitignore", "/dist/\n"},
		{"README.md", fmt.Sprintf(projectReadme, name)},
		{"modules/.gitkeep", ""},
	}
	for _, f := range files {
		if _, err := os.Lstat(filepath.Join(dir, f.name)); !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(fmt.Errorf("%s exists: nothing was written", filepath.Join(dir, f.name)), err)
		}
	}
	d, err := fsx.Create(dir, 0o755, fsx.Options{})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := d.MkdirAll("modules", 0o755); err != nil {
		return nil, err
	}
	p := &Project{Dir: dir, Name: name, Next: []string{
		"mm module new core core-llm --dir " + filepath.Join(dir, "modules", "core-llm"),
		"mm assemble " + filepath.Join(dir, "build.graph.yaml") + " --out " + filepath.Join(dir, "dist"),
	}}
	for _, f := range files {
		if err := d.WriteFile(f.name, []byte(f.text), 0o644); err != nil {
			return nil, err
		}
		p.Files = append(p.Files, f.name)
	}
	return p, nil
}
