package builds

import (
	"fmt"

	"mm-abi.org/mm/internal/diag"
)

// coreless reports parts that need a core in a build without one.
func (c *checker) coreless() {
	g := c.graph
	if g.HasCore() {
		return
	}
	for _, f := range []struct {
		there     bool
		ptr, what string
	}{
		{len(g.Skills) > 0, "/skills", "skills are called by a core"},
		{g.Runtime.Router != nil, "/runtime/router", "a router reads what a core writes"},
		{len(g.Golden) > 0, "/golden", "golden prompts are continued by a core"},
	} {
		if f.there {
			c.list.Add(diag.MissingKey, g.Pos(f.ptr), f.what+", and the build has none", "add core, or remove them")
		}
	}
}

// backends collects the engines that the graph requests, and reports a module
// with two: a module is opened once.
func (c *checker) backends() {
	asked := map[string]string{}
	for _, n := range c.graph.Nodes() {
		if n.Backend == "" {
			continue
		}
		pos := c.graph.Pos(n.Ptr + "/backend")
		if first := asked[n.Ref.Name]; first != "" && first != n.Backend {
			c.list.Add(diag.ParamDiffers, pos, fmt.Sprintf("%s runs on %s already, not on %s", n.Ref.Name, first, n.Backend), "ask for one backend")
			continue
		}
		if asked[n.Ref.Name] == "" {
			c.list.Note(diag.BackendAsked, pos, fmt.Sprintf("%s runs on %s alone", n.Ref.Name, n.Backend), "")
		}
		asked[n.Ref.Name] = n.Backend
	}
}
