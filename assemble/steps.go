package assemble

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/diag"
	"mm-abi.org/mm/resolve"
)

// validate reads the graph and settles which targets are built.
func (b *build) validate(context.Context) error {
	data, err := os.ReadFile(b.opt.Graph)
	if err != nil {
		b.list.Add(diag.Unreadable, diag.Pos{File: b.opt.Graph}, err.Error(), "")
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

// defaultTarget is what a build without exports is shipped as: with the core's
// weights as they are.
const defaultTarget = "laptop"

// chooseTargets applies --target and --export to the graph's exports.
func (b *build) chooseTargets() {
	if len(b.opt.Exports) > 0 {
		spec, err := parseExports(b.opt.Exports)
		if err != nil {
			b.list.Add(diag.BadExport, diag.Pos{File: "--export"}, err.Error(), "write gguf=int4,kv=fp8 or onnx=NAME,NAME")
			return
		}
		name := b.opt.Target
		if name == "" {
			name = defaultTarget
		}
		spec.Platform = b.graph.Exports[name].Platform
		b.graph.Exports = map[string]builds.Target{name: spec}
	}
	if len(b.graph.Exports) == 0 {
		b.graph.Exports = map[string]builds.Target{defaultTarget: {Exports: []builds.Export{{Format: abi.GGUF}}}}
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
		b.targets = append(b.targets, &target{name: name, spec: b.graph.Exports[name], ptr: "/exports/" + name})
	}
}

// parseExports reads the values of --export: FORMAT=VALUE[,MORE…]. For gguf
// the first value is the precision and kv=TYPE may follow; for other formats
// every value is a module.
func parseExports(values []string) (builds.Target, error) {
	var t builds.Target
	for _, v := range values {
		format, rest, ok := strings.Cut(v, "=")
		if !ok || rest == "" {
			return t, fmt.Errorf("%q has no value", v)
		}
		e := builds.Export{Format: abi.Format(format)}
		for _, item := range strings.Split(rest, ",") {
			key, value, named := strings.Cut(item, "=")
			switch {
			case !named && e.Format != abi.GGUF && e.Format != abi.CoreML && e.Format != abi.ExecuTorch:
				e.Modules = append(e.Modules, item)
			case !named && e.Precision == "":
				e.Precision = item
			case named && key == "quant":
				e.Precision = value
			case named && key == "kv":
				e.KV = abi.DType(value)
			default:
				return t, fmt.Errorf("%q in %q is not understood", item, v)
			}
		}
		if e.Format == abi.GGUF && !slices.Contains(abi.Precisions(), e.Precision) {
			return t, fmt.Errorf("%q in %q is no precision", e.Precision, v)
		}
		t.Exports = append(t.Exports, e)
	}
	return t, nil
}

// resolve brings every module of the graph into the store.
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

// check asks whether the modules fit each other, and whether each one's files
// are what its manifest says.
func (b *build) check(ctx context.Context) error {
	b.list = append(b.list, b.graph.Check(resolve.Manifests(b.modules))...)
	for _, l := range b.lock.Modules {
		m := b.modules[l.Name]
		list, err := export.Inspect(ctx, b.opt.Store, m)
		if err != nil {
			return fmt.Errorf("reading %s: %w", m.Manifest.ID(), err)
		}
		b.list = append(b.list, list...)
	}
	b.formats()
	return nil
}

// formats reports the formats that no exporter writes yet. Under KeepGoing the
// targets concerned are dropped with a warning and the others are built.
func (b *build) formats() {
	var kept []*target
	for _, t := range b.targets {
		missing := unsupported(t.spec)
		for _, format := range missing {
			detail := fmt.Sprintf("target %s wants %s", t.name, format)
			pos := b.graph.Pos(t.ptr + "/" + format)
			if b.opt.KeepGoing {
				b.list.Warn(diag.NoExporter, pos, detail+"; the target is left out", "")
			} else {
				b.list.Add(diag.NoExporter, pos, detail, "choose another target with --target, or --keep-going builds the others")
			}
		}
		if missing == nil {
			kept = append(kept, t)
		}
	}
	if len(kept) == 0 && b.opt.KeepGoing {
		b.list.Add(diag.NoTarget, b.graph.Pos("/exports"), "no target is left that can be built", "")
	}
	b.targets = kept
}

// unsupported lists the formats of a target that nothing writes yet, in the
// order of the alphabet.
func unsupported(t builds.Target) []string {
	var out []string
	for _, e := range t.Exports {
		if !slices.Contains([]abi.Format{abi.GGUF, abi.ONNX, abi.Safetensors}, e.Format) {
			out = append(out, string(e.Format))
		}
	}
	return out
}

// sign signs the whole build: every target's manifest and the index.
func (b *build) sign(ctx context.Context) error {
	if b.opt.Signer == nil {
		return nil
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
