package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"mm-abi.org/mm/cmd/mm-native/qnnlib"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/device/protocol"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/runtimes/qnn/ask"
)

// maxInput bounds an input in bytes.
const maxInput = 1 << 31

// runOnDevice implements the runner of docs/DEVICES.md: it runs a context with QNN's libraries on
// the machine and prints a result as lab/device/protocol defines it. words are the arguments of
// the program; the result is the exit code. mm pushes mm-native, built for the device.
//
// Chip, architecture and HVX threads are those that the libraries report, never those of the
// context; on a machine without an HTP the result is simulated in any case.
func runOnDevice(ctx context.Context, words []string, stdout, stderr io.Writer) int {
	call, err := protocol.ParseCall(append([]string{"mm-device"}, words...))
	if err != nil {
		fmt.Fprintln(stderr, "mm-device:", err)
		return 2
	}
	r := &run{call: call, res: protocol.Result{
		Schema: protocol.Schema, Nonce: call.Nonce, Simulated: runtime.GOARCH != "arm64", GoArch: runtime.GOARCH, Version: version(),
		Outputs: []protocol.Output{}, Times: protocol.Times{Infer: []int64{}},
	}}
	if err := r.do(ctx); err != nil {
		r.res.Error = phoneAnswer(err)
	}
	if err := json.NewEncoder(stdout).Encode(r.res); err != nil {
		fmt.Fprintln(stderr, "mm-device:", err)
		return 3
	}
	if r.res.Error != nil {
		return 1
	}
	return 0
}

// version returns the version of the program's build.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// failed is an error with the stage of a run.
type failed struct {
	stage string
	err   error
}

func (f *failed) Error() string { return f.err.Error() }
func (f *failed) Unwrap() error { return f.err }

// at adds a stage to an error; nil stays nil.
func at(stage string, err error) error {
	if err == nil {
		return nil
	}
	return &failed{stage, err}
}

// phoneAnswer converts an error for the result, with QNN's code if it has one.
func phoneAnswer(err error) *protocol.Error {
	out := &protocol.Error{Stage: protocol.StageExecute, Message: err.Error()}
	if f := (*failed)(nil); errors.As(err, &f) {
		out.Stage = f.stage
	}
	if q := (*qnnlib.Failed)(nil); errors.As(err, &q) {
		out.Code = int64(q.Code)
	}
	return out
}

// run is one run.
type run struct {
	call protocol.Call
	res  protocol.Result
}

func (r *run) do(ctx context.Context) error {
	began := time.Now()
	libs := r.call.Libs
	if libs == "" {
		libs = "."
	}
	e, err := qnnlib.Open(libs)
	if err != nil {
		return at(protocol.StageLibraries, err)
	}
	p, err := e.Platform()
	r.res.Build, r.res.Platform = p.Build, protocol.Platform{SoC: p.SoC, Arch: p.Arch}
	if err != nil {
		return at(protocol.StageLibraries, err)
	}
	graph, o, err := r.describe()
	if err != nil {
		return at(protocol.StageContext, err)
	}
	r.res.Graph = graph.Name
	g, err := e.Load(o)
	if err != nil {
		return at(protocol.StageContext, err)
	}
	r.res.Times.Load = max(time.Since(began).Microseconds(), 1)
	return errors.Join(r.samples(ctx, g, graph), at(protocol.StageExecute, g.Close()))
}

// describe reads the context and chooses the graph to run.
func (r *run) describe() (g htp.Graph, o ask.Open, err error) {
	path, err := filepath.Abs(r.call.Context)
	if err != nil {
		return g, o, err
	}
	f, err := os.Open(path)
	if err != nil {
		return g, o, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return g, o, err
	}
	c, err := htp.ReadContext(f, info.Size())
	if err != nil {
		return g, o, err
	}
	for _, g := range c.Graphs {
		if g.Name == r.call.Graph || r.call.Graph == "" && len(c.Graphs) == 1 {
			return g, ask.Open{File: ask.File{Path: path, Size: info.Size()}, Graph: g.Name, Inputs: wireTensors(g.Inputs), Outputs: wireTensors(g.Outputs), Profile: true}, nil
		}
	}
	return g, o, fmt.Errorf("unknown graph %[2]q: the context has %[1]d graphs", len(c.Graphs), r.call.Graph)
}

// wireTensors converts tensors for the engine.
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

// samples runs each set of inputs, from 0000 on.
func (r *run) samples(ctx context.Context, g *qnnlib.Graph, graph htp.Graph) error {
	for s := range protocol.MaxSamples {
		in, err := r.inputs(s, graph)
		if s > 0 && errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return at(protocol.StageInputs, err)
		}
		var out [][]byte
		for range r.call.Repeat {
			began := time.Now()
			var hvx *int
			if out, hvx, err = g.Run(ctx, in); err != nil {
				return at(protocol.StageExecute, fmt.Errorf("sample %d: %w", s, err))
			}
			r.res.Times.Infer = append(r.res.Times.Infer, max(time.Since(began).Microseconds(), 1))
			if hvx != nil && (r.res.HVXThreads == nil || *hvx > *r.res.HVXThreads) {
				r.res.HVXThreads = hvx
			}
		}
		if err := r.write(s, graph, out); err != nil {
			return at(protocol.StageOutputs, err)
		}
	}
	return nil
}

// inputs reads a set of inputs.
func (r *run) inputs(s int, g htp.Graph) ([][]byte, error) {
	var in [][]byte
	for i, t := range g.Inputs {
		path := filepath.Join(r.call.Inputs, filepath.FromSlash(protocol.File(s, i)))
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if err := sized(t, info.Size()); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		in = append(in, data)
	}
	return in, nil
}

// sized checks the size of an input file.
func sized(t htp.Tensor, size int64) error {
	if n, ok := t.Bytes(); !ok || size != n || n > maxInput {
		return fmt.Errorf("size mismatch: got %d bytes, want %s%v of %d", size, t.DType, t.Dims, n)
	}
	return nil
}

// write writes the outputs of a set.
func (r *run) write(s int, g htp.Graph, out [][]byte) (err error) {
	dir, err := fsx.Create(filepath.Join(r.call.Outputs, filepath.Dir(filepath.FromSlash(protocol.File(s, 0)))), 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	for i, b := range out {
		if err := dir.WriteFile(path.Base(protocol.File(s, i)), b, 0o644); err != nil {
			return err
		}
		r.res.Outputs = append(r.res.Outputs, protocol.Output{Sample: s, Index: i, Name: g.Outputs[i].Name, Bytes: int64(len(b))})
	}
	return nil
}
