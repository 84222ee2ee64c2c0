package assemble

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/resolve"
)

// export makes each target's files and its assembly.
func (b *build) export(ctx context.Context) error {
	for _, t := range b.targets {
		t.assembly = &builds.Assembly{
			Name: b.graph.Name, Version: b.graph.Version, ABI: b.graph.ABI, Target: t.name,
			Description: b.graph.Description, License: b.license(),
			Golden: b.graph.Golden,
		}
		if err := b.exportTarget(ctx, t); err != nil {
			return fmt.Errorf("target %s: %w", t.name, err)
		}
	}
	return nil
}

func (b *build) exportTarget(ctx context.Context, t *target) error {
	g, a := b.graph, t.assembly
	core := b.module(g.Core.LLM.Ref)
	a.Tokens = core.Manifest.Contract()
	if n := g.Core.LLM.MaxSeq; n != 0 {
		a.Tokens.MaxSeq = n
	}
	a.KV = b.kv(t)
	var err error
	if a.Core, err = b.weights(ctx, t, core); err != nil {
		return err
	}
	if d := g.Core.Draft; d != nil {
		part, err := b.weights(ctx, t, b.module(d.Ref))
		if err != nil {
			return err
		}
		a.Draft, a.DraftTokens = &part, d.Tokens
	}
	for _, ad := range g.Core.Adapters {
		part, err := b.part(t, b.module(ad.Ref), "gguf", "safetensors")
		if err != nil {
			return err
		}
		scale := 1.0
		if ad.Scale != nil {
			scale = *ad.Scale
		}
		a.Adapters = append(a.Adapters, builds.AdapterPart{Part: part, Scale: scale})
	}
	for _, mod := range g.Modalities {
		enc, err := b.listed(t, b.module(mod.Enc.Ref))
		if err != nil {
			return err
		}
		proj, err := b.listed(t, b.module(mod.Proj.Ref))
		if err != nil {
			return err
		}
		tcap := mod.TCap()
		if tcap == 0 {
			tcap = b.module(mod.Proj.Ref).Manifest.TCap()
		}
		a.Modalities = append(a.Modalities, builds.ModalityPart{Modality: b.module(mod.Enc.Ref).Manifest.Modality, Encoder: enc, Projector: proj, TCap: tcap})
	}
	for _, d := range g.Decoders {
		part, err := b.listed(t, b.module(d.Ref))
		if err != nil {
			return err
		}
		a.Decoders = append(a.Decoders, builds.DecoderPart{Part: part, Params: d.Params})
	}
	return b.exportTools(t)
}

// exportTools adds skills, router and sandbox, which every target carries.
func (b *build) exportTools(t *target) error {
	g, a := b.graph, t.assembly
	box := modules.Effective{}
	if s := g.Runtime.Sandbox; s != nil {
		m := b.module(s.Ref)
		box = s.Limits.Effective().Merge(m.Manifest.Limits.Effective())
		part, err := b.part(t, m)
		if err != nil {
			return err
		}
		a.Sandbox = &builds.SandboxPart{Part: part, Limits: box, Engines: m.Manifest.Engines, Allow: m.Manifest.Allow}
	}
	for _, s := range g.Skills {
		m := b.module(s.Ref)
		part, err := b.part(t, m, "wasm", "starlark")
		if err != nil {
			return err
		}
		limits := s.Limits.Effective().Merge(box)
		var allow *modules.Allow
		if r := m.Manifest.Runtime; r != nil {
			limits, allow = limits.Merge(r.Limits.Effective()), r.Allow
		}
		a.Skills = append(a.Skills, builds.SkillPart{Part: part, Limits: limits, Allow: allow})
	}
	if r := g.Runtime.Router; r != nil {
		m := b.module(r.Ref)
		part, err := b.part(t, m)
		if err != nil {
			return err
		}
		a.Router = &builds.RouterPart{Part: part, ToolCallTokens: r.ToolCallTokens, MaxCalls: r.MaxCalls}
		if a.Router.ToolCallTokens == nil {
			a.Router.ToolCallTokens = m.Manifest.ToolCallTokens
		}
		if a.Router.MaxCalls == 0 {
			a.Router.MaxCalls = m.Manifest.MaxCalls
		}
	}
	return nil
}

// module finds a resolved module by its reference; resolve has seen to it that
// there is one.
func (b *build) module(ref string) *resolve.Module {
	r, err := abi.ParseRef(ref)
	if err != nil {
		return nil
	}
	return b.modules[r.Name]
}

// kv is the KV cache type of a target: what its gguf export says, else what
// the graph says. GGUF has no 8-bit float, which is told.
func (b *build) kv(t *target) abi.DType {
	kv, ptr := b.graph.Core.LLM.KVDType, "/core/llm/kv_dtype"
	if e, ok := t.spec.Export(abi.GGUF); ok && e.KV != "" {
		kv, ptr = e.KV, e.Ptr+"/kv"
	}
	if kv == abi.FP8 {
		b.list.Note(diag.KVMapped, b.graph.Pos(ptr), fmt.Sprintf("target %s: fp8 becomes int8 with scales (q8_0)", t.name), "")
		return abi.Int8
	}
	return kv
}

// weights adds a language model: its GGUF in the target's precision.
func (b *build) weights(ctx context.Context, t *target, m *resolve.Module) (builds.Part, error) {
	part, err := b.part(t, m)
	e, ok := t.spec.Export(abi.GGUF)
	if err != nil || !ok {
		return part, err
	}
	quant := e.Precision
	as := "gguf as it is"
	if quant != "" {
		as = "gguf " + string(quant)
	}
	b.say("export", m.Manifest.ID()+" as "+as)
	out, err := export.GGUF(ctx, m, export.Options{Quant: abi.DType(quant), Store: b.opt.Store, Cache: b.opt.Cache})
	if err != nil {
		b.list.Add(diag.ExportFailed, b.graph.Pos(t.ptr+"/gguf"), fmt.Sprintf("%s as %s: %v", m.Manifest.ID(), as, err), "")
		return part, ctx.Err()
	}
	for _, note := range out.Notes {
		b.list.Note(diag.QuantFallback, b.graph.Pos(t.ptr+"/gguf"), m.Manifest.ID()+": "+note, "")
	}
	path := m.Manifest.Name + "/" + m.Manifest.Name + ".gguf"
	notes := map[string]string{
		abi.AnnotationComponent: m.Manifest.Name, abi.AnnotationRole: string(m.Manifest.Type), abi.AnnotationVersion: m.Manifest.Version,
		abi.AnnotationFormat: "gguf",
	}
	if quant != "" {
		notes[abi.AnnotationQuant] = string(quant)
	}
	t.add(registry.Layer{Path: path, Descriptor: out.Descriptor, Annotations: notes})
	part.Files["gguf"], part.Quant = []string{path}, quant
	return part, nil
}

// listed adds an encoder, projector or decoder in the formats whose lists name
// it.
func (b *build) listed(t *target, m *resolve.Module) (builds.Part, error) {
	var formats []string
	for _, f := range []abi.Format{abi.ONNX, abi.Safetensors} {
		if e, ok := t.spec.Export(f); ok && e.Takes(m.Manifest.Name, m.Manifest.Type) {
			formats = append(formats, string(f))
		}
	}
	return b.part(t, m, formats...)
}

// part adds a module's manifest and documents, and its files in the formats
// named, unchanged, under a folder of the module's name.
func (b *build) part(t *target, m *resolve.Module, formats ...string) (builds.Part, error) {
	name := m.Manifest.Name
	p := builds.Part{
		Name: name, Version: m.Manifest.Version, Type: m.Manifest.Type, Modality: m.Manifest.Modality,
		Digest: m.Descriptor.Digest.String(), Manifest: name + "/" + modules.FileName, Files: builds.Files{},
	}
	for _, l := range m.Artifact.Layers {
		format := l.Annotations[abi.AnnotationFormat]
		role := l.Annotations[abi.AnnotationRole]
		weights := role == string(m.Manifest.Type) && format != ""
		if weights && !slices.Contains(formats, format) {
			continue
		}
		moved := registry.Layer{Path: name + "/" + l.Path, Descriptor: l.Descriptor, Annotations: maps.Clone(l.Annotations)}
		if weights {
			p.Files[format] = append(p.Files[format], moved.Path)
		}
		t.add(moved)
	}
	return p, nil
}

// add appends a layer once; two references may share a module.
func (t *target) add(l registry.Layer) {
	if !slices.ContainsFunc(t.layers, func(o registry.Layer) bool { return o.Path == l.Path }) {
		t.layers = append(t.layers, l)
	}
}

// license joins the licences of all modules with AND, sorted.
func (b *build) license() string {
	if b.graph.License != "" {
		return b.graph.License
	}
	set := map[string]bool{}
	for _, m := range b.modules {
		if l := m.Manifest.License; l != "" {
			if strings.Contains(l, " ") {
				l = "(" + l + ")"
			}
			set[l] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(set)), " AND ")
}

// compose writes a manifest for each target and, for several, an index.
func (b *build) compose(ctx context.Context) error {
	lock, err := b.lock.Encode()
	if err != nil {
		return err
	}
	lockDesc, err := b.opt.Store.AddBytes(ctx, abi.MediaWeightConfig, lock)
	if err != nil {
		return err
	}
	graphDesc, err := b.opt.Store.AddBytes(ctx, abi.MediaWeightConfig, b.source)
	if err != nil {
		return err
	}
	for _, t := range b.targets {
		role := map[string]string{abi.AnnotationRole: abi.RoleAssembly, abi.AnnotationFormat: "yaml"}
		t.add(registry.Layer{Path: b.graph.Name + ".lock.yaml", Descriptor: lockDesc, Annotations: role})
		t.add(registry.Layer{Path: b.graph.Name + ".graph.yaml", Descriptor: graphDesc, Annotations: role})
		if err := b.composeTarget(ctx, t, lockDesc.Digest.String()); err != nil {
			return err
		}
	}
	return b.composeIndex(ctx, lockDesc.Digest.String())
}

func (b *build) composeTarget(ctx context.Context, t *target, lock string) error {
	sortLayers(t.layers)
	data, err := t.assembly.Encode()
	if err != nil {
		return err
	}
	desc, err := b.opt.Store.AddBytes(ctx, abi.MediaWeightConfig, data)
	if err != nil {
		return err
	}
	t.add(registry.Layer{Path: builds.AssemblyFile, Descriptor: desc, Annotations: map[string]string{abi.AnnotationRole: abi.RoleAssembly, abi.AnnotationFormat: "json"}})
	sortLayers(t.layers)
	notes := b.annotations(lock)
	notes[abi.AnnotationTarget] = t.name
	t.desc, err = registry.Pack(ctx, b.opt.Store, registry.Artifact{
		Name: b.graph.Name, Version: b.graph.Version, Layers: t.layers, Annotations: notes, Config: b.config(t),
	})
	if err != nil {
		return fmt.Errorf("target %s: %w", t.name, err)
	}
	size := int64(0)
	for _, l := range t.layers {
		size += l.Descriptor.Size
	}
	b.result.Targets = append(b.result.Targets, TargetResult{Target: t.name, Ref: b.ref("-" + t.name), Digest: t.desc.Digest.String(), Files: len(t.layers), Bytes: size})
	return nil
}

// ref is the build's reference in the store; suffix goes behind the version.
func (b *build) ref(suffix string) string {
	return b.graph.Name + ":" + b.graph.Version + suffix
}

// sortLayers puts the core's GGUF first, where readers that know only "the
// model" look for it, and the rest by path.
func sortLayers(layers []registry.Layer) {
	slices.SortFunc(layers, func(x, y registry.Layer) int {
		if cx, cy := isCore(x), isCore(y); cx != cy {
			if cx {
				return -1
			}
			return 1
		}
		return strings.Compare(x.Path, y.Path)
	})
}

func isCore(l registry.Layer) bool {
	return l.Annotations[abi.AnnotationRole] == string(abi.Core) && l.Annotations[abi.AnnotationFormat] == "gguf"
}

func (b *build) annotations(lock string) map[string]string {
	a := map[string]string{
		abi.AnnotationABI: string(b.graph.ABI), abi.AnnotationKind: abi.KindAssembly, abi.AnnotationName: b.graph.Name,
		abi.AnnotationVersion: b.graph.Version, abi.AnnotationLock: lock,
		"org.opencontainers.image.version": b.graph.Version, "org.opencontainers.image.title": b.graph.Name,
	}
	if l := b.license(); l != "" {
		a["org.opencontainers.image.licenses"] = l
	}
	if b.graph.Description != "" {
		a["org.opencontainers.image.description"] = b.graph.Description
	}
	if b.opt.Created != nil {
		a["org.opencontainers.image.created"] = b.opt.Created.UTC().Format("2006-01-02T15:04:05Z")
	}
	return a
}

// config is the ModelPack config of a target.
func (b *build) config(t *target) registry.ModelConfig {
	c := resolve.Config(b.module(b.graph.Core.LLM.Ref).Manifest)
	c.Descriptor.Name, c.Descriptor.Version, c.Descriptor.Description = b.graph.Name, b.graph.Version, b.graph.Description
	c.Descriptor.CreatedAt = b.opt.Created
	c.Descriptor.Licenses = nil
	if l := b.license(); l != "" {
		c.Descriptor.Licenses = []string{l}
	}
	if e, ok := t.spec.Export(abi.GGUF); ok {
		c.Config.Format, c.Config.Quantization = "gguf", e.Precision
	}
	in, out := []string{"text"}, []string{"text"}
	for _, m := range t.assembly.Modalities {
		in = append(in, string(m.Modality))
	}
	for _, d := range t.assembly.Decoders {
		out = append(out, string(d.Modality))
	}
	slices.Sort(in)
	slices.Sort(out)
	tools := len(t.assembly.Skills) > 0
	c.Config.Capabilities = &registry.ModelCapabilities{InputTypes: slices.Compact(in), OutputTypes: slices.Compact(out), ToolUsage: &tools}
	return c
}

// composeIndex points at every target; a single target needs none.
func (b *build) composeIndex(ctx context.Context, lock string) error {
	b.result.Ref, b.result.Out = b.ref(""), b.opt.Out
	if len(b.targets) == 1 {
		b.result.Descriptor = b.targets[0].desc
		b.result.Digest = b.result.Descriptor.Digest.String()
		return nil
	}
	var entries []registry.IndexEntry
	for _, t := range b.targets {
		entries = append(entries, registry.IndexEntry{Descriptor: t.desc, Target: t.name, Platform: platform(t)})
	}
	desc, err := registry.PackIndex(ctx, b.opt.Store, entries, b.annotations(lock))
	if err != nil {
		return err
	}
	b.result.Descriptor, b.result.Digest = desc, desc.Digest.String()
	return nil
}
