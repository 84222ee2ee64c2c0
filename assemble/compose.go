package assemble

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/builds/resolve"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/modelpack"
	"mm-abi.org/mm/schemas"
)

// export creates the files and the assembly of each target.
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
	if b.graph.HasCore() {
		b.exportCore(ctx, t)
	}
	b.exportFunctions(ctx, t)
	b.exportTools(ctx, t)
	return ctx.Err()
}

// exportCore adds the core and the modules that operate on it.
func (b *build) exportCore(ctx context.Context, t *target) {
	g, a := b.graph, t.assembly
	core := b.module(g.Core.LLM.Ref)
	a.Tokens = core.Manifest.Contract()
	if n := g.Core.LLM.MaxSeq; n != 0 {
		a.Tokens.MaxSeq = n
	}
	a.KV = b.kv(t)
	a.Core = b.part(ctx, t, core, g.Core.LLM.Backend)
	if d := g.Core.Draft; d != nil {
		part := b.part(ctx, t, b.module(d.Ref), "")
		a.Draft, a.DraftTokens = &part, d.Tokens
	}
	for _, ad := range b.adaptersOf(core) {
		a.Adapters = append(a.Adapters, builds.AdapterPart{Part: b.adapter(ctx, t, ad.Module), Scale: ad.Scale})
	}
}

// exportFunctions adds encoders, projectors and decoders.
func (b *build) exportFunctions(ctx context.Context, t *target) {
	g, a := b.graph, t.assembly
	for _, mod := range g.Modalities {
		enc := b.module(mod.Enc.Ref)
		part := builds.ModalityPart{Modality: enc.Manifest.Modality, Encoder: b.part(ctx, t, enc, mod.Enc.Backend), TCap: mod.TCap()}
		if mod.Projects() {
			proj := b.module(mod.Proj.Ref)
			part.Projector = b.part(ctx, t, proj, mod.Proj.Backend)
			part.TCap = cmp.Or(part.TCap, proj.Manifest.TCap())
		}
		a.Modalities = append(a.Modalities, part)
	}
	for _, d := range g.Decoders {
		a.Decoders = append(a.Decoders, builds.DecoderPart{Part: b.part(ctx, t, b.module(d.Ref), d.Backend), Params: d.Params})
	}
}

// exportTools adds skills, router and sandbox, which are in every target.
func (b *build) exportTools(ctx context.Context, t *target) {
	g, a := b.graph, t.assembly
	box := modules.Effective{}
	if s := g.Runtime.Sandbox; s != nil {
		m := b.module(s.Ref)
		box = s.Limits.Effective().Merge(m.Manifest.Limits.Effective())
		a.Sandbox = &builds.SandboxPart{Part: b.part(ctx, t, m, ""), Limits: box, Engines: m.Manifest.Engines, Allow: m.Manifest.Allow}
	}
	for _, s := range g.Skills {
		m := b.module(s.Ref)
		limits := s.Limits.Effective().Merge(box)
		var allow *modules.Allow
		if r := m.Manifest.Runtime; r != nil {
			limits, allow = limits.Merge(r.Limits.Effective()), r.Allow
		}
		a.Skills = append(a.Skills, builds.SkillPart{Part: b.part(ctx, t, m, ""), Limits: limits, Allow: allow})
	}
	if r := g.Runtime.Router; r != nil {
		m := b.module(r.Ref)
		a.Router = &builds.RouterPart{Part: b.part(ctx, t, m, ""), ToolCallTokens: r.ToolCallTokens, MaxCalls: r.MaxCalls}
		if a.Router.ToolCallTokens == nil {
			a.Router.ToolCallTokens = m.Manifest.ToolCallTokens
		}
		if a.Router.MaxCalls == 0 {
			a.Router.MaxCalls = m.Manifest.MaxCalls
		}
	}
}

// module returns a resolved module; the step resolve guarantees that it exists.
func (b *build) module(ref abi.Ref) *resolve.Module { return b.modules[ref.Name] }

// kv returns the KV cache type of a target: from the export of its core, otherwise
// from the graph. Engines for GGUF have no 8-bit floats: 8-bit integers with scales
// have the same size and lose a thirtieth (docs/BENCHMARKS.md), which is reported.
func (b *build) kv(t *target) abi.DType {
	kv, pos, format := b.graph.Core.LLM.KVDType, b.graph.Pos("/core/llm/kv_dtype"), abi.GGUF
	core := b.module(b.graph.Core.LLM.Ref).Manifest
	for _, e := range t.spec.Exports {
		if !e.Takes(core.Name, core.Type) {
			continue
		}
		format = e.Format
		if e.KV != "" {
			kv, pos = e.KV, b.pos(e, e.Ptr+"/kv")
			break
		}
	}
	if kv == abi.FP8 && format == abi.GGUF {
		b.list.Note(diag.KVMapped, pos, fmt.Sprintf("target %s: fp8 becomes int8 with scales (q8_0), which has the same size and is more accurate: 0.0001 nats a token are lost at 8,192 positions, against 0.004 with fp8", t.name), "write int8 to ask for what is stored")
		return abi.Int8
	}
	return kv
}

// part adds a module in a folder of its name: its documents and code, and its
// weights in the formats of the target. backend is the engine requested by the
// graph.
func (b *build) part(ctx context.Context, t *target, m *resolve.Module, backend string) builds.Part {
	p := b.documents(t, m)
	p.Backend = backend
	for _, e := range t.spec.Exports {
		if e.Takes(m.Manifest.Name, m.Manifest.Type) {
			b.exportPart(ctx, t, m, e, &p)
		}
	}
	return p
}

// documents adds the files of a module that are not weights.
func (b *build) documents(t *target, m *resolve.Module) builds.Part {
	name := m.Manifest.Name
	p := builds.Part{
		Name: name, Version: m.Manifest.Version, Type: m.Manifest.Type, Modality: m.Manifest.Modality,
		Digest: m.Descriptor.Digest.String(), Manifest: name + "/" + modules.FileName, Files: builds.Formats{},
	}
	for _, l := range m.Artifact.Layers {
		format := l.Annotations[abi.AnnotationFormat]
		code := abi.Format(format).Code()
		if slices.Contains(b.weights[name], l.Path) && !code {
			continue
		}
		moved := artifact.Layer{Path: name + "/" + l.Path, Descriptor: l.Descriptor, Annotations: maps.Clone(l.Annotations)}
		if code {
			p.Files[format] = append(p.Files[format], moved.Path)
		}
		t.add(moved)
	}
	return p
}

// exportPart adds a module's files in a format.
func (b *build) exportPart(ctx context.Context, t *target, m *resolve.Module, e builds.Export, p *builds.Part) {
	as := string(e.Format)
	if e.Precision != "" {
		as += " " + e.Precision
	}
	b.say("export", m.Manifest.ID()+" as "+as)
	files, notes, err := b.opt.exporter(e.Format).Export(ctx, m, e, export.Sink{Store: b.opt.Store, Cache: b.opt.Cache, Dir: filepath.Dir(b.opt.Graph), Adapters: b.adaptersOf(m)})
	if err == nil && len(files) == 0 {
		err = errors.New("the exporter returned no file")
	}
	if err != nil {
		b.list.Add(diag.ExportFailed, b.pos(e, e.Ptr), fmt.Sprintf("%s as %s: %v", m.Manifest.ID(), as, err), "")
		return
	}
	for _, note := range notes {
		b.list.Note(diag.QuantFallback, b.pos(e, e.Ptr), m.Manifest.ID()+": "+note, "")
	}
	for _, l := range files {
		b.addWeights(t, m, l, e, p)
	}
	if p.Quant == "" { // an exporter has a default
		p.Quant = cmp.Or(e.Precision, files[0].Annotations[abi.AnnotationQuant])
	}
}

// addWeights adds a file of an exporter, with annotations about its module.
func (b *build) addWeights(t *target, m *resolve.Module, l artifact.Layer, e builds.Export, p *builds.Part) {
	if !schemas.ValidPath(l.Path) {
		b.list.Add(diag.ExportFailed, b.pos(e, e.Ptr), fmt.Sprintf("%s as %s: %q is not a path inside of a folder", m.Manifest.ID(), e.Format, l.Path), "")
		return
	}
	l.Path = m.Manifest.Name + "/" + l.Path
	notes := map[string]string{
		abi.AnnotationComponent: m.Manifest.Name, abi.AnnotationRole: string(m.Manifest.Type), abi.AnnotationVersion: m.Manifest.Version,
		abi.AnnotationFormat: string(e.Format),
	}
	if e.Precision != "" {
		notes[abi.AnnotationQuant] = e.Precision
	}
	if p.Backend != "" {
		notes[abi.AnnotationBackend] = p.Backend
	}
	maps.Copy(notes, l.Annotations)
	l.Annotations = notes
	p.Files[string(e.Format)] = append(p.Files[string(e.Format)], l.Path)
	t.add(l)
}

// adaptersOf returns the adapters of a module: the core has those of the graph.
func (b *build) adaptersOf(m *resolve.Module) (list []export.Adapter) {
	if !b.graph.HasCore() || m != b.module(b.graph.Core.LLM.Ref) {
		return nil
	}
	for _, ad := range b.graph.Core.Adapters {
		a := export.Adapter{Module: b.module(ad.Ref), Scale: 1}
		if ad.Scale != nil {
			a.Scale = *ad.Scale
		}
		list = append(list, a)
	}
	return list
}

// adapter adds an adapter. If the core's weights are in the target as GGUF or
// safetensors, the adapter's are added unchanged; other formats have it merged.
func (b *build) adapter(ctx context.Context, t *target, m *resolve.Module) builds.Part {
	p := b.part(ctx, t, m, "")
	core := t.assembly.Core.Files
	if len(p.Files) > 0 || core.Entry(abi.GGUF) == "" && core.Entry(abi.Safetensors) == "" {
		return p
	}
	for _, f := range []abi.Format{abi.GGUF, abi.Safetensors} {
		if m.Manifest.Entry(f) != "" && b.opt.exporter(f) != nil {
			b.exportPart(ctx, t, m, builds.Export{Format: f}, &p)
		}
	}
	return p
}

// add appends a layer once; references may share a module.
func (t *target) add(l artifact.Layer) {
	if !slices.ContainsFunc(t.layers, func(o artifact.Layer) bool { return o.Path == l.Path }) {
		t.layers = append(t.layers, l)
	}
}

// license returns the graph's license or, if it has none, that of all modules.
func (b *build) license() string {
	var all []string
	for _, m := range b.modules {
		all = append(all, m.Manifest.License)
	}
	return cmp.Or(b.graph.License, JoinLicenses(all))
}

// JoinLicenses joins different licenses with AND, sorted.
func JoinLicenses(all []string) string {
	set := map[string]bool{}
	for _, l := range all {
		if strings.Contains(l, " ") {
			l = "(" + l + ")"
		}
		set[l] = true
	}
	delete(set, "")
	return strings.Join(slices.Sorted(maps.Keys(set)), " AND ")
}

// compose writes a manifest per target and, for several targets, an index.
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
		t.add(artifact.Layer{Path: b.graph.Name + ".lock.yaml", Descriptor: lockDesc, Annotations: role})
		t.add(artifact.Layer{Path: b.graph.Name + ".graph.yaml", Descriptor: graphDesc, Annotations: role})
		if err := b.composeTarget(ctx, t, lockDesc.Digest.String()); err != nil {
			return err
		}
	}
	return b.composeIndex(ctx, lockDesc.Digest.String())
}

func (b *build) composeTarget(ctx context.Context, t *target, lock string) error {
	data, err := t.assembly.Encode()
	if err != nil {
		return err
	}
	desc, err := b.opt.Store.AddBytes(ctx, abi.MediaWeightConfig, data)
	if err != nil {
		return err
	}
	t.add(artifact.Layer{Path: builds.AssemblyFile, Descriptor: desc, Annotations: map[string]string{abi.AnnotationRole: abi.RoleAssembly, abi.AnnotationFormat: "json"}})
	if err := b.legal(ctx, t); err != nil {
		return fmt.Errorf("target %s: %w", t.name, err)
	}
	notes := b.annotations(lock)
	notes[abi.AnnotationTarget] = t.name
	t.desc, err = artifact.Pack(ctx, b.opt.Store, artifact.Artifact{
		Name: b.graph.Name, Version: b.graph.Version, Layers: t.layers, Annotations: notes, Config: b.config(t),
	})
	if err != nil {
		return fmt.Errorf("target %s: %w", t.name, err)
	}
	size := int64(0)
	for _, l := range t.layers {
		size += l.Descriptor.Size
	}
	b.result.Targets = append(b.result.Targets, TargetResult{Target: t.name, Ref: b.ref(t.name), Digest: t.desc.Digest.String(), Files: len(t.layers), Bytes: size})
	return nil
}

// ref returns the reference of a target, or of the build if target is empty.
func (b *build) ref(target string) string {
	tag := abi.VersionTag(b.graph.Version)
	if target != "" {
		tag = abi.TargetTag(b.graph.Version, target)
	}
	return abi.Ref{Name: b.graph.Name, Tag: tag}.String()
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

// config returns the ModelPack config of a target.
func (b *build) config(t *target) artifact.ModelConfig {
	manifests := map[string]*modules.Manifest{}
	for name, m := range b.modules {
		manifests[name] = m.Manifest
	}
	c, head := Config(t.assembly, manifests)
	c.Descriptor.CreatedAt = b.opt.Created
	for _, e := range t.spec.Exports {
		if head.Files.Entry(e.Format) != "" {
			c.Config.Format = string(e.Format)
			break
		}
	}
	return c
}

// Config returns the ModelPack config of an assembly, by the manifests of its
// modules, and the part whose format and precision represent it: the core, or
// otherwise the first function. The config names no format and no date.
func Config(a *builds.Assembly, manifests map[string]*modules.Manifest) (artifact.ModelConfig, builds.Part) {
	head := leading(a)
	c := modelpack.Config(manifests[head.Name])
	c.Descriptor.Name, c.Descriptor.Version, c.Descriptor.Description = a.Name, a.Version, a.Description
	c.Descriptor.Licenses = nil
	if a.License != "" {
		c.Descriptor.Licenses = []string{a.License}
	}
	c.Config.Format, c.Config.Quantization = "", head.Quant
	c.Config.Capabilities = capabilities(a)
	if !a.HasCore() {
		c.Config.Capabilities.InputTypes, c.Config.Capabilities.OutputTypes = functions(a, manifests)
	}
	return c, head
}

func leading(a *builds.Assembly) builds.Part {
	parts := a.Parts()
	if !a.HasCore() {
		if i := slices.IndexFunc(parts, func(p builds.Part) bool { return len(p.Files) > 0 }); i >= 0 {
			return parts[i]
		}
	}
	return parts[0]
}

// capabilities returns what a target can do with its files. It is signed: it omits
// modules whose files are not in the target, and tool use if the code of the tools
// is elsewhere.
func capabilities(a *builds.Assembly) *artifact.ModelCapabilities {
	var in, out []string
	if len(a.Core.Files) > 0 {
		in, out = append(in, string(abi.Text)), append(out, string(abi.Text))
		for _, m := range a.Modalities {
			if len(m.Encoder.Files) > 0 && len(m.Projector.Files) > 0 {
				in = append(in, string(m.Modality))
			}
		}
		for _, d := range a.Decoders {
			if len(d.Files) > 0 {
				out = append(out, string(d.Modality))
			}
		}
	}
	tools := a.Router != nil && len(a.Core.Files) > 0 && slices.ContainsFunc(a.Skills, func(s builds.SkillPart) bool { return len(s.Files) > 0 })
	slices.Sort(in)
	slices.Sort(out)
	return &artifact.ModelCapabilities{InputTypes: slices.Compact(in), OutputTypes: slices.Compact(out), ToolUsage: &tools}
}

// ModelPack's names for types that are not modalities.
const (
	embedding = "embedding" // vectors
	other     = "other"     // classes, time spans
)

// functions returns the input and output types of a build without a core. If the
// manifest decodes an output, its type is that of the decoded value.
func functions(a *builds.Assembly, manifests map[string]*modules.Manifest) (in, out []string) {
	for _, m := range a.Modalities {
		if len(m.Encoder.Files) == 0 {
			continue
		}
		in = append(in, string(m.Modality))
		read := manifests[m.Encoder.Name].Postprocess
		if len(read) == 0 {
			out = append(out, embedding)
		}
		for _, p := range read {
			if p.CTC != nil {
				out = append(out, string(abi.Text))
			} else {
				out = append(out, other)
			}
		}
	}
	for _, d := range a.Decoders {
		if len(d.Files) > 0 {
			in, out = append(in, embedding), append(out, string(d.Modality))
		}
	}
	slices.Sort(in)
	slices.Sort(out)
	return slices.Compact(in), slices.Compact(out)
}

// composeIndex writes an index of the targets; a single target has none.
func (b *build) composeIndex(ctx context.Context, lock string) error {
	b.result.Ref, b.result.Out = b.ref(""), b.opt.Out
	if len(b.targets) == 1 {
		b.result.Descriptor = b.targets[0].desc
		b.result.Digest = b.result.Descriptor.Digest.String()
		return nil
	}
	var entries []artifact.IndexEntry
	for _, t := range b.targets {
		entries = append(entries, artifact.IndexEntry{Descriptor: t.desc, Target: t.name, Platform: platform(t)})
	}
	desc, err := artifact.PackIndex(ctx, b.opt.Store, entries, b.annotations(lock))
	if err != nil {
		return err
	}
	b.result.Descriptor, b.result.Digest = desc, desc.Digest.String()
	return nil
}
