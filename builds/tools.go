package builds

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
)

// tools compares the router's tokens with the core's and collects the limits
// of each skill.
func (c *checker) tools() {
	g := c.graph
	core := c.of(g.Core.LLM.Ref, abi.Core)
	if r := g.Runtime.Router; r != nil {
		tokens, ptr := r.ToolCallTokens, "/runtime/router/tool_call_tokens"
		if m := c.of(r.Ref, abi.Router); m != nil && m.ToolCallTokens != nil {
			if tokens == nil {
				tokens, ptr = m.ToolCallTokens, "/runtime/router/ref"
			} else if !slices.Equal(tokens, m.ToolCallTokens) {
				c.list.Add(diag.ParamDiffers, g.Pos(ptr), fmt.Sprintf("the graph has %s, %s has %s", strings.Join(tokens, " "), m.ID(), strings.Join(m.ToolCallTokens, " ")), "")
			}
		}
		foreign := core != nil && slices.Equal(tokens, []string{abi.ToolCallOpen, abi.ToolCallClose}) &&
			slices.ContainsFunc(tokens, func(t string) bool { return !core.Contract().Has(t) })
		if foreign {
			c.dialect(core, tokens, ptr)
		}
		for _, t := range tokens {
			if core != nil && !foreign && !core.Contract().Has(t) {
				c.list.Add(diag.TokensDiffer, g.Pos(ptr), fmt.Sprintf("%s is not a special token of %s", t, core.ID()), "known: "+strings.Join(core.Contract().SpecialTokens, " "))
			}
		}
	}
	if len(g.Skills) > 0 && g.Runtime.Sandbox == nil {
		c.list.Add(diag.MissingKey, g.Pos("/skills"), "the build has skills, but no sandbox to run them in", "add runtime.sandbox")
	}
	for i, s := range g.Skills {
		if m := c.of(s.Ref, abi.Skill); m != nil && m.Runtime != nil {
			c.limits(fmt.Sprintf("/skills/%d/ref", i), s, m)
		}
	}
}

// limits records the effective limits of a skill.
func (c *checker) limits(ptr string, s Skill, m *modules.Manifest) {
	box := c.graph.Runtime.Sandbox
	if box == nil {
		return
	}
	own, sandbox := s.own(m), c.graph.sandbox(c.of(box.Ref, abi.Sandbox))
	holds := own.Merge(sandbox).Filled()
	said := fmt.Sprintf("%s: %s", m.ID(), holds)
	if own.Merge(sandbox) != own {
		said = fmt.Sprintf("%s asks for %s, the sandbox allows %s: %s holds", m.ID(), own, sandbox, holds)
	}
	c.list.Note(diag.LimitsMerged, c.graph.Pos(ptr), said, "")
	m.NotePermissions(&c.list, c.graph.Pos(ptr))
}

// own returns the limits that a skill and its entry in the graph state.
func (s Skill) own(m *modules.Manifest) modules.Effective {
	if m == nil || m.Runtime == nil {
		return s.Limits.Effective()
	}
	return m.Runtime.Limits.Effective().Merge(s.Limits.Effective())
}

// sandbox returns the limits of the build's sandbox: its manifest's, if it is
// available, and the graph's, the smaller of each.
func (g *Graph) sandbox(m *modules.Manifest) modules.Effective {
	box := g.Runtime.Sandbox
	if box == nil {
		return modules.Effective{}
	}
	eff := box.Limits.Effective()
	if m != nil {
		eff = eff.Merge(m.Limits.Effective())
	}
	return eff
}

// Bound writes the limits that hold for each skill of the graph into the lock.
func (l *Lock) Bound(g *Graph, resolved Resolved) {
	var box *modules.Manifest
	if g.Runtime.Sandbox != nil {
		box = resolved[g.Runtime.Sandbox.Ref.Name]
	}
	for _, s := range g.Skills {
		for i := range l.Modules {
			if l.Modules[i].Name == s.Ref.Name {
				eff := s.own(resolved[s.Ref.Name]).Merge(g.sandbox(box)).Filled()
				l.Modules[i].Limits = &eff
			}
		}
	}
}

// exports checks that every export names modules of the graph that have the
// format and support the precision.
func (c *checker) exports() {
	for _, name := range c.graph.Targets() {
		for _, e := range c.graph.Exports[name].Exports {
			if e.twice {
				c.list.Add(diag.RepeatedItem, c.graph.doc.KeyPos(e.PrecisionPtr()), "core and quant are two words for one precision", "keep quant")
			}
			c.kv(e)
			c.files(e)
			c.named(e)
			for _, m := range c.taken(e) {
				c.precision(e, m)
			}
		}
	}
}

// kv checks a target's KV cache type by itself and against the core.
func (c *checker) kv(e Export) {
	core := c.of(c.graph.Core.LLM.Ref, abi.Core)
	pos := c.at(e, e.Ptr+"/kv")
	if e.KV != "" && !e.KV.KnownKV() {
		c.list.Add(diag.KVUnknown, pos, fmt.Sprintf("unknown KV cache type %q, known: %s", e.KV, join(abi.KVDTypes())), "")
	} else if core != nil && e.KV != "" && len(core.KVDTypes) > 0 && !slices.Contains(core.KVDTypes, e.KV) {
		c.list.Add(diag.KVUnknown, pos, fmt.Sprintf("%s does not list %s; it lists %s", core.ID(), e.KV, join(core.KVDTypes)), "")
	}
}

// files checks that the export's files exist in the graph's folder.
func (c *checker) files(e Export) {
	for _, f := range [...]struct{ key, path string }{{"imatrix", e.Imatrix}, {"calibration", e.Calibration}} {
		if f.path == "" {
			continue
		}
		at := filepath.Join(filepath.Dir(c.graph.File), filepath.FromSlash(f.path))
		info, err := os.Stat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			c.list.Add(diag.FileMissing, c.at(e, e.Ptr+"/"+f.key), fmt.Sprintf("missing file %s", at), "paths are those from the graph's folder")
		case err != nil:
			c.list.Add(diag.Unreadable, c.at(e, e.Ptr+"/"+f.key), err.Error(), "")
		case !info.Mode().IsRegular():
			c.list.Add(diag.Unreadable, c.at(e, e.Ptr+"/"+f.key), at+" is not a regular file", "name a file")
		}
	}
}

// at returns the position of a part of an export; none if it is not in the
// graph.
func (c *checker) at(e Export, ptr string) diag.Pos {
	if e.Ptr == "" {
		return diag.Pos{}
	}
	return c.graph.Pos(ptr)
}

// taken returns the resolved modules of an export, each once, in the order of
// the graph.
func (c *checker) taken(e Export) []*modules.Manifest {
	var list []*modules.Manifest
	for _, n := range c.graph.Nodes() {
		m := c.resolved[n.Ref.Name]
		if m != nil && e.Takes(m.Name, m.Type) && !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list
}

// precision compares one of the precisions that every format has with the
// module's list. A format's own precisions are checked by its exporter.
func (c *checker) precision(e Export, m *modules.Manifest) {
	if m.Quant == nil || !slices.Contains(abi.Precisions(), e.Precision) || slices.Contains(m.Quant.Supported, e.Precision) {
		return
	}
	c.list.Add(diag.QuantUnknown, c.at(e, e.PrecisionPtr()), fmt.Sprintf("%s does not list %s; it lists %s", m.ID(), e.Precision, join(m.Quant.Supported)), "")
}

// sources are the formats that other formats are made from.
var sources = map[abi.Format]abi.Format{
	abi.ONNX: abi.ONNX, abi.NNAPI: abi.ONNX, abi.OpenVINO: abi.ONNX, abi.QNN: abi.ONNX, abi.TFLite: abi.ONNX, abi.CoreML: abi.ONNX, abi.ExecuTorch: abi.ONNX, abi.Safetensors: abi.Safetensors,
}

// sourceOf is the format that an export of a module is made from: that of a core is
// made from its GGUF file.
func sourceOf(f abi.Format, m *modules.Manifest) abi.Format {
	from := sources[f]
	if from == abi.ONNX && f != abi.ONNX && (m.Type == abi.Core || m.Type == abi.DraftCore) {
		return abi.GGUF
	}
	return from
}

// named checks an export's module names against the graph and, where the
// target is made from an export of the module, against that.
func (c *checker) named(e Export) {
	known := map[string]bool{}
	for _, n := range c.graph.Nodes() {
		known[n.Ref.Name] = true
	}
	for i, name := range e.Modules {
		pos := c.at(e, e.ModulePtr(i))
		if !known[name] {
			c.list.Add(diag.ExportUnknown, pos, fmt.Sprintf("%q is not a module of the graph", name), "")
			continue
		}
		m := c.resolved[name]
		if m == nil {
			continue
		}
		if from := sourceOf(e.Format, m); from != "" && m.Entry(from) == "" && m.Entry(e.Format) == "" {
			c.list.Add(diag.NotExported, pos, fmt.Sprintf("%s exports no %s", m.ID(), from), "add export."+string(from)+" to its manifest")
		}
	}
}
