package qnn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/core/htp"
	"mm-abi.org/mm/core/htp/fit"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/admit"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/qnn/ask"
	"mm-abi.org/mm/runtimes/worker"
)

// Compilation is an ONNX model that is to be compiled for a chip. All shapes of
// the model must be fixed.
type Compilation struct {
	Model string // path; its external data lies in files beside it
	SoC   int    // QNN's number of the chip
	// Out is where the ONNX model around the context goes; the context lies
	// beside it, OUT without .onnx and with _qnn.bin.
	Out     string
	Embed   bool              // the context lies in the model
	Options map[string]string // of ONNX Runtime's provider, such as htp_graph_finalization_optimization_mode
	Chips   fit.Chips         // nil: those of this release
}

// Compiled is what came of a compilation.
type Compiled struct {
	Wrapper string   // the ONNX model around the context
	Context string   // the context binary; "" where it lies in the wrapper
	Source  string   // digest of the model that was compiled: sha256:…
	Digest  string   // of the context's bytes
	Bytes   int64    // of the context
	SoC     uint32   // as the context says
	Arch    htp.Arch // as the context says
	Build   string   // of the SDK: v2.51.0.260929181845
	Ort     string   // version of ONNX Runtime
	Nodes   int      // of the model, all of them QNN's
}

// Left is a model that the HTP does not take whole.
type Left struct {
	Nodes []ask.Node // that are left for the processor
	All   int        // nodes of the model
	Why   string     // what ONNX Runtime said
}

// Error names the nodes.
func (l *Left) Error() string {
	var names []string
	for i, n := range l.Nodes {
		if i == 8 {
			names = append(names, fmt.Sprintf("and %d more", len(l.Nodes)-i))
			break
		}
		names = append(names, fmt.Sprintf("%s %q", n.Op, n.Name))
	}
	return fmt.Sprintf("the HTP does not take %d of the %d nodes: %s", len(l.Nodes), l.All, strings.Join(names, ", "))
}

// Compile has Qualcomm's libraries compile a model for a chip, by way of ONNX
// Runtime's plugin, and reads what came of it: it is for that chip, of that
// SDK, and whole, or nothing is left behind. No node is ever left to the
// processor: that is [Left].
func (e *Engine) Compile(ctx context.Context, c Compilation) (Compiled, error) {
	if c.Chips == nil {
		c.Chips = fit.KnownChips()
	}
	if _, ok := c.Chips.Numbered(uint32(c.SoC)); !ok || c.SoC < 1 {
		return Compiled{}, fmt.Errorf("compiling for chip %d: the table of chips has none of that number", c.SoC)
	}
	if filepath.Ext(c.Out) != ".onnx" {
		return Compiled{}, fmt.Errorf("compiling into %q: what is written is an .onnx with its context beside it", c.Out)
	}
	args, err := source(c)
	if err != nil {
		return Compiled{}, fmt.Errorf("compiling %s: %w", c.Model, err)
	}
	opt, err := e.worker(native.QNNCompiler, 0)
	if err != nil {
		return Compiled{}, err
	}
	dir, err := filepath.Abs(filepath.Dir(c.Out))
	if err != nil {
		return Compiled{}, err
	}
	stage, err := fsx.MkdirTemp("mm-qnn-")
	if err != nil {
		return Compiled{}, err
	}
	args.Out = filepath.Join(stage, filepath.Base(c.Out))
	out, err := compile(ctx, opt, args)
	if err == nil {
		err = publish(&out, dir)
	}
	if err = errors.Join(err, fsx.RemoveAll(stage)); err != nil {
		return Compiled{}, fmt.Errorf("compiling %s: %w", c.Model, err)
	}
	return out, nil
}

// source checks the model, whose shapes must all be fixed: the plugin would
// refuse one node after the other.
func source(c Compilation) (ask.Compilation, error) {
	out := ask.Compilation{SoC: uint32(c.SoC), Embed: c.Embed, Options: c.Options}
	path, err := filepath.Abs(c.Model)
	if err != nil {
		return out, err
	}
	// The newest opset is one that the library says it does not know, and runs.
	m, err := admit.File(path, admit.Options{CheckOptions: onnx.CheckOptions{MinOpset: 1, MaxOpset: 27, Domains: []string{"com.microsoft"}}, Open: admit.Folder(filepath.Dir(path), nil)})
	if err != nil {
		return out, err
	}
	err = fixedShapes(m)
	if len(m.Externals()) > 0 {
		out.Folder = filepath.Dir(path)
	}
	if err = errors.Join(err, m.Close()); err != nil {
		return out, err
	}
	out.Model.Path = path
	out.Model.Size, out.Model.Digest, err = fsx.Digest(path)
	return out, err
}

// fixedShapes names all dimensions that are no numbers.
func fixedShapes(m *onnx.Model) error {
	var faults []error
	for _, side := range []struct {
		what   string
		values []onnx.Value
	}{{"input", m.Inputs()}, {"output", m.Graph.Outputs}} {
		for _, v := range side.values {
			for i, d := range v.Type.Dims {
				if d.Param != "" || d.Value < 1 {
					faults = append(faults, fmt.Errorf("%s %q has the dimension %d %s, and the HTP takes fixed ones: give it a number before compiling", side.what, v.Name, i, d))
				}
			}
			if v.Type.Kind == onnx.TensorKind && !v.Type.Ranked && side.what == "input" {
				faults = append(faults, fmt.Errorf("%s %q has no shape, and the HTP takes fixed ones", side.what, v.Name))
			}
		}
	}
	return errors.Join(faults...)
}

// compile asks for a compilation and reads what was written.
func compile(ctx context.Context, opt worker.Options, args ask.Compilation) (out Compiled, err error) {
	var got ask.Compiled
	if err := worker.Ask(ctx, opt, ask.Compile, args, &got); err != nil {
		return out, err
	}
	left := slices.DeleteFunc(slices.Clone(got.Nodes), func(n ask.Node) bool { return n.Provider == provider })
	if len(left) > 0 || got.Why != "" {
		return out, &Left{Nodes: left, All: len(got.Nodes), Why: got.Why}
	}
	f, err := qnnfile.Open(args.Out)
	if err != nil {
		return out, fmt.Errorf("what the compiler wrote: %w", err)
	}
	defer f.Close()
	if len(f.Parts) != 1 {
		return out, fmt.Errorf("the compiler made %d contexts, not one", len(f.Parts))
	}
	p := f.Parts[0]
	out = Compiled{Wrapper: args.Out, Source: args.Model.Digest, Bytes: p.Size, SoC: p.Context.SoC, Arch: p.Context.Arch, Build: p.Context.Build, Ort: got.Ort, Nodes: len(got.Nodes)}
	if !p.Embedded {
		out.Context = p.File
	}
	if _, out.Digest, err = fsx.DigestOf(p.Reader()); err != nil {
		return out, err
	}
	if p.Context.Unread != "" || p.Context.SoC != args.SoC {
		return out, fmt.Errorf("the compiler was asked for chip %d and made a context for chip %d %s", args.SoC, p.Context.SoC, p.Context.Unread)
	}
	return out, nil
}

// provider is what ONNX Runtime calls QNN's.
const provider = "QNNExecutionProvider"

// publish puts what was made into its folder, each file whole, the context
// first.
func publish(c *Compiled, dir string) error {
	for _, at := range []*string{&c.Context, &c.Wrapper} {
		if *at == "" {
			continue
		}
		to := filepath.Join(dir, filepath.Base(*at))
		from, err := fsx.OpenRegular(*at)
		if err != nil {
			return err
		}
		err = fsx.Replace(to, 0o644, func(w io.Writer) error {
			_, err := io.Copy(w, from)
			return err
		})
		if err := errors.Join(err, from.Close()); err != nil {
			return err
		}
		*at = to
	}
	return nil
}
