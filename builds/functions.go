package builds

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/abi"
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

// coreIgnores notes that an encoder without a projector is a function, which the core
// does not read.
func (c *checker) coreIgnores(ptr string, mod Modality) {
	if g := c.graph; g.HasCore() {
		name := mod.Enc.Ref.Name
		c.list.Note(diag.NextToCore, g.Pos(ptr+"/enc/ref"), name+" has no projector", fmt.Sprintf("mm run %s/%s runs it; add proj to show its inputs to the core", g.Name, name))
	}
}

// Functions lists the parts that run on tensors by themselves, each module once:
// encoders, projectors and decoders with files in this target.
func (a *Assembly) Functions() []Part {
	var out []Part
	for _, p := range a.Parts() {
		function := p.Type == abi.Encoder || p.Type == abi.Projector || p.Type == abi.Decoder
		if function && len(p.Files) > 0 && !slices.ContainsFunc(out, func(o Part) bool { return o.Name == p.Name }) {
			out = append(out, p)
		}
	}
	return out
}

// Only returns the assembly reduced to one of its functions, or nil if it has
// none of that name.
func (a *Assembly) Only(name string) *Assembly {
	i := slices.IndexFunc(a.Functions(), func(p Part) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	one := &Assembly{Name: a.Name, Version: a.Version, ABI: a.ABI, Target: a.Target, Description: a.Description, License: a.License}
	if p := a.Functions()[i]; p.Type == abi.Decoder {
		for _, d := range a.Decoders {
			if d.Name == name {
				one.Decoders = append(one.Decoders, d)
			}
		}
	} else {
		one.Modalities = []ModalityPart{{Modality: p.Modality, Encoder: p}}
	}
	return one
}
