package resolve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry"
)

// linkFrom is the size from which a module's file is hard linked into the
// store rather than copied. Linked, the file loses its write permission, and
// damage to one is damage to both; below this size a copy costs too little to
// be worth that.
const linkFrom = 64 << 20

// Folder is a Source over a folder of module folders, such as modules/.
type Folder struct {
	Dir   string
	Store *registry.Store // where the modules are packed
}

// String is the folder's path.
func (f *Folder) String() string { return f.Dir }

// Candidates packs the module called name, if the folder has it. The module's
// folder need not bear its name.
func (f *Folder) Candidates(ctx context.Context, name string) ([]Candidate, error) {
	entries, err := os.ReadDir(f.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []Candidate
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), name) && !f.calls(e.Name(), name) {
			continue
		}
		file := filepath.Join(f.Dir, e.Name(), modules.FileName)
		if _, err := os.Stat(file); err != nil {
			continue
		}
		m, list := modules.Load(file)
		if m == nil {
			return nil, list.Err()
		}
		if m.Name != name {
			continue
		}
		if err := list.Err(); err != nil {
			return nil, err
		}
		c, err := f.candidate(ctx, m)
		if err != nil {
			return nil, err
		}
		found = append(found, c)
	}
	return found, nil
}

// calls peeks whether a folder of another name holds the module.
func (f *Folder) calls(dir, name string) bool {
	data, err := os.ReadFile(filepath.Join(f.Dir, dir, modules.FileName))
	return err == nil && strings.Contains(string(data), "name: "+name)
}

func (f *Folder) candidate(ctx context.Context, m *modules.Manifest) (Candidate, error) {
	version, err := abi.ParseVersion(m.Version)
	if err != nil {
		return Candidate{}, err
	}
	packed, err := Pack(ctx, f.Store, m)
	if err != nil {
		return Candidate{}, err
	}
	packed.Origin = filepath.ToSlash(filepath.Join(filepath.Base(f.Dir), filepath.Base(m.Dir())))
	return Candidate{
		Name: m.Name, Version: version, Digest: packed.Descriptor.Digest.String(), Origin: packed.Origin,
		manifest: func(context.Context) (*modules.Manifest, error) { return m, nil },
		fetch:    func(context.Context) (*Module, error) { return packed, nil },
	}, nil
}

// Pack puts the files of a module's folder into the store and writes its OCI
// manifest: one raw layer a file, module.yaml among them. The files must be
// those that the manifest declares. The same folder gives the same digest.
func Pack(ctx context.Context, store *registry.Store, m *modules.Manifest) (*Module, error) {
	if err := present(m).Err(); err != nil {
		return nil, err
	}
	a := registry.Artifact{Name: m.Name, Version: m.Version, Annotations: annotations(m), Config: Config(m)}
	for _, path := range m.Paths() {
		layer, err := packFile(ctx, store, m, path)
		if err != nil {
			return nil, fmt.Errorf("packing %s: %w", m.ID(), err)
		}
		a.Layers = append(a.Layers, layer)
	}
	if err := declared(m, a.Layers).Err(); err != nil {
		return nil, err
	}
	desc, err := registry.Pack(ctx, store, a)
	if err != nil {
		return nil, fmt.Errorf("packing %s: %w", m.ID(), err)
	}
	read, err := registry.ReadArtifact(ctx, store, desc)
	if err != nil {
		return nil, fmt.Errorf("packing %s: %w", m.ID(), err)
	}
	return &Module{Manifest: m, Artifact: read, Descriptor: desc}, nil
}

// present reports every file that the manifest names and the folder lacks, or
// holds as something else than a regular file inside the folder.
func present(m *modules.Manifest) diag.List {
	var list diag.List
	root, err := os.OpenRoot(m.Dir())
	if err != nil {
		list.Add(diag.Unreadable, diag.Pos{File: m.Dir()}, err.Error(), "")
		return list
	}
	defer root.Close()
	for _, path := range m.Paths() {
		info, err := root.Stat(path)
		switch {
		case err != nil:
			list.Add(diag.FileMissing, m.PathPos(path), fmt.Sprintf("%s names %q, which %s does not hold", m.ID(), path, m.Dir()), "add the file or correct the name")
		case !info.Mode().IsRegular():
			list.Add(diag.FileMissing, m.PathPos(path), fmt.Sprintf("%q is no regular file", path), "")
		}
	}
	return list
}

// declared compares what was packed with the manifest's files list.
func declared(m *modules.Manifest, layers []registry.Layer) diag.List {
	var list diag.List
	for i, f := range m.Files {
		for _, l := range layers {
			if l.Path == f.Path && (l.Descriptor.Digest.Encoded() != f.SHA256 || l.Descriptor.Size != f.Size) {
				list.Add(diag.FileDiffers, m.Pos(fmt.Sprintf("/files/%d", i)), fmt.Sprintf("%q has %d bytes, sha256 %s; declared %d, %s", f.Path, l.Descriptor.Size, l.Descriptor.Digest.Encoded(), f.Size, f.SHA256), "restore the file, or declare its new digest")
			}
		}
	}
	return list
}

// packFile stores one file and describes it as a layer.
func packFile(ctx context.Context, store *registry.Store, m *modules.Manifest, path string) (registry.Layer, error) {
	format := formatOf(m, path)
	role, media := string(m.Type), abi.MediaWeight
	switch {
	case path == modules.FileName:
		role, media = abi.RoleManifest, abi.MediaWeightConfig
	case path == m.Card || strings.HasPrefix(filepath.Base(path), "LICENSE"):
		role, media = abi.RoleDoc, abi.MediaDoc
	case path == m.ChatTemplate || format == "":
		media = abi.MediaWeightConfig
	case format == "wasm" || format == "starlark":
		media = abi.MediaCode
	}
	file := filepath.Join(m.Dir(), filepath.FromSlash(path))
	info, err := os.Stat(file)
	if err != nil {
		return registry.Layer{}, err
	}
	desc, err := store.AddFile(ctx, file, registry.AddOptions{MediaType: media, Link: info.Size() >= linkFrom})
	if err != nil {
		return registry.Layer{}, err
	}
	notes := map[string]string{abi.AnnotationComponent: m.Name, abi.AnnotationRole: role, abi.AnnotationVersion: m.Version}
	if format != "" {
		notes[abi.AnnotationFormat] = format
	}
	return registry.Layer{Path: path, Descriptor: desc, Annotations: notes}, nil
}

// formatOf is the format under which the manifest exports path.
func formatOf(m *modules.Manifest, path string) string {
	for _, format := range slices.Sorted(maps.Keys(m.Export)) {
		if slices.Contains(m.Export[format].Files(), path) {
			return string(format)
		}
	}
	switch r := m.Runtime; {
	case path == modules.FileName:
		return "yaml"
	case r != nil && r.Wasm == path:
		return "wasm"
	case r != nil && r.Starlark == path:
		return "starlark"
	case path == m.Card:
		return "markdown"
	}
	return ""
}

func annotations(m *modules.Manifest) map[string]string {
	a := map[string]string{
		abi.AnnotationABI: string(m.ABI), abi.AnnotationKind: abi.KindModule, abi.AnnotationName: m.Name,
		abi.AnnotationType: string(m.Type), abi.AnnotationVersion: m.Version,
		"org.opencontainers.image.version": m.Version, "org.opencontainers.image.title": m.Name,
	}
	if m.License != "" {
		a["org.opencontainers.image.licenses"] = m.License
	}
	if m.Description != "" {
		a["org.opencontainers.image.description"] = m.Description
	}
	if len(m.Requires) > 0 {
		a[abi.AnnotationRequires] = join(m.Requires)
	}
	return a
}

// Config is the ModelPack config that describes a module.
func Config(m *modules.Manifest) registry.ModelConfig {
	var c registry.ModelConfig
	c.Descriptor.Name, c.Descriptor.Version, c.Descriptor.Description = m.Name, m.Version, m.Description
	if m.License != "" {
		c.Descriptor.Licenses = []string{m.License}
	}
	for _, format := range []abi.Format{abi.GGUF, abi.ONNX, abi.Safetensors} {
		if m.Entry(format) != "" {
			c.Config.Format = string(format)
			break
		}
	}
	in, out := "embedding", "embedding"
	switch m.Type {
	case abi.Core, abi.DraftCore:
		in, out = "text", "text"
	case abi.Encoder:
		in = string(m.Modality)
	case abi.Decoder:
		out = string(m.Modality)
	case abi.Projector:
	default:
		return c
	}
	c.Config.Capabilities = &registry.ModelCapabilities{InputTypes: []string{in}, OutputTypes: []string{out}}
	return c
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func join(list []string) string { return strings.Join(list, ", ") }

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
