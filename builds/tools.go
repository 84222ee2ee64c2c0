package builds

import (
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/diag"
	"mm-abi.org/mm/modules"
)

// tools checks the router's tokens against the core and tells which limits
// hold for each skill.
func (c *checker) tools() {
	g := c.graph
	core := c.of(g.Core.LLM.Ref, abi.Core)
	if r := g.Runtime.Router; r != nil {
		tokens, ptr := r.ToolCallTokens, "/runtime/router/tool_call_tokens"
		if m := c.of(r.Ref, abi.Router); m != nil && m.ToolCallTokens != nil {
			if tokens == nil {
				tokens, ptr = m.ToolCallTokens, "/runtime/router/ref"
			} else if !slices.Equal(tokens, m.ToolCallTokens) {
				c.list.Add(diag.ParamDiffers, g.Pos(ptr), fmt.Sprintf("the graph says %s, %s has %s", strings.Join(tokens, " "), m.ID(), strings.Join(m.ToolCallTokens, " ")), "")
			}
		}
		for _, t := range tokens {
			if core != nil && !core.Contract().Has(t) {
				c.list.Add(diag.TokensDiffer, g.Pos(ptr), fmt.Sprintf("%s is no special token of %s", t, core.ID()), "known: "+strings.Join(core.Contract().SpecialTokens, " "))
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

// limits notes what holds where skill and sandbox disagree: the smaller.
func (c *checker) limits(ptr string, s Skill, m *modules.Manifest) {
	own := m.Runtime.Limits.Effective().Merge(s.Limits.Effective())
	sandbox := c.sandbox()
	if eff := own.Merge(sandbox); eff != own {
		c.list.Note(diag.LimitsMerged, c.graph.Pos(ptr), fmt.Sprintf("%s asks for %s, the sandbox allows %s: %s holds", m.ID(), own, sandbox, eff), "")
	}
}

// sandbox is what the build's sandbox allows: its manifest's limits and the
// graph's, the smaller of each.
func (c *checker) sandbox() modules.Effective {
	box := c.graph.Runtime.Sandbox
	if box == nil {
		return modules.Effective{}
	}
	eff := box.Limits.Effective()
	if m := c.of(box.Ref, abi.Sandbox); m != nil {
		eff = eff.Merge(m.Limits.Effective())
	}
	return eff
}

// exports checks that every export list names modules of the graph that have
// the format and support the precision.
func (c *checker) exports() {
	for _, name := range c.graph.Targets() {
		t := c.graph.Exports[name]
		ptr := "/exports/" + name
		core := c.of(c.graph.Core.LLM.Ref, abi.Core)
		if t.GGUF != nil {
			c.quant(ptr+"/gguf/quant", core, t.GGUF.Quant)
			if kv := t.GGUF.KV; kv != "" && !kv.KnownKV() {
				c.list.Add(diag.KVUnknown, c.graph.Pos(ptr+"/gguf/kv"), fmt.Sprintf("%q is no KV cache type, known: %s", kv, join(abi.KVDTypes())), "")
			} else if core != nil && kv != "" && len(core.KVDTypes) > 0 && !slices.Contains(core.KVDTypes, kv) {
				c.list.Add(diag.KVUnknown, c.graph.Pos(ptr+"/gguf/kv"), fmt.Sprintf("%s does not list %s; it lists %s", core.ID(), kv, join(core.KVDTypes)), "")
			}
		}
		for format, e := range map[string]*CoreExport{"executorch": t.ExecuTorch, "coreml": t.CoreML} {
			if e != nil && e.Core != "" {
				c.quant(ptr+"/"+format+"/core", core, e.Core)
			}
			if e != nil {
				c.named(ptr, format, e.Modules, "")
			}
		}
		c.named(ptr, "onnx", t.ONNX, "onnx")
		c.named(ptr, "safetensors", t.Safetensors, "safetensors")
		c.named(ptr, "nnapi", t.NNAPI, "onnx")
		c.named(ptr, "openvino", t.OpenVINO, "onnx")
		c.named(ptr, "qnn", t.QNN, "onnx")
	}
}

func (c *checker) quant(ptr string, m *modules.Manifest, q abi.DType) {
	if m == nil || m.Quant == nil || q == "" || slices.Contains(m.Quant.Supported, string(q)) {
		return
	}
	c.list.Add(diag.QuantUnknown, c.graph.Pos(ptr), fmt.Sprintf("%s does not list %s; it lists %s", m.ID(), q, join(m.Quant.Supported)), "")
}

// named checks a list of module names against the graph and, where the target
// is made from an export of the module, against that.
func (c *checker) named(ptr, format string, names []string, from string) {
	known := map[string]bool{}
	for _, n := range c.graph.Nodes() {
		known[n.Ref.Name] = true
	}
	for i, name := range names {
		pos := c.graph.Pos(fmt.Sprintf("%s/%s/%d", ptr, format, i))
		if !known[name] {
			c.list.Add(diag.ExportUnknown, pos, fmt.Sprintf("%q is no module of the graph", name), "")
			continue
		}
		if m := c.resolved[name]; m != nil && from != "" && m.Entry(abi.Format(from)) == "" {
			c.list.Add(diag.NotExported, pos, fmt.Sprintf("%s exports no %s", m.ID(), from), "add export."+from+" to its manifest")
		}
	}
}
