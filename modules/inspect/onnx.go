package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx"
)

// elements maps the element types of ports to ONNX.
var elements = map[abi.DType]onnx.DType{
	abi.FP32: onnx.FLOAT, abi.FP16: onnx.FLOAT16, abi.BF16: onnx.BFLOAT16, abi.Int64: onnx.INT64, abi.Int32: onnx.INT32,
	abi.Int16: onnx.INT16, abi.Int8: onnx.INT8, abi.UInt8: onnx.UINT8, abi.Int4: onnx.INT4, abi.Bool: onnx.BOOL, abi.FP8: onnx.FLOAT8E4M3FN,
}

// onnx checks the file by the rules of ONNX, and its inputs and outputs against the
// manifest's ports.
func (c *checker) onnx(entry string) {
	pos, before := c.m.PathPos(entry), c.m.ID()+": "+entry+": "
	file, _, _ := c.locate(entry)
	model, closer, err := openONNX(file)
	if err != nil {
		AddUnread(&c.list, pos, before, err)
		return
	}
	defer closer()
	AddProblems(&c.list, pos, before, model.Check(onnx.CheckOptions{External: func(location string) (int64, error) { return c.beside(entry, location) }}))
	c.precision(entry, model)
	v := ports{checker: c, entry: entry, symbols: make(map[string]int64)}
	c.m.Bind(&v.binding)
	inputs := model.Inputs()
	carried := c.m.Carried(func(name string) bool { _, ok := find(inputs, name); return ok })
	next := map[string]bool{}
	for _, s := range carried {
		next[s.From] = true
	}
	v.held = func(side, name string) bool {
		if side == "outputs" {
			return next[name]
		}
		_, state := carried[name]
		_, fixed := c.m.Constants[name]
		return state || fixed
	}
	v.states(carried, inputs, model.Graph.Outputs)
	v.compare("inputs", c.m.Inputs, inputs)
	v.compare("outputs", c.m.Outputs, model.Graph.Outputs)
	v.decoded(model.Graph.Outputs)
}

// beside returns the size of the external data at a location. The module must list
// the file. Without a digest, and in the module's folder, it must be a regular file
// with a single link.
func (c *checker) beside(entry, location string) (int64, error) {
	name := beside(entry, location)
	if !slices.Contains(c.m.Paths(), name) {
		return 0, errors.New("not listed in the manifest")
	}
	_, size, ok := c.locate(name)
	if !ok {
		return 0, fs.ErrNotExist
	}
	if c.m.Dir() == "" || slices.ContainsFunc(c.m.Files, func(f modules.File) bool { return f.Path == name }) {
		return size, nil
	}
	if _, err := onnx.FolderOpener(c.m.Dir(), nil).Size(name); errors.Is(err, onnx.ErrLinked) {
		return 0, onnx.ErrLinked
	}
	return size, nil
}

// precision checks the precision of the weights against the manifest.
func (c *checker) precision(entry string, model *onnx.Model) {
	if c.m.Quant == nil || len(c.m.Quant.Supported) == 0 {
		return
	}
	if p := onnx.Precision(model); p != "" && !slices.Contains(c.m.Quant.Supported, p) {
		c.list.Add(diag.QuantDiffers, c.m.Pos("/quant/supported"),
			fmt.Sprintf("%s: most weights of %s are %s, the manifest lists %s", c.m.ID(), entry, p, strings.Join(c.m.Quant.Supported, ", ")), diag.QuantDiffers.Fix())
	}
}

// ports compares a manifest's ports with a graph's values.
type ports struct {
	*checker
	entry   string
	binding abi.Binding
	// held reports whether an input or output is internal, state or constant, and
	// need not be in the manifest.
	held    func(side, name string) bool
	symbols map[string]int64 // sizes of the file's symbolic dimensions
}

func (c *ports) compare(side string, want []abi.Port, have []onnx.Value) {
	for i, p := range want {
		v, ok := find(have, p.Name)
		if !ok {
			c.differ(side, i, -1, fmt.Sprintf("%s %q is not in the file, which has %s", strings.TrimSuffix(side, "s"), p.Name, names(have)))
			continue
		}
		if v.Type.Kind != onnx.TensorKind {
			c.differ(side, i, -1, fmt.Sprintf("%q is not a tensor in the file", p.Name))
			continue
		}
		if spec, ok := c.m.Preprocess[p.Name]; ok && side == "inputs" {
			c.prepared(i, spec, v)
			continue
		}
		if want := elements[p.DType]; v.Type.DType != want {
			c.differ(side, i, -1, fmt.Sprintf("%q is %s in the file, %s in the manifest", p.Name, v.Type.DType, p.DType))
		}
		c.shape(side, i, p, v)
	}
	for _, v := range have {
		if len(want) > 0 && !declared(want, v.Name) && !c.held(side, v.Name) {
			c.differ(side, -1, -1, fmt.Sprintf("the file's %s %q is not in the manifest", strings.TrimSuffix(side, "s"), v.Name))
		}
	}
}

// shape compares dimensions. The file may have a leading batch dimension, of size 1
// or symbolic, which manifests omit.
func (c *ports) shape(side string, i int, p abi.Port, v onnx.Value) {
	if !v.Type.Ranked {
		return // checked by the smoke test
	}
	dims := v.Type.Dims
	if len(dims) == len(p.Shape)+1 && (dims[0].Value == 1 || dims[0].Value == onnx.Unknown) {
		dims = dims[1:]
	}
	if len(dims) != len(p.Shape) {
		c.differ(side, i, -1, fmt.Sprintf("%q has %d dimensions in the file, %s in the manifest", p.Name, len(v.Type.Dims), p.Shape))
		return
	}
	for k, d := range dims {
		size, by := p.Shape[k].Size, "the manifest"
		name := p.Shape[k].Name
		if name != "" {
			n, who, ok := c.binding.Size(c.m.ID(), name)
			switch {
			case ok:
				size, by = n, who
			case d.Value != onnx.Unknown: // binds the name
				c.binding.Set(c.m.ID(), name, d.Value, fmt.Sprintf("%q", p.Name))
				continue
			default:
				continue // unknown on both sides
			}
		}
		switch {
		case d.Value == onnx.Unknown && d.Param == "":
		case d.Value == onnx.Unknown:
			c.symbol(side, i, k, p, d.Param, size)
		case d.Value != size:
			c.differ(side, i, k, fmt.Sprintf("%s of %q is %d in the file, %d in %s", dimension(p.Shape[k], k), p.Name, d.Value, size, by))
		}
	}
}

// symbol checks that a symbolic dimension of the file has one size. Its name is
// irrelevant: exporters generate names.
func (c *ports) symbol(side string, i, axis int, p abi.Port, name string, size int64) {
	if old, ok := c.symbols[name]; ok && old != size {
		c.differ(side, i, axis, fmt.Sprintf("%s of %q is %d in the manifest, but %q in the file, which is %d elsewhere", dimension(p.Shape[axis], axis), p.Name, size, name, old))
		return
	}
	c.symbols[name] = size
}

// dimension names a dimension of a port: D_enc (dimension 1), or dimension 1.
func dimension(d abi.Dim, axis int) string {
	if d.Name == "" {
		return fmt.Sprintf("dimension %d", axis)
	}
	return fmt.Sprintf("%s (dimension %d)", d.Name, axis)
}

// differ reports a difference at port i of a side, or at the side if i is negative;
// axis selects a dimension unless it is negative.
func (c *ports) differ(side string, i, axis int, detail string) {
	ptr := "/" + side
	if i >= 0 {
		ptr = fmt.Sprintf("/%s/%d", side, i)
	}
	if axis >= 0 {
		ptr = fmt.Sprintf("%s/shape/%d", ptr, axis)
	}
	c.list.Add(diag.WeightsFault, c.m.Pos(ptr), fmt.Sprintf("%s: %s: %s", c.m.ID(), c.entry, detail), "correct the manifest, or export the file again")
}

func find(values []onnx.Value, name string) (onnx.Value, bool) {
	for _, v := range values {
		if v.Name == name {
			return v, true
		}
	}
	return onnx.Value{}, false
}

func declared(ports []abi.Port, name string) bool {
	for _, p := range ports {
		if p.Name == name {
			return true
		}
	}
	return false
}

func names(values []onnx.Value) string {
	var out []string
	for _, v := range values {
		out = append(out, v.Name)
	}
	return strings.Join(out, ", ")
}
