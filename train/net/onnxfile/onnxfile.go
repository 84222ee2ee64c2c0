// Package onnxfile writes networks as ONNX models, which ONNX Runtime and
// onnx/engine run: operators of opset 17, every value [N, Rows, Cols], weights as
// they are. A picture that layers take as planes stays planes from one to the
// next.
//
// A model may begin and end nearer to files than its network: inputs of bytes
// or half precision and as pictures, outputs brought into a range, rounded and
// cast, see [Input] and [Output]. A network that says velocities may be unrolled
// into the steps that draw a sample, see [Flow].
//
// What was written is read again by [Read], for training that goes on from a
// module.
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

// Opset is the version of the operators that models are made of.
const Opset = 17

// Layout is how a value of a sample lies in the model's tensor, behind the
// dimension of the batch.
type Layout string

// The layouts.
const (
	Rows   Layout = "rows"   // [Rows, Cols], the default
	Pixels Layout = "pixels" // [H, W, Cols]
	Planes Layout = "planes" // [Cols, H, W]
	Flat   Layout = "flat"   // [Rows·Cols]
)

// Options shape a model. The zero value is for batches of any size, float32 in
// and out.
type Options struct {
	Name    string            // of the graph; "net"
	Batch   int               // samples at a time; 0: any number, a dimension named N
	Inputs  map[string]Input  // by the network's names
	Outputs map[string]Output // by the network's names
	Flow    *Flow
	// Half keeps matrices and kernels in half precision, half the file, which a
	// Cast brings back where the model is read: what they are multiplied with is
	// float32 as ever.
	Half bool
}

// Input is what stands before an input of the network, which gets
// Scale·x + Offset.
type Input struct {
	Name          string     // in the model; the network's
	Type          onnx.DType // FLOAT, FLOAT16, UINT8, INT64; 0 is FLOAT
	Layout        Layout
	Scale, Offset float32 // Scale 0 is 1
}

// Output is what stands behind an output of the network, which gives
// Scale·y + Offset; as bytes it is rounded and brought between 0 and 255.
type Output struct {
	Name          string
	Type          onnx.DType // FLOAT, FLOAT16, UINT8; 0 is FLOAT
	Layout        Layout
	Scale, Offset float32
}

// Flow unrolls a network that says the velocity of a state at a time: the model
// goes Steps steps of Euler's method from noise at time 0 to a sample at time 1,
// which is what the output gives instead of the velocity. Layers that depend on
// neither state nor time are computed once.
type Flow struct {
	State, Time string // inputs: the state, and the time, one number a row
	Velocity    string // the output, of the state's shape
	// Sample says that the output is no velocity, but the sample that it leads to:
	// what is left of the way over what is left of the time is the velocity.
	Sample bool
	Steps  int
	// Noise [Rows·Cols] is where every sample begins. nil: the model's input
	// State is.
	Noise []float32
}

// Model writes n, with its weights as they stand, as an ONNX model.
func Model(n *net.Net[float32], opt Options) (*onnx.Model, error) {
	if err := check(n, opt); err != nil {
		return nil, fmt.Errorf("exporting to onnx: %w", err)
	}
	if opt.Name == "" {
		opt.Name = "net"
	}
	e := &emitter{net: n, opt: opt, model: onnx.New(opt.Name, Opset), held: map[string]bool{}}
	given := map[string]string{}
	for _, p := range n.Config().Inputs {
		if !opt.internal(p.Name) {
			given[p.Name] = e.input(p, opt.Inputs[p.Name])
		}
	}
	var results map[string]string
	if opt.Flow != nil {
		results = e.flow(given)
	} else {
		results = e.apply("/", given)
	}
	for _, name := range n.Config().Outputs {
		e.output(name, results[name], opt.Outputs[name])
	}
	return e.model, nil
}

// internal reports whether the flow gives an input, not the caller.
func (o Options) internal(input string) bool {
	f := o.Flow
	return f != nil && (input == f.Time || input == f.State && f.Noise != nil)
}

// ports are the inputs of n by name.
func ports(n *net.Net[float32]) map[string]net.Port {
	all := map[string]net.Port{}
	for _, p := range n.Config().Inputs {
		all[p.Name] = p
	}
	return all
}

// given is the port of an output of n.
func given(n *net.Net[float32], name string) (net.Port, bool) {
	step, ok := n.Output(name)
	for _, s := range n.Steps() {
		if ok && s.Name == step {
			return s.Gives, true
		}
	}
	return net.Port{}, false
}

// check finds what does not fit the network.
func check(n *net.Net[float32], opt Options) error {
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fault(opt.Batch < 0, "batch is %d", opt.Batch)
	names := map[string]bool{}
	taken := func(name, own string) {
		if name == "" {
			name = own
		}
		fault(names[name] || strings.HasPrefix(name, "/"), "name %q is taken twice or begins with a slash", name)
		names[name] = true
	}
	inputs := ports(n)
	for _, p := range n.Config().Inputs {
		if !opt.internal(p.Name) {
			taken(opt.Inputs[p.Name].Name, p.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(opt.Inputs)) {
		in := opt.Inputs[name]
		p, ok := inputs[name]
		fault(!ok || opt.internal(name), "the model has no input %q", name)
		fault(!slices.Contains([]onnx.DType{0, onnx.FLOAT, onnx.FLOAT16, onnx.UINT8, onnx.INT64}, in.Type), "input %s: %s is no type of an input", name, in.Type)
		errs = append(errs, in.Layout.check("input "+name, p))
	}
	for _, name := range n.Config().Outputs {
		taken(opt.Outputs[name].Name, name)
	}
	for _, name := range slices.Sorted(maps.Keys(opt.Outputs)) {
		out := opt.Outputs[name]
		p, ok := given(n, name)
		fault(!ok, "the model has no output %q", name)
		fault(!slices.Contains([]onnx.DType{0, onnx.FLOAT, onnx.FLOAT16, onnx.UINT8}, out.Type), "output %s: %s is no type of an output", name, out.Type)
		errs = append(errs, out.Layout.check("output "+name, p))
	}
	if f := opt.Flow; f != nil {
		state, okS := inputs[f.State]
		time, okT := inputs[f.Time]
		v, okV := given(n, f.Velocity)
		fault(!okS || !okT || !okV || len(n.Config().Outputs) != 1, "flow: there must be inputs %q and %q and the one output %q", f.State, f.Time, f.Velocity)
		fault(okS && okV && (state.Rows != v.Rows || state.Cols != v.Cols), "flow: state [%d, %d] and velocity [%d, %d] differ", state.Rows, state.Cols, v.Rows, v.Cols)
		fault(okT && time.Rows*time.Cols != 1, "flow: the time is [%d, %d], not one number", time.Rows, time.Cols)
		fault(f.Steps < 1 || f.Steps > 1000, "flow: %d steps", f.Steps)
		fault(f.Noise != nil && len(f.Noise) != state.Rows*state.Cols, "flow: %d numbers of noise for [%d, %d]", len(f.Noise), state.Rows, state.Cols)
		fault(f.Noise != nil && opt.Batch != 1, "flow: noise of its own is for batches of one")
	}
	return errors.Join(errs...)
}

func (l Layout) check(what string, p net.Port) error {
	switch l {
	case "", Rows, Flat:
		return nil
	case Pixels, Planes:
		if p.Height == 0 {
			return fmt.Errorf("%s: its height as a picture is not known", what)
		}
		return nil
	}
	return fmt.Errorf("%s: layout %q is none of rows, pixels, planes, flat", what, l)
}
