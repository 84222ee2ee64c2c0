package qnn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/qnn/ask"
	"mm-abi.org/mm/runtimes/worker"
	"mm-abi.org/mm/runtimes/worker/wire"
)

// Open checks the file and loads its context in a child. A core is a language model of a
// context and the GGUF file that it was compiled from (language.go).
func (e *Engine) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	if err := errors.Join(l.Check(), ctx.Err()); err != nil {
		return nil, err
	}
	if err := e.Can(b.Part); err != nil {
		return nil, err
	}
	if b.Part.Type == abi.Core || b.Part.Type == abi.DraftCore {
		return e.openLanguage(ctx, &b, l)
	}
	entry, err := b.Entry(abi.QNN)
	if err == nil {
		entry, err = filepath.Abs(entry)
	}
	if err != nil {
		return nil, err
	}
	f, err := qnnfile.OpenWith(entry, onnx.NamedOpener(b.Part.Files[string(abi.QNN)], b.Files.Path, b.Sealed()))
	if err != nil {
		return nil, fmt.Errorf("checking %s: %w", b.Part.ID(), err)
	}
	defer f.Close()
	build, err := e.sdk(ctx)
	if err != nil {
		return nil, err
	}
	o, err := e.admit(f, &b, l, build)
	if err != nil {
		return nil, err
	}
	m, err := e.start(ctx, o, wire.Open{Name: b.Part.Name, Version: b.Part.Version, Type: b.Part.Type, Format: abi.QNN, Path: entry, Limits: l})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// opening is an accepted context and how to open it.
type opening struct {
	wireOpen ask.Open
	ports    ports
	facts    map[string]string
	scratch  string // temporary file of an embedded context; "": none
}

// discard removes the temporary file of a context that was not opened.
func (o *opening) discard() error {
	if o.scratch == "" {
		return nil
	}
	return fsx.RemoveAll(filepath.Dir(o.scratch))
}

// axes lists the axes that are not checked on a running machine: if the chip's half of
// the libraries is missing, loading fails, and emulation does not need it.
func axes() []string { return []string{htp.AxisSkel, htp.AxisVTCM, htp.AxisMemory, htp.AxisStamp} }

// admit checks the file against the libraries and chooses the graph to run.
func (e *Engine) admit(f *qnnfile.File, b *runtimes.Bundle, l runtimes.Limits, build string) (o opening, err error) {
	id := b.Part.ID()
	if left := f.Left(); len(f.Parts) != 1 && len(left) > 0 {
		return o, fmt.Errorf("opening %s: %s has %d contexts and operators for the processor: %s; the qnn backend needs exactly one context and no such operator", id, filepath.Base(f.Path), len(f.Parts), counted(left))
	}
	if len(f.Parts) != 1 {
		return o, fmt.Errorf("opening %s: %s has %d contexts, want 1", id, filepath.Base(f.Path), len(f.Parts))
	}
	p := f.Parts[0]
	t, err := e.target(l.Device, build, p.Context.SoC, p.Context.Arch)
	if err != nil {
		return o, err
	}
	if l.Memory > 0 && p.Size > l.Memory {
		return o, &runtimes.Unavailable{What: id, Why: fmt.Sprintf("its weights do not fit into %d bytes of memory", l.Memory), Hint: "raise the limit"}
	}
	accept := axes()
	if p.Context.SoC == 0 && (l.Device == "" || l.Device == deviceHTP) {
		accept = append(accept, htp.AxisSoC, htp.AxisArch) // no chip is requested or declared
	}
	if r := f.Check(qnnfile.CheckOptions{Target: t, Accept: accept}); !r.Fits {
		return o, fmt.Errorf("opening %s, written by %s, with the libraries of %s: %w", id, p.Context.Build, build, r.Faults.Err())
	}
	g, err := chosen(p, b.Manifest)
	if err != nil {
		return o, fmt.Errorf("opening %s: %w", id, err)
	}
	if o.ports, err = portsOf(g, b.Manifest); err != nil {
		return o, fmt.Errorf("opening %s: %w", id, err)
	}
	_, digest, err := fsx.DigestOf(p.Reader())
	if err != nil {
		return o, err
	}
	o.wireOpen = ask.Open{File: ask.File{Path: p.File, Offset: p.Offset, Size: p.Size, Digest: digest}, Graph: g.Name, Inputs: wireTensors(g.Inputs), Outputs: wireTensors(g.Outputs), Profile: true}
	at := p.File
	if p.Location != "" { // a file of the build, which may store it elsewhere
		at, err = b.Files.Path(path.Join(path.Dir(b.Part.Files[string(abi.QNN)][0]), p.Location))
	}
	if err == nil {
		o.wireOpen.Path, err = filepath.Abs(at)
	}
	if err != nil {
		return o, err
	}
	o.facts = map[string]string{"chip": chipOf(t, p.Context), "digest": digest, "graph": g.Name, "libraries": build, "sdk": p.Context.Build}
	if e.Simulates() {
		o.facts["simulated"] = "true"
	}
	if p.Embedded && f.Format == qnnfile.EPContext { // its bytes are inside the model
		o.scratch, err = extract(p)
		o.wireOpen.Path, o.wireOpen.Offset = o.scratch, 0
	}
	return o, err
}

// counted formats operators: ATAN2 1, CONV_2D 3.
func counted(left []qnnfile.Left) string {
	var names []string
	for _, l := range left {
		names = append(names, fmt.Sprintf("%s %d", l.Name, l.Count))
	}
	return strings.Join(names, ", ")
}

// chipOf names the chip that a context declares.
func chipOf(t htp.Target, c *htp.Context) string {
	if names := t.Chips.Names(c.SoC); len(names) > 0 && c.SoC != 0 {
		return fmt.Sprintf("%s (%d, %s)", names[0], c.SoC, c.Arch)
	}
	return fmt.Sprintf("%d, %s", c.SoC, c.Arch)
}

// extract writes a context to a file of its own.
func extract(p qnnfile.Part) (string, error) {
	dir, err := fsx.MkdirTemp("mm-qnn-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "context.bin")
	err = fsx.Replace(path, 0o600, func(to io.Writer) error {
		_, err := io.Copy(to, p.Reader())
		return err
	})
	if err != nil {
		return "", errors.Join(err, fsx.RemoveAll(dir))
	}
	return path, nil
}

// chosen returns the graph to run: the one that the file names, the only one, or the only
// one with the inputs that the module declares.
func chosen(p qnnfile.Part, m *modules.Manifest) (htp.Graph, error) {
	var all []string
	var found []htp.Graph
	for _, g := range p.Context.Graphs {
		if len(p.Graphs) > 0 && !slices.Contains(p.Graphs, g.Name) {
			continue
		}
		all = append(all, g.Name)
		if len(p.Context.Graphs) == 1 || m == nil || declared(g, m) {
			found = append(found, g)
		}
	}
	if len(found) != 1 {
		return htp.Graph{}, fmt.Errorf("ambiguous graph: of the context's graphs (%s) %d match the declared inputs, want 1", strings.Join(all, ", "), len(found))
	}
	return found[0], nil
}

// declared reports whether a graph has the inputs that a module declares.
func declared(g htp.Graph, m *modules.Manifest) bool {
	for _, in := range m.Inputs {
		if !slices.ContainsFunc(g.Inputs, func(t htp.Tensor) bool { return t.Name == in.Name }) {
			return false
		}
	}
	return len(g.Inputs) == len(m.Inputs)
}

// wireTensors converts tensors for mm-native.
func wireTensors(list []htp.Tensor) []ask.Tensor {
	out := []ask.Tensor{}
	for _, t := range list {
		x := ask.Tensor{ID: t.ID, Name: t.Name, Version: uint32(t.Version), DType: uint32(t.DType), Dims: t.Dims}
		if t.Quant.Encoding == htp.ScaleOffset {
			x.Scale, x.Offset = t.Quant.Scales[0], t.Quant.Offsets[0]
		}
		out = append(out, x)
	}
	return out
}

// start opens the context in a child.
func (e *Engine) start(ctx context.Context, o opening, w wire.Open) (_ *function, err error) {
	f := &function{ports: o.ports, facts: o.facts}
	if o.scratch != "" {
		f.scratch = filepath.Dir(o.scratch)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	opt, err := e.worker(ctx, native.QNN, w.Limits.Memory)
	if err != nil {
		return nil, err
	}
	if w.Own, err = json.Marshal(o.wireOpen); err != nil {
		return nil, err
	}
	w.Limits.Device = ""
	m, err := worker.Open(ctx, opt, w)
	if err != nil {
		return nil, err
	}
	inner, ok := m.(inner)
	if !ok {
		return nil, errors.Join(errors.New("mm-native did not open a function"), m.Close())
	}
	f.inner = inner
	return f, nil
}

// inner is a function in a child that also answers questions.
type inner interface {
	runtimes.Function
	worker.Asker
}

// function is an open graph.
type function struct {
	inner   inner
	ports   ports
	facts   map[string]string
	scratch string // folder to remove on Close
}

// Run computes on tensors with the types that the module declares.
func (f *function) Run(ctx context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	inputs, err := f.ports.enter(in)
	if err != nil {
		return nil, err
	}
	out, err := f.inner.Run(ctx, inputs)
	if err != nil {
		return nil, err
	}
	return f.ports.leave(out)
}

// Facts returns the facts that a record of results must name: chip, SDK, libraries,
// digest, and whether it is simulated.
func (f *function) Facts() map[string]string { return f.facts }

// Profile returns the libraries' events of the last run. In emulation they name an
// accelerator too, but no HVX thread was used.
func (f *function) Profile(ctx context.Context) (ask.Events, error) {
	var e ask.Events
	err := f.inner.Ask(ctx, ask.Profile, nil, &e)
	return e, err
}

// Close ends the child.
func (f *function) Close() error {
	var err error
	if f.inner != nil {
		err = f.inner.Close()
	}
	if f.scratch != "" {
		err = errors.Join(err, fsx.RemoveAll(f.scratch))
	}
	return err
}
