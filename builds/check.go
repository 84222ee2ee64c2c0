package builds

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
)

// Resolved maps module names to the manifests that a graph's references
// resolved to. A nil manifest is that of a module with faults reported
// elsewhere; consequent faults are not reported again.
type Resolved map[string]*modules.Manifest

// checker walks one graph; binding holds the sizes of named dimensions.
type checker struct {
	graph    *Graph
	resolved Resolved
	binding  abi.Binding
	list     diag.List
}

// Check reports every reason why the modules of the graph do not fit. Modules
// that are absent from resolved are skipped with a warning, so that a graph
// can be checked with some of its modules.
func (g *Graph) Check(resolved Resolved) diag.List {
	c := &checker{graph: g, resolved: resolved}
	c.roles()
	c.bind()
	c.core()
	c.modalities()
	c.sequence()
	c.decoders()
	c.tools()
	c.coreless()
	c.golden()
	c.backends()
	c.exports()
	c.licenses()
	c.list.Sort()
	return c.list
}

// roles checks that each reference names a module of the right type, of the
// build's ABI major, and only once.
func (c *checker) roles() {
	seen := map[string]string{}
	for _, n := range c.graph.Nodes() {
		pos := c.graph.Pos(n.Ptr + "/ref")
		place := section(n.Ptr)
		if first, ok := seen[place+n.Ref.Name]; ok && n.Type != abi.Encoder && n.Type != abi.Projector {
			c.list.Add(diag.TwiceInBuild, pos, fmt.Sprintf("%s is already listed at %s", n.Ref.Name, first), "remove one of them")
		}
		seen[place+n.Ref.Name] = strings.TrimPrefix(n.Ptr, "/")
		m, ok := c.resolved[n.Ref.Name]
		if !ok {
			c.list.Warn(diag.NotChecked, pos, n.Ref.String(), "name its folder, or run mm lock")
		}
		if m == nil {
			continue
		}
		if m.Type != n.Type {
			c.list.Add(diag.WrongRole, pos, fmt.Sprintf("%s is a %s, a %s belongs here", m.ID(), m.Type, n.Type), "")
		}
		if major(m.ABI) != major(c.graph.ABI) {
			c.list.Add(diag.ABIDiffers, pos, fmt.Sprintf("%s has %s, the build %s", m.ID(), m.ABI, c.graph.ABI), "")
		}
	}
}

func section(ptr string) string { return strings.SplitN(ptr, "/", 3)[1] + "/" }

// major is the part of an ABI version before its last dot.
func major(v abi.Version) string {
	s := string(v)
	if i := strings.LastIndexByte(s, '.'); i >= 0 {
		return s[:i]
	}
	return s
}

// of returns the manifest of a reference if it is there and of the type that
// belongs in its place.
func (c *checker) of(ref abi.Ref, t abi.ModuleType) *modules.Manifest {
	if m := c.resolved[ref.Name]; m != nil && m.Type == t {
		return m
	}
	return nil
}

// bind enters the core's width first, so that later differences are reported
// against the core, then the widths of each module.
func (c *checker) bind() {
	if m := c.of(c.graph.Core.LLM.Ref, abi.Core); m != nil {
		t := m.Contract()
		c.binding.Set("", "d_model", int64(t.DModel), m.ID()+" tokens.d_model")
		c.binding.Set("", "vocab_size", int64(t.VocabSize), m.ID()+" tokens.vocab_size")
		c.binding.Set("", "max_seq", int64(t.MaxSeq), m.ID()+" tokens.max_seq")
	}
	for _, n := range c.graph.Nodes() {
		m := c.resolved[n.Ref.Name]
		if m == nil || n.Type == abi.Core {
			continue
		}
		for _, f := range m.Bind(&c.binding) {
			c.width(n.Ptr+"/ref", f)
		}
	}
}

// width reports a mismatch, as a width if it is one of d_model.
func (c *checker) width(ptr string, f *abi.Mismatch) {
	code, hint := diag.PortSize, "use modules trained for the same "+f.Dim
	if f.Dim == "d_model" {
		code, hint = diag.WidthDiffers, "use a module trained for this core's width"
	}
	c.list.Add(code, c.graph.Pos(ptr), fmt.Sprintf("%s is %s, but %s", f.Dim, f.Out, f.In), hint)
}

func (c *checker) core() {
	g := c.graph
	llm := g.Core.LLM
	core := c.of(llm.Ref, abi.Core)
	if llm.KVDType != "" && !llm.KVDType.KnownKV() {
		c.list.Add(diag.KVUnknown, g.Pos("/core/llm/kv_dtype"), fmt.Sprintf("unknown KV cache type %q, known: %s", llm.KVDType, join(abi.KVDTypes())), "")
	}
	if core == nil {
		return
	}
	tokens := core.Contract()
	if llm.DModel != 0 && llm.DModel != tokens.DModel {
		c.list.Add(diag.WidthDiffers, g.Pos("/core/llm/d_model"), fmt.Sprintf("the graph has %d, %s has %d", llm.DModel, core.ID(), tokens.DModel), fmt.Sprintf("write d_model: %d", tokens.DModel))
	}
	if llm.MaxSeq > tokens.MaxSeq {
		c.list.Add(diag.SequenceFull, g.Pos("/core/llm/max_seq"), fmt.Sprintf("the graph has %d, %s was made for %d", llm.MaxSeq, core.ID(), tokens.MaxSeq), "")
	}
	if llm.KVDType.KnownKV() && len(core.KVDTypes) > 0 && !slices.Contains(core.KVDTypes, llm.KVDType) {
		c.list.Add(diag.KVUnknown, g.Pos("/core/llm/kv_dtype"), fmt.Sprintf("%s does not list %s; it lists %s", core.ID(), llm.KVDType, join(core.KVDTypes)), "")
	}
	if g.Core.Draft != nil {
		c.sameTokens(core, c.of(g.Core.Draft.Ref, abi.DraftCore), "/core/draft/ref")
		c.madeFor(core, g.Core.Draft.Ref, abi.DraftCore, "/core/draft/ref")
	}
	for i, a := range g.Core.Adapters {
		ptr := fmt.Sprintf("/core/adapters/%d/ref", i)
		c.sameTokens(core, c.of(a.Ref, abi.Adapter), ptr)
		c.madeFor(core, a.Ref, abi.Adapter, ptr)
	}
	for i, d := range g.Decoders {
		c.sameTokens(core, c.of(d.Ref, abi.Decoder), fmt.Sprintf("/decoders/%d/ref", i))
	}
}

// sameTokens compares the token contract of m, if it has one, with the core's.
func (c *checker) sameTokens(core, m *modules.Manifest, ptr string) {
	if m == nil || m.Tokens == nil {
		return
	}
	want, got := core.Contract(), *m.Tokens
	pos := c.graph.Pos(ptr)
	if got.VocabSize != 0 && got.VocabSize != want.VocabSize {
		c.list.Add(diag.VocabDiffers, pos, fmt.Sprintf("%s has vocab_size %d, %s has %d", m.ID(), got.VocabSize, core.ID(), want.VocabSize), "use modules made for one tokenizer")
	}
	// A draft core may be narrower than the core: it exchanges tokens, not
	// vectors.
	if got.DModel != 0 && got.DModel != want.DModel && m.Type != abi.DraftCore {
		c.list.Add(diag.WidthDiffers, pos, fmt.Sprintf("%s has d_model %d, %s has %d", m.ID(), got.DModel, core.ID(), want.DModel), "use a module trained for this core's width")
	}
	if got.SpecialTokens != nil && !slices.Equal(got.SpecialTokens, want.SpecialTokens) {
		c.list.Add(diag.TokensDiffer, pos, fmt.Sprintf("%s: %s; %s: %s", m.ID(), strings.Join(got.SpecialTokens, " "), core.ID(), strings.Join(want.SpecialTokens, " ")), "use modules made for one tokenizer")
	}
}

// madeFor checks a draft core's for and an adapter's base against the core.
func (c *checker) madeFor(core *modules.Manifest, ref abi.Ref, t abi.ModuleType, ptr string) {
	m := c.of(ref, t)
	if m == nil {
		return
	}
	want := m.Base
	if t == abi.DraftCore {
		want = m.For
	}
	if want == (abi.Ref{}) {
		return
	}
	v, err := abi.ParseVersion(core.Version)
	if err == nil && (want.Name != core.Name || !want.Allows(v)) {
		c.list.Add(diag.Conflict, c.graph.Pos(ptr), fmt.Sprintf("%s is made for %s, the build's core is %s", m.ID(), want, core.ID()), "use a version made for this core")
	}
}

// modalities joins each encoder to its projector and the projector to the
// core.
func (c *checker) modalities() {
	for i, mod := range c.graph.Modalities {
		ptr := fmt.Sprintf("/modalities/%d", i)
		enc := c.of(mod.Enc.Ref, abi.Encoder)
		if !mod.Projects() {
			c.coreIgnores(ptr, mod)
			continue
		}
		proj := c.of(mod.Proj.Ref, abi.Projector)
		if mod.Proj.TCapOld != 0 && mod.Proj.TCapNew != 0 && mod.Proj.TCapOld != mod.Proj.TCapNew {
			c.list.Add(diag.ParamDiffers, c.graph.Pos(ptr+"/proj/t_cap"), fmt.Sprintf("T_cap is %d, t_cap is %d", mod.Proj.TCapOld, mod.Proj.TCapNew), "keep t_cap")
		}
		if mod.Proj.TCapOld != 0 && c.graph.ABI != abi.V1_0 {
			c.list.Warn(diag.OldSpelling, c.graph.doc.KeyPos(ptr+"/proj/T_cap"), "T_cap", "write t_cap")
		}
		if proj != nil {
			c.projector(ptr+"/proj", mod, proj)
		}
		if enc == nil || proj == nil {
			continue
		}
		if enc.Modality != proj.Modality {
			c.list.Add(diag.ModalityPair, c.graph.Pos(ptr+"/proj/ref"), fmt.Sprintf("%s is for %s, %s for %s", enc.ID(), enc.Modality, proj.ID(), proj.Modality), "pair modules of one modality")
		}
		faults := abi.ConnectAll(enc.ID(), enc.Outputs, proj.ID(), proj.Inputs, &c.binding)
		for _, in := range slices.Sorted(maps.Keys(faults)) {
			for _, f := range faults[in] {
				c.connection(ptr+"/proj/ref", enc, proj, proj.Inputs[in], f)
			}
		}
	}
}

// connection reports why an encoder does not feed a projector.
func (c *checker) connection(ptr string, enc, proj *modules.Manifest, in abi.Port, f *abi.Mismatch) {
	code := map[abi.MismatchKind]diag.Code{
		abi.MismatchRank: diag.PortRank, abi.MismatchSize: diag.PortSize, abi.MismatchName: diag.PortSize,
		abi.MismatchDType: diag.PortDType, abi.MismatchNone: diag.PortUnattached,
	}[f.What]
	detail := fmt.Sprintf("%s gives %s, %s takes %s for %q", enc.ID(), f.Out, proj.ID(), f.In, in.Name)
	if f.What == abi.MismatchSize {
		detail = fmt.Sprintf("%s of %q: %s gives %s, %s takes %s", or(f.Dim, fmt.Sprintf("dimension %d", f.Axis)), in.Name, enc.ID(), f.Out, proj.ID(), f.In)
	}
	c.list.Add(code, c.graph.Pos(ptr), detail, "use the projector trained for this encoder")
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// projector compares the graph's values for a projector with its manifest and
// its width and cap with the core.
func (c *checker) projector(ptr string, mod Modality, proj *modules.Manifest) {
	core := c.of(c.graph.Core.LLM.Ref, abi.Core)
	width, _ := proj.Params.Int("d_model")
	// A projector of another width than the core's is already reported; no
	// out_dim would fix it.
	misfit := core != nil && int64(core.Contract().DModel) != width
	if n := mod.Proj.OutDim; n != 0 && int64(n) != width && !misfit {
		c.list.Add(diag.ParamDiffers, c.graph.Pos(ptr+"/out_dim"), fmt.Sprintf("the graph has %d, %s gives %d", n, proj.ID(), width), fmt.Sprintf("write out_dim: %d", width))
	}
	capPtr := ptr + "/T_cap"
	if mod.Proj.TCapNew != 0 {
		capPtr = ptr + "/t_cap"
	}
	if n := mod.TCap(); n != 0 && n != proj.TCap() {
		c.list.Add(diag.ParamDiffers, c.graph.Pos(capPtr), fmt.Sprintf("the graph has %d, %s gives at most %d", n, proj.ID(), proj.TCap()), fmt.Sprintf("write T_cap: %d", proj.TCap()))
	}
	limit, _ := abi.DefaultCaps(proj.Modality)
	who := string(c.graph.ABI)
	if core != nil {
		limit = core.Cap(proj.Modality)
		if _, own := core.Caps.Int(string(proj.Modality)); own {
			who = core.ID()
		}
	}
	if n := c.tcap(mod, proj); limit > 0 && n > limit {
		c.list.Add(diag.CapOverABI, c.graph.Pos(capPtr), fmt.Sprintf("%s may take %d places, %s allows %s %d", proj.ID(), n, who, proj.Modality, limit), "lower T_cap, or raise caps."+string(proj.Modality)+" of the core")
	}
}

func (c *checker) tcap(mod Modality, proj *modules.Manifest) int {
	if n := mod.TCap(); n != 0 || proj == nil {
		return n
	}
	return proj.TCap()
}

// sequence checks that all modalities together leave room for text.
func (c *checker) sequence() {
	core := c.of(c.graph.Core.LLM.Ref, abi.Core)
	if core == nil || !slices.ContainsFunc(c.graph.Modalities, Modality.Projects) {
		return
	}
	sum := 0
	var parts []string
	for _, mod := range c.graph.Modalities {
		if !mod.Projects() {
			continue
		}
		n := c.tcap(mod, c.of(mod.Proj.Ref, abi.Projector))
		sum += n
		parts = append(parts, fmt.Sprint(n))
	}
	limit := core.Contract().MaxSeq
	if n := c.graph.Core.LLM.MaxSeq; n != 0 {
		limit = min(limit, n)
	}
	if sum >= limit {
		c.list.Add(diag.SequenceFull, c.graph.Pos("/modalities"), fmt.Sprintf("%s = %d places of a max_seq of %d", strings.Join(parts, " + "), sum, limit), "lower the caps, or use a core with a longer max_seq")
	}
}

// decoders checks each decoder's input width against the core and its
// parameters against its manifest.
func (c *checker) decoders() {
	core := c.of(c.graph.Core.LLM.Ref, abi.Core)
	for i, d := range c.graph.Decoders {
		m := c.of(d.Ref, abi.Decoder)
		if m == nil {
			continue
		}
		ptr := fmt.Sprintf("/decoders/%d", i)
		for _, key := range slices.Sorted(maps.Keys(d.Params)) {
			if own, ok := m.Params[key]; ok && fmt.Sprint(own) != fmt.Sprint(d.Params[key]) {
				c.list.Add(diag.ParamDiffers, c.graph.Pos(ptr+"/"+key), fmt.Sprintf("%s: the graph has %v, %s has %v", key, d.Params[key], m.ID(), own), fmt.Sprintf("write %s: %v", key, own))
			} else if !ok {
				c.list.Add(diag.UnknownKey, c.graph.doc.KeyPos(ptr+"/"+key), fmt.Sprintf("unknown parameter %q of %s", key, m.ID()), "known: "+strings.Join(slices.Sorted(maps.Keys(m.Params)), ", "))
			}
		}
		if core == nil || len(m.Inputs) == 0 || len(m.Inputs[0].Shape) == 0 {
			continue
		}
		in := m.Inputs[0]
		last := in.Shape[len(in.Shape)-1]
		if last.Name != "" {
			n, _, ok := c.binding.Size(m.ID(), last.Name)
			if !ok {
				continue
			}
			last.Size = n
		}
		if want := core.Contract().DModel; last.Size != int64(want) {
			c.list.Add(diag.WidthDiffers, c.graph.Pos(ptr+"/ref"), fmt.Sprintf("%s takes %s %d wide, %s has d_model %d", m.ID(), in.Name, last.Size, core.ID(), want), "use a decoder trained for this core's width")
		}
	}
}

func join[T ~string](list []T) string {
	parts := make([]string, len(list))
	for i, v := range list {
		parts[i] = string(v)
	}
	return strings.Join(parts, ", ")
}
