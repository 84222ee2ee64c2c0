package builds

import (
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
)

// golden reports golden prompts with files that the build does not ship or
// inputs that it cannot take.
func (c *checker) golden() {
	for i, g := range c.graph.Golden {
		for _, s := range g.Media() {
			pos := c.graph.Pos(fmt.Sprintf("/golden/%d/%s", i, s.Modality))
			c.goldenFile(pos, s.File)
			if takes := c.takes(s.Modality); !takes {
				c.list.Add(diag.MissingKey, pos, fmt.Sprintf("a golden prompt shows %s, and the build has no encoder for %s", s.File, s.Modality), "add one to modalities, with its projector")
			}
		}
	}
}

// goldenFile reports a file that no module of the build lists.
func (c *checker) goldenFile(pos diag.Pos, file string) {
	name, path, _ := strings.Cut(file, "/")
	named := slices.ContainsFunc(c.graph.Nodes(), func(n Node) bool { return n.Ref.Name == name })
	m := c.resolved[name]
	switch {
	case !named || path == "":
		c.list.Add(diag.FileMissing, pos, fmt.Sprintf("%q is of no module of the build", file), "write MODULE/PATH, with a file that the module lists in files")
	case m != nil && !slices.Contains(m.Paths(), path):
		c.list.Add(diag.FileMissing, pos, fmt.Sprintf("%s lists no %q", m.ID(), path), "add it to the module's files, with its sha256 and size")
	}
}

// takes reports whether the core accepts inputs of a modality; videos may go
// through the image encoder.
func (c *checker) takes(m abi.Modality) bool {
	return slices.ContainsFunc(c.graph.Modalities, func(mod Modality) bool {
		if c.graph.HasCore() && !mod.Projects() {
			return false
		}
		enc := c.resolved[mod.Enc.Ref.Name]
		return enc == nil || enc.Modality == m || m == abi.Video && enc.Modality == abi.Image
	})
}
