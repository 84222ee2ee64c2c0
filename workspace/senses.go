package workspace

import (
	"fmt"
	"path/filepath"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/internal/diag"
)

// senses compares the sequence blocks of a graph's projectors with the architecture
// in its file. A core without a file here is not checked.
func senses(g *builds.Graph, resolved builds.Resolved) (list diag.List) {
	core := resolved[g.Core.LLM.Ref.Name]
	if core == nil || core.Entry(abi.GGUF) == "" {
		return nil
	}
	f, err := gguf.Open(filepath.Join(core.Dir(), filepath.FromSlash(core.Entry(abi.GGUF))))
	if err != nil {
		return nil // reported with --files
	}
	defer f.Close()
	shape, err := arch.Read(f)
	if err != nil {
		return nil
	}
	for i, mod := range g.Modalities {
		if !mod.Projects() {
			continue
		}
		proj := resolved[mod.Proj.Ref.Name]
		if proj == nil || proj.Sequence == nil {
			continue
		}
		pos := g.Pos(fmt.Sprintf("/modalities/%d/proj/ref", i))
		if proj.Sequence.Grid() && shape.Rope.Sections == [3]int{} {
			list.Add(diag.SenseMissing, pos, fmt.Sprintf("%s places its vectors in a grid, architecture %s of %s has positions in a line only", proj.ID(), shape.Arch, core.ID()), "use the core of the projector's model")
		}
		if n := proj.Sequence.Deep; n != 0 && n != shape.Deep {
			list.Add(diag.SenseMissing, pos, fmt.Sprintf("%s has vectors for %d further layers, architecture %s of %s reads %d", proj.ID(), n, shape.Arch, core.ID(), shape.Deep), "use the core of the projector's model")
		}
		if b := g.Core.LLM.Backend; b != "" && b != "core" && (proj.Sequence.Grid() || proj.Sequence.Deep != 0 || proj.Sequence.Mutual() || proj.Sequence.Prefix()) {
			list.Add(diag.EngineLacks, g.Pos("/core/llm/backend"), fmt.Sprintf("%s asks for positions in a grid, vectors for further layers or positions that see each other, backend %s reads none of these", proj.ID(), b), "use backend core")
		}
	}
	return list
}
