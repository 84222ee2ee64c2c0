// Package onnxfile writes networks as ONNX models for ONNX Runtime and
// onnx/engine: operators of opset 17, every value [N, Rows, Cols], weights
// unchanged. An image stays in planes between layers that take planes.
//
// A model may convert its inputs and outputs: inputs of bytes or half precision
// and as images, outputs scaled, rounded and cast, see [Input] and [Output]. A
// network that predicts velocities may be unrolled into the steps that generate
// a sample, see [Flow].
//
// [Read] reads the weights back, to continue training from a module.
package onnxfile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/train/net"
)

// Opset is the operator set version of the models.
const Opset = 17

// Layout is the layout of a sample in the model's tensor, after the batch
// dimension.
type Layout string

// The layouts.
const (
	Rows   Layout = "rows"   // [Rows, Cols], the default
	Pixels Layout = "pixels" // [H, W, Cols]
	Planes Layout = "planes" // [Cols, H, W]
	Flat   Layout = "flat"   // [Rows·Cols]
)

// Options configure a model. The zero value is for batches of any size, float32
// in and out.
type Options struct {
	Name    string            // of the graph; "net"
	Batch   int               // batch size; 0: any, a dimension named N
	Inputs  map[string]Input  // by the network's names
	Outputs map[string]Output // by the network's names
	Flow    *Flow
	// Half stores matrices and kernels in half precision, which halves the
	// file. A Cast converts them back when the model is loaded; products use
	// float32.
	Half bool
}

// Input converts an input of the model: the network receives Scale·x + Offset.
type Input struct {
	Name          string     // in the model; the network's name if empty
	Type          onnx.DType // FLOAT, FLOAT16, UINT8, INT64; 0 is FLOAT
	Layout        Layout
	Scale, Offset float32 // Scale 0 is 1
}

// Output converts an output of the network: the model returns Scale·y + Offset.
// Bytes are rounded and clamped to 0 to 255.
type Output struct {
	Name          string
	Type          onnx.DType // FLOAT, FLOAT16, UINT8; 0 is FLOAT
	Layout        Layout
	Scale, Offset float32
}

// Flow unrolls a network that predicts the velocity of a state at a time. The
// model runs Steps steps of Euler's method from noise at time 0 to a sample at
// time 1 and returns the sample. Layers that depend on neither state nor time
// are computed once.
type Flow struct {
	State, Time string // inputs: the state, and the time, one number per row
	Velocity    string // the output, of the state's shape
	// Sample: the output is the predicted sample, not a velocity. The velocity
	// is the remaining difference over the remaining time.
	Sample bool
	Steps  int
	// Noise [Rows·Cols] is the start of every sample. If nil, the model's input
	// State is.
	Noise []float32
}

// Model converts n with its current weights to an ONNX model.
func Model(n *net.Net[float32], opt Options) (*onnx.Model, error) {
	if err := check(n, opt); err != nil {
		return nil, fmt.Errorf("exporting to onnx: %w", err)
	}
	if opt.Name == "" {
		opt.Name = "net"
	}
	e := &emitter{net: n, opt: opt, model: onnx.New(opt.Name, Opset), held: map[string]bool{}}
	inputs := map[string]string{}
	for _, p := range n.Config().Inputs {
		if !opt.internal(p.Name) {
			inputs[p.Name] = e.input(p, opt.Inputs[p.Name])
		}
	}
	var results map[string]string
	if opt.Flow != nil {
		results = e.flow(inputs)
	} else {
		results = e.apply("/", inputs)
	}
	for _, name := range n.Config().Outputs {
		e.output(name, results[name], opt.Outputs[name])
	}
	return e.model, nil
}

// internal reports whether the flow supplies an input.
func (o Options) internal(input string) bool {
	f := o.Flow
	return f != nil && (input == f.Time || input == f.State && f.Noise != nil)
}

// ports returns the inputs of n by name.
func ports(n *net.Net[float32]) map[string]net.Port {
	all := map[string]net.Port{}
	for _, p := range n.Config().Inputs {
		all[p.Name] = p
	}
	return all
}

// output returns the port of an output of n.
func output(n *net.Net[float32], name string) (net.Port, bool) {
	step, ok := n.Output(name)
	for _, s := range n.Steps() {
		if ok && s.Name == step {
			return s.Gives, true
		}
	}
	return net.Port{}, false
}

// check reports what does not fit the network.
func check(n *net.Net[float32], opt Options) error {
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fault(opt.Batch < 0, "batch %d is negative", opt.Batch)
	names := map[string]bool{}
	claim := func(name, network string) {
		if name == "" {
			name = network
		}
		fault(names[name] || strings.HasPrefix(name, "/"), "name %q: duplicate or leading slash", name)
		names[name] = true
	}
	inputs := ports(n)
	for _, p := range n.Config().Inputs {
		if !opt.internal(p.Name) {
			claim(opt.Inputs[p.Name].Name, p.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(opt.Inputs)) {
		in := opt.Inputs[name]
		p, ok := inputs[name]
		fault(!ok || opt.internal(name), "unknown input %q", name)
		fault(!slices.Contains([]onnx.DType{0, onnx.FLOAT, onnx.FLOAT16, onnx.UINT8, onnx.INT64}, in.Type), "input %s: unsupported type %s", name, in.Type)
		errs = append(errs, in.Layout.check("input "+name, p))
	}
	for _, name := range n.Config().Outputs {
		claim(opt.Outputs[name].Name, name)
	}
	for _, name := range slices.Sorted(maps.Keys(opt.Outputs)) {
		out := opt.Outputs[name]
		p, ok := output(n, name)
		fault(!ok, "unknown output %q", name)
		fault(!slices.Contains([]onnx.DType{0, onnx.FLOAT, onnx.FLOAT16, onnx.UINT8}, out.Type), "output %s: unsupported type %s", name, out.Type)
		errs = append(errs, out.Layout.check("output "+name, p))
	}
	if f := opt.Flow; f != nil {
		state, okS := inputs[f.State]
		time, okT := inputs[f.Time]
		v, okV := output(n, f.Velocity)
		fault(!okS || !okT || !okV || len(n.Config().Outputs) != 1, "flow: want inputs %q and %q and a single output %q", f.State, f.Time, f.Velocity)
		fault(okS && okV && (state.Rows != v.Rows || state.Cols != v.Cols), "flow: shape mismatch: state [%d, %d], velocity [%d, %d]", state.Rows, state.Cols, v.Rows, v.Cols)
		fault(okT && time.Rows*time.Cols != 1, "flow: time is [%d, %d], want one number", time.Rows, time.Cols)
		fault(f.Steps < 1 || f.Steps > 1000, "flow: %d steps, want 1 to 1000", f.Steps)
		fault(f.Noise != nil && len(f.Noise) != state.Rows*state.Cols, "flow: %d numbers of noise, want [%d, %d]", len(f.Noise), state.Rows, state.Cols)
		fault(f.Noise != nil && opt.Batch != 1, "flow: noise requires batches of one")
	}
	return errors.Join(errs...)
}

func (l Layout) check(what string, p net.Port) error {
	switch l {
	case "", Rows, Flat:
		return nil
	case Pixels, Planes:
		if p.Height == 0 {
			return fmt.Errorf("%s: unknown image height", what)
		}
		return nil
	}
	return fmt.Errorf("%s: unknown layout %q, want rows, pixels, planes or flat", what, l)
}
