package qnn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/qnn/ask"
	"mm-abi.org/mm/runtimes/worker"
)

// Compilation describes the compilation of an ONNX model, whose shapes must all be
// fixed, for a chip.
type Compilation struct {
	Model string // path; its external data is in files of the same folder
	SoC   int    // QNN's number of the chip
	// Out is the path of the ONNX model around the context. The context is written
	// to the same folder, as OUT without .onnx and with _qnn.bin.
	Out     string
	Embed   bool              // embed the context in the model
	Options map[string]string // of ONNX Runtime's provider, such as htp_graph_finalization_optimization_mode
	Chips   htp.Chips         // nil: the table of this release
}

// Compiled is the result of a compilation.
type Compiled struct {
	Wrapper string   // the ONNX model around the context
	Context string   // the context binary; "" if embedded in the wrapper
	Source  string   // digest of the compiled model: sha256:…
	Digest  string   // of the context's bytes
	Bytes   int64    // of the context
	SoC     uint32   // of the context
	Arch    htp.Arch // of the context
	Build   string   // of the SDK: v2.51.0.260929181845
	Ort     string   // version of ONNX Runtime
	Nodes   int      // of the model, all of them QNN's
}

// Left reports a model that the HTP cannot run completely.
type Left struct {
	Nodes []ask.Node // nodes left for the processor
	All   int        // number of nodes of the model
	Why   string     // message of ONNX Runtime
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
	return fmt.Sprintf("the HTP does not support %d of the %d nodes: %s", len(l.Nodes), l.All, strings.Join(names, ", "))
}

// Compile compiles a model for a chip with Qualcomm's libraries, through ONNX Runtime's
// plugin, and checks the chip and the SDK of the result. On an error it leaves no files.
// If a node would run on the processor, the error is [Left].
func (e *Engine) Compile(ctx context.Context, c Compilation) (Compiled, error) {
	if c.Chips == nil {
		c.Chips = htp.KnownChips()
	}
	if _, ok := c.Chips.Numbered(uint32(c.SoC)); !ok || c.SoC < 1 {
		return Compiled{}, fmt.Errorf("unknown chip %d", c.SoC)
	}
	if filepath.Ext(c.Out) != ".onnx" {
		return Compiled{}, fmt.Errorf("bad output %q: want a path that ends in .onnx", c.Out)
	}
	args, err := source(c)
	if err != nil {
		return Compiled{}, fmt.Errorf("compiling %s: %w", c.Model, err)
	}
	opt, err := e.worker(ctx, native.QNNCompiler, 0)
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

// source checks the model. All shapes must be fixed, which the plugin would report one
// node at a time.
func source(c Compilation) (ask.Compilation, error) {
	out := ask.Compilation{SoC: uint32(c.SoC), Embed: c.Embed, Options: c.Options}
	path, err := filepath.Abs(c.Model)
	if err != nil {
		return out, err
	}
	// The library runs the newest opset, although it warns about it.
	m, err := onnx.Admit(path, onnx.AdmitOptions{CheckOptions: onnx.CheckOptions{MinOpset: 1, MaxOpset: 27, Domains: []string{"com.microsoft"}}, Open: onnx.FolderOpener(filepath.Dir(path), nil)})
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

// fixedShapes reports all open dimensions.
func fixedShapes(m *onnx.Model) error {
	var faults []error
	for _, side := range []struct {
		what   string
		values []onnx.Value
	}{{"input", m.Inputs()}, {"output", m.Graph.Outputs}} {
		for _, v := range side.values {
			for i, d := range v.Type.Dims {
				if d.Param != "" || d.Value < 1 {
					faults = append(faults, fmt.Errorf("%s %q: dimension %d is open (%s), the HTP needs fixed shapes", side.what, v.Name, i, d))
				}
			}
			if v.Type.Kind == onnx.TensorKind && !v.Type.Ranked && side.what == "input" {
				faults = append(faults, fmt.Errorf("%s %q: unknown shape, the HTP needs fixed shapes", side.what, v.Name))
			}
		}
	}
	return errors.Join(faults...)
}

// compile requests a compilation and reads the output.
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
		return out, fmt.Errorf("reading the compiler's output: %w", err)
	}
	defer f.Close()
	if len(f.Parts) != 1 {
		return out, fmt.Errorf("the compiler wrote %d contexts, want 1", len(f.Parts))
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
		return out, fmt.Errorf("the compiler wrote a context for the wrong chip: want %d, got %d %s", args.SoC, p.Context.SoC, p.Context.Unread)
	}
	return out, nil
}

// provider is ONNX Runtime's name of QNN's provider.
const provider = "QNNExecutionProvider"

// publish moves the files into their folder atomically, the context first.
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
