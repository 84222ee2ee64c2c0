package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx"
)

// prepared compares the output of a preprocess block with the input of the file.
// The manifest's port is the raw image or sound, which the file does not see.
func (c *ports) prepared(i int, spec preprocess.Spec, v onnx.Value) {
	if len(spec.Check()) > 0 {
		return // reported by the manifest's own check
	}
	if want := elements[abi.DType(spec.Element())]; v.Type.DType != want {
		c.block("preprocess", v.Name, fmt.Sprintf("%q is %s in the file, preprocess produces %s", v.Name, v.Type.DType, spec.Element()))
	}
	if !v.Type.Ranked {
		return
	}
	have, dims := spec.Dims(), v.Type.Dims
	// A batch of one is added or omitted as in the file.
	switch {
	case len(have)+1 == len(dims) && (dims[0].Value == 1 || dims[0].Value == onnx.Unknown || dims[0].Param != ""):
		dims = dims[1:]
	case len(have)-1 == len(dims) && have[0] == 1:
		have = have[1:]
	}
	fits := len(have) == len(dims)
	for k := 0; fits && k < len(dims); k++ {
		fits = dims[k].Value == onnx.Unknown || dims[k].Param != "" || have[k] == 0 || int64(have[k]) == dims[k].Value
	}
	if !fits {
		c.block("preprocess", v.Name, fmt.Sprintf("%q is %s in the file, preprocess produces %s", v.Name, dimensions(v.Type.Dims), sizes(spec.Dims())))
	}
}

// states compares the inputs of states with the outputs of their next values, and
// checks that constants are inputs.
func (c *ports) states(carried map[string]modules.State, inputs, outputs []onnx.Value) {
	for _, name := range slices.Sorted(maps.Keys(carried)) {
		s := carried[name]
		in, hasIn := find(inputs, name)
		out, hasOut := find(outputs, s.From)
		switch {
		case !hasIn:
			c.block("state", name, fmt.Sprintf("unknown input %q, the file has %s", name, names(inputs)))
			continue
		case !hasOut:
			c.block("state", name, fmt.Sprintf("unknown output %q, the file has %s", s.From, names(outputs)))
			continue
		case in.Type.DType != out.Type.DType || !agree(in.Type, out.Type):
			c.block("state", name, fmt.Sprintf("%q is %s %s, and its next value %q is %s %s", name, in.Type.DType, dimensions(in.Type.Dims), s.From, out.Type.DType, dimensions(out.Type.Dims)))
		}
		c.stated("state", name, s.Shape, s.DType, in)
	}
	for _, name := range slices.Sorted(maps.Keys(c.m.Constants)) {
		in, ok := find(inputs, name)
		if !ok {
			c.block("constants", name, fmt.Sprintf("unknown input %q, the file has %s", name, names(inputs)))
			continue
		}
		c.stated("constants", name, c.m.Constants[name].Shape, c.m.Constants[name].DType, in)
	}
}

// decoded compares labels files with the number of classes of each output, unless that
// is dynamic.
func (c *ports) decoded(outputs []onnx.Value) {
	for _, name := range slices.Sorted(maps.Keys(c.m.Postprocess)) {
		out, ok := find(outputs, name)
		if !ok || !out.Type.Ranked || len(out.Type.Dims) == 0 {
			continue
		}
		dims := out.Type.Dims
		last := dims[len(dims)-1]
		if last.Param != "" || last.Value == onnx.Unknown {
			continue
		}
		switch p := c.m.Postprocess[name]; {
		case p.CTC != nil:
			if n := len(dims); n != 2 && n != 3 {
				c.block("postprocess", name, fmt.Sprintf("%q is %s in the file, ctc decodes [N, T, classes]", name, dimensions(dims)))
			} else if n, ok := c.lines(name, p.CTC.Labels); ok && int64(p.CTC.Classes(n)) != last.Value {
				c.block("postprocess", name, fmt.Sprintf("%q has %d classes in the file, %s has %d labels, want %d%s", name, last.Value, p.CTC.Labels, n, last.Value-int64(p.CTC.Classes(0)), spaced(p.CTC, int64(n), last.Value)))
			}
			if int64(p.CTC.Blank) >= last.Value {
				c.block("postprocess", name, fmt.Sprintf("%q has %d classes in the file, blank is class %d", name, last.Value, p.CTC.Blank))
			}
		case p.Labels != nil && p.Labels.File != "" && (len(dims) == 1 || len(dims) == 2):
			if n, ok := c.lines(name, p.Labels.File); ok && int64(n) != last.Value {
				c.block("postprocess", name, fmt.Sprintf("%q has %d classes in the file, %s has %d labels", name, last.Value, p.Labels.File, n))
			}
		}
	}
}

// spaced advises space: true where one class more than the labels is missing.
func spaced(ctc *modules.CTC, labels, classes int64) string {
	if !ctc.Space && labels+2 == classes {
		return ", or space: true"
	}
	return ""
}

// lines returns the number of labels in a file of the module. A file that is missing
// is reported by the manifest's own check.
func (c *ports) lines(output, name string) (int, bool) {
	file, _, ok := c.locate(name)
	if !ok {
		return 0, false
	}
	labels, err := modules.ReadLabels(file)
	if err != nil {
		c.block("postprocess", output, err.Error())
	}
	return len(labels), err == nil
}

// stated compares the shape and type in a block with the file's.
func (c *ports) stated(block, name string, shape []int64, dtype abi.DType, in onnx.Value) {
	fits := shape == nil || !in.Type.Ranked || len(shape) == len(in.Type.Dims)
	for k := 0; fits && in.Type.Ranked && k < len(shape); k++ {
		d := in.Type.Dims[k]
		fits = d.Value == onnx.Unknown || d.Param != "" || d.Value == shape[k]
	}
	if !fits {
		c.block(block, name, fmt.Sprintf("%q is %s in the file, %v in %s", name, dimensions(in.Type.Dims), shape, block))
	}
	if dtype != "" && elements[dtype] != in.Type.DType {
		c.block(block, name, fmt.Sprintf("%q is %s in the file, %s in %s", name, in.Type.DType, dtype, block))
	}
}

// agree reports whether two types can have the same shape; symbolic names are
// ignored.
func agree(a, b onnx.Type) bool {
	if !a.Ranked || !b.Ranked {
		return true
	}
	if len(a.Dims) != len(b.Dims) {
		return false
	}
	for i := range a.Dims {
		x, y := a.Dims[i], b.Dims[i]
		if x.Value != onnx.Unknown && y.Value != onnx.Unknown && x.Param == "" && y.Param == "" && x.Value != y.Value {
			return false
		}
	}
	return true
}

// block reports a fault at a block of the manifest.
func (c *ports) block(key, name, detail string) {
	c.list.Add(diag.WeightsFault, c.m.Pos("/"+key+"/"+name), fmt.Sprintf("%s: %s: %s", c.m.ID(), c.entry, detail), "correct the manifest, or export the file again")
}

func dimensions(dims []onnx.Dim) string {
	var out []string
	for _, d := range dims {
		out = append(out, d.String())
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// sizes formats the shape that preprocess produces, with ? for sizes that depend on
// the input.
func sizes(dims []int) string {
	var out []string
	for _, d := range dims {
		s := "?"
		if d > 0 {
			s = fmt.Sprint(d)
		}
		out = append(out, s)
	}
	return "[" + strings.Join(out, ", ") + "]"
}
