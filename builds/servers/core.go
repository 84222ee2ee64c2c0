package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/hf"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// maxKept bounds a file that hf.Model.Keep kept.
const maxKept = 256 << 20

// Core writes the core of a build to dir, which must be absent or empty, as the folder of
// transformers that it was imported from. It returns the names of the files and notes about
// what differs from that folder.
func Core(ctx context.Context, b *builds.Build, dir string) (names, notes []string, err error) {
	kept, err := keptFiles(b)
	if err != nil {
		return nil, nil, err
	}
	entry, err := b.Files.Path(b.Assembly.Core.Files.Entry(abi.GGUF))
	if err != nil {
		return nil, nil, err
	}
	f, err := gguf.Open(entry)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := Write(ctx, dir, []File{{Path: "README.md", Text: readme(VLLM, b.Assembly.Name, "")}}, nil); err != nil {
		return nil, nil, err
	}
	if notes, err = hf.Restore(ctx, dir, kept, f); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", b.Assembly.Core.Name, err)
	}
	if n := len(b.Assembly.Adapters); n > 0 {
		notes = append(notes, fmt.Sprintf("%d adapters of the build are not part of the folder: mm export peft writes them", n))
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, notes, err
}

// keptFiles reads the files of the folder that the core was imported from.
func keptFiles(b *builds.Build) (map[string][]byte, error) {
	core := b.Assembly.Core
	var list diag.List
	switch m := b.Manifests[core.Name]; {
	case !b.Assembly.HasCore() || core.Files.Entry(abi.GGUF) == "":
		fault(&list, b.Assembly.Name+": got no core in GGUF, want one", "export it as gguf: in the graph")
	case m == nil || !slices.ContainsFunc(m.Paths(), func(p string) bool { return strings.HasPrefix(p, hf.KeptFolder+"/") }):
		fault(&list, core.Name+": got no configuration of transformers, want a core imported from a folder of theirs", "mm import hf FOLDER keeps it; a core of a GGUF file has none")
	default:
		kept := map[string][]byte{}
		for _, p := range m.Paths() {
			name, ok := strings.CutPrefix(p, hf.KeptFolder+"/")
			if !ok {
				continue
			}
			data, err := readKept(b, path.Join(path.Dir(core.Manifest), p))
			if err != nil {
				return nil, err
			}
			kept[name] = data
		}
		return kept, nil
	}
	return nil, list.Err()
}

func readKept(b *builds.Build, name string) ([]byte, error) {
	p, err := b.Files.Path(name)
	if err != nil {
		return nil, err
	}
	data, err := fsx.ReadFile(p, maxKept)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return data, nil
}
