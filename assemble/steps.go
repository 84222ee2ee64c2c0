package assemble

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/builds/resolve"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules/inspect"
	"mm-abi.org/mm/schemas"
)

// validate reads the graph and chooses the targets.
func (b *build) validate(context.Context) error {
	data, list := schemas.ReadFile(b.opt.Graph, diag.Unreadable)
	if list.Failed() {
		b.list = append(b.list, list...)
		return nil
	}
	g, list := builds.Parse(b.opt.Graph, data)
	b.list = append(b.list, list...)
	if g == nil {
		return nil
	}
	b.graph, b.source = g, data
	b.result.Name, b.result.Version = g.Name, g.Version
	b.chooseTargets()
	return nil
}

// defaultTarget is the target of a build without exports: everything, unchanged.
const defaultTarget = "laptop"

// defaultExports returns exports of the core and of every function.
func (b *build) defaultExports() (out []builds.Export) {
	if b.graph.HasCore() {
		out = append(out, builds.Export{Format: abi.GGUF})
	}
	e := builds.Export{Format: abi.ONNX}
	for _, n := range b.graph.Nodes() {
		switch n.Type {
		case abi.Encoder, abi.Projector, abi.Decoder:
			if !slices.Contains(e.Modules, n.Ref.Name) {
				e.Modules = append(e.Modules, n.Ref.Name)
			}
		}
	}
	if len(e.Modules) > 0 {
		out = append(out, e)
	}
	return out
}

// chooseTargets applies --target and --export to the graph's exports.
func (b *build) chooseTargets() {
	if len(b.opt.Exports) > 0 {
		spec, err := b.parseExports(b.opt.Exports)
		if err != nil {
			b.list.Add(diag.BadExport, diag.Pos{File: exportFlag}, err.Error(), "write gguf=int4,kv=fp8, onnx=NAME,NAME or qnn=NAME,NAME@SM8750,precision=w8a8")
			return
		}
		name := b.opt.Target
		if name == "" {
			name = defaultTarget
		}
		if !abi.ValidTarget(name) {
			b.list.Add(diag.NoTarget, diag.Pos{File: "--target"}, fmt.Sprintf("invalid target name %q", name), "use lower-case letters and digits joined by . - _")
			return
		}
		spec.Platform = b.graph.Exports[name].Platform
		b.graph.Exports = map[string]builds.Target{name: spec}
	}
	if len(b.graph.Exports) == 0 {
		b.graph.Exports = map[string]builds.Target{defaultTarget: {Exports: b.defaultExports()}}
	}
	names := b.graph.Targets()
	if b.opt.Target != "" {
		if !slices.Contains(names, b.opt.Target) {
			b.list.Add(diag.NoTarget, b.graph.Pos("/exports"), fmt.Sprintf("%q; the graph has %s", b.opt.Target, strings.Join(names, ", ")), "")
			return
		}
		names = []string{b.opt.Target}
	}
	for _, name := range names {
		b.targets = append(b.targets, &target{name: name, spec: b.graph.Exports[name]})
	}
}

// lists are the formats for which a bare word of --export is a module, even if the
// graph has no such module.
var lists = []abi.Format{abi.ONNX, abi.Safetensors, abi.NNAPI, abi.OpenVINO, abi.QNN, abi.TFLite, abi.CoreML, abi.ExecuTorch}

// languages are the formats that hold a core of a fixed size.
var languages = []abi.Format{abi.QNN, abi.OpenVINO, abi.CoreML, abi.ExecuTorch}

// rounded reports whether a bare word of --export is a precision of the formats that
// are written from ONNX and rounded.
func rounded(f abi.Format, item string) bool {
	return slices.Contains([]abi.Format{abi.NNAPI, abi.OpenVINO, abi.TFLite, abi.CoreML, abi.ExecuTorch}, f) &&
		slices.Contains([]string{"fp32", "fp16", "int8", "int4"}, item)
}

// parseExports parses the values of --export: FORMAT=ITEM[,ITEM…]. An item is a
// module, a precision, quant=PRECISION or precision=PRECISION, or kv=TYPE; for qnn
// also NAME@CHIP, min_cosine=C and layers=FIRST:END; for a core of fixed size
// window=N, positions=N and stateful=true. A format may occur several times.
func (b *build) parseExports(values []string) (builds.Target, error) {
	var t builds.Target
	for _, v := range values {
		format, rest, ok := strings.Cut(v, "=")
		if !ok || rest == "" {
			return t, fmt.Errorf("%q has no value", v)
		}
		i := slices.IndexFunc(t.Exports, func(e builds.Export) bool { return string(e.Format) == format })
		if i < 0 {
			i, t.Exports = len(t.Exports), append(t.Exports, builds.Export{Format: abi.Format(format)})
		}
		for _, item := range strings.Split(rest, ",") {
			if !b.exportItem(&t.Exports[i], item) {
				return t, fmt.Errorf("unknown item %q in %q", item, v)
			}
		}
	}
	slices.SortFunc(t.Exports, func(x, y builds.Export) int { return strings.Compare(string(x.Format), string(y.Format)) })
	return t, nil
}

// exportItem applies an item; it reports whether the item is known and not a
// duplicate.
func (b *build) exportItem(e *builds.Export, item string) bool {
	key, value, named := strings.Cut(item, "=")
	switch {
	case item == "" || named && value == "":
		return false
	case e.Format == abi.QNN && !named && strings.Contains(item, "@"):
		name, chip, _ := strings.Cut(item, "@")
		return name != "" && option(e, "soc", chip) && b.exportItem(e, name)
	case slices.Contains(languages, e.Format) && (key == "window" || key == "positions"):
		n, err := strconv.Atoi(value)
		return err == nil && n > 0 && option(e, key, n)
	case slices.Contains(languages, e.Format) && e.Format != abi.QNN && item == "stateful=true":
		return option(e, key, true)
	case e.Format == abi.QNN && key == "layers":
		return named && option(e, key, value)
	case e.Format == abi.QNN && key == "min_cosine":
		c, err := strconv.ParseFloat(value, 64)
		return err == nil && c >= 0 && c <= 1 && option(e, key, c)
	case !named && (slices.Contains(lists, e.Format) && !rounded(e.Format, item) || b.names(item)):
		e.Modules = append(e.Modules, item)
	case !named && e.Precision == "":
		e.Precision = item
	case (key == "quant" || key == "precision") && named && e.Precision == "":
		e.Precision = value
	case key == "kv" && named && e.KV == "":
		e.KV = abi.DType(value)
	default:
		return false
	}
	return true
}

// option sets an option of an export of contexts.
func option(e *builds.Export, key string, value any) bool {
	options := map[string]json.RawMessage{}
	if e.Options != nil && json.Unmarshal(e.Options, &options) != nil {
		return false
	}
	text, err := json.Marshal(value)
	if before, twice := options[key]; err != nil || value == "" || twice && !bytes.Equal(before, text) {
		return false
	}
	options[key] = text
	e.Options, err = json.Marshal(options)
	return err == nil
}

// names reports whether the graph has a module with a name.
func (b *build) names(name string) bool {
	return slices.ContainsFunc(b.graph.Nodes(), func(n builds.Node) bool { return n.Ref.Name == name })
}

// resolve adds every module of the graph to the store.
func (b *build) resolve(ctx context.Context) error {
	var err error
	b.modules, b.lock, err = b.opt.Resolver.Resolve(ctx, b.graph)
	if err != nil {
		return err
	}
	b.lock.Graph = builds.NewLock(b.graph, b.source).Graph
	b.result.Lock = b.lock
	for _, m := range b.lock.Modules {
		b.say("resolve", m.Name+"@"+m.Version+" from "+m.Source)
	}
	return nil
}

// check checks that the modules match each other and their files, and that the
// targets can be exported.
func (b *build) check(context.Context) error {
	for _, d := range b.graph.Check(resolve.Resolved(b.modules)) {
		if d.Pos == (diag.Pos{}) {
			d.Pos.File = exportFlag
		}
		b.list = append(b.list, d)
	}
	b.weights = map[string][]string{}
	for _, l := range b.lock.Modules {
		m := b.modules[l.Name]
		files := export.Files(b.opt.Store, m)
		b.list = append(b.list, inspect.Check(m.Manifest, files)...)
		for _, paths := range inspect.Weights(m.Manifest, files) {
			b.weights[l.Name] = append(b.weights[l.Name], paths...)
		}
	}
	b.exportable()
	return nil
}

// sign signs every target's manifest and the index. A build whose version exists is
// not signed.
func (b *build) sign(ctx context.Context) error {
	if err := b.claim(ctx); err != nil || b.list.Failed() || b.opt.Signer == nil {
		return err
	}
	signatures, err := b.opt.Signer.Sign(ctx, b.opt.Store, b.result.Descriptor)
	if err != nil {
		return err
	}
	for _, s := range signatures {
		b.result.Signatures = append(b.result.Signatures, s.Digest.String())
	}
	return nil
}
