package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx"
)

// Function describes what the ONNX file does not contain.
type Function struct {
	Type     abi.ModuleType // if empty, encoder
	Modality abi.Modality   // if empty, audio if preprocess has a block for sounds, otherwise image
	Params   modules.Figures
	Caps     modules.Figures // such as window_ms

	Preprocess  modules.Preprocess
	State       map[string]modules.State
	Constants   map[string]modules.Constant
	Postprocess map[string]modules.Postprocess
	Speech      *modules.Speech // of a decoder

	// Like names a preset of [Presets] that completes the description; may be empty.
	Like string

	// With lists files to copy next to the model, such as labels; the blocks use
	// their base names.
	With []string
}

// ONNX converts the function in file, with its external data, to a module and
// returns its folder. Ports are read from the model.
func ONNX(ctx context.Context, file string, opt Options, fn Function) (string, error) {
	graph, err := onnx.Open(file)
	if err != nil {
		return "", err
	}
	defer graph.Close()
	stem := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	if opt.Name == "" {
		opt.Name = Slug(stem)
	}
	if !abi.ValidName(opt.Name) {
		return "", fmt.Errorf("invalid module name %q: set a name", opt.Name)
	}
	if _, err := abi.ParseVersion(opt.Version); err != nil {
		return "", err
	}
	if fn.Like != "" {
		license := ""
		if fn, license, err = Like(fn.Like, graph, fn); err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		opt.License = or(opt.License, license)
	}
	if fn, err = Voice(file, graph, fn); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	m, err := Describe(graph, fn)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	if m.License, err = (model{}).spdx(opt.License); err != nil {
		return "", err
	}
	m.Name, m.Version = opt.Name, opt.Version
	m.Description = oneLine(fmt.Sprintf("Imported from %s.", filepath.Base(file)))
	dir := opt.Dir
	if dir == "" {
		dir = opt.Name
	}
	entry := opt.Name + ".onnx"
	_, _, err = modules.Create(dir, func(d *fsx.Dir) error {
		sources, err := sources(graph, file, entry, fn.With)
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(sources)) {
			f, err := copied(ctx, d, name, sources[name])
			if err != nil {
				return err
			}
			m.Files = append(m.Files, f)
		}
		export := modules.Export{Path: entry}
		for _, location := range graph.Externals() {
			export.With = append(export.With, path.Clean(location))
		}
		m.Export = map[abi.Format]modules.Export{abi.ONNX: export}
		if err := ctx.Err(); err != nil {
			return err
		}
		return WriteManifest(d, m)
	})
	if err != nil {
		return "", fmt.Errorf("creating module %s: %w", opt.Name, err)
	}
	return dir, nil
}

// sources returns the source files of a module by their names in it.
func sources(model *onnx.Model, file, entry string, with []string) (map[string]string, error) {
	out := map[string]string{entry: file}
	for _, p := range model.Check(onnx.CheckOptions{External: onnx.FolderOpener(filepath.Dir(file), nil).Size}) {
		if !p.Warning {
			return nil, fmt.Errorf("%s: %s", file, p)
		}
	}
	for _, location := range model.Externals() {
		out[path.Clean(location)] = filepath.Join(filepath.Dir(file), filepath.FromSlash(location))
	}
	for _, from := range with {
		name := filepath.Base(from)
		if _, twice := out[name]; twice || name == modules.FileName {
			return nil, fmt.Errorf("duplicate file name %s", name)
		}
		out[name] = from
	}
	return out, nil
}

func copied(ctx context.Context, d *fsx.Dir, name, from string) (modules.File, error) {
	in, err := fsx.OpenRegular(from)
	if err != nil {
		return modules.File{}, err
	}
	defer in.Close()
	if folder := path.Dir(name); folder != "." {
		if err := d.MkdirAll(folder, 0o755); err != nil {
			return modules.File{}, err
		}
	}
	return WriteFile(d, name, func(w io.Writer) error {
		_, err := io.Copy(w, fsx.Reader{Context: ctx, R: in})
		return err
	})
}

// Describe returns the manifest of a function without its name, version and files:
// a port for each input and output that is neither state nor constant, without the
// leading batch. The port of a preprocessed input is the raw image or sound.
// Dynamic sizes keep the model's names if these are valid names of dimensions.
func Describe(model *onnx.Model, fn Function) (modules.Manifest, error) {
	m := modules.Manifest{Type: fn.Type, Modality: fn.Modality, ABI: abi.V1_1, Params: fn.Params, Caps: fn.Caps}
	m.Preprocess, m.State, m.Constants, m.Postprocess = fn.Preprocess, fn.State, fn.Constants, fn.Postprocess
	if m.Speech = fn.Speech; m.Speech != nil {
		m.ABI = abi.V1_2
	}
	if m.Type == "" {
		m.Type = abi.Encoder
	}
	inputs := model.Inputs()
	carried := m.Carried(func(name string) bool {
		return slices.ContainsFunc(inputs, func(v onnx.Value) bool { return v.Name == name })
	})
	next := map[string]bool{}
	for _, s := range carried {
		next[s.From] = true
	}
	if spec, ok := fn.Preprocess[""]; ok {
		var free []string
		for _, v := range inputs {
			_, state := carried[v.Name]
			if _, fixed := m.Constants[v.Name]; !state && !fixed {
				free = append(free, v.Name)
			}
		}
		if len(free) != 1 {
			return m, fmt.Errorf("preprocess has no input name, and the model has the inputs %s", strings.Join(free, ", "))
		}
		m.Preprocess = maps.Clone(fn.Preprocess)
		delete(m.Preprocess, "")
		m.Preprocess[free[0]] = spec
	}
	m.State, m.Constants = settled(carried, m.Constants, inputs)
	d := dims{names: map[string]string{}, taken: map[string]bool{}}
	var errs []error
	for _, v := range inputs {
		_, state := carried[v.Name]
		if _, fixed := m.Constants[v.Name]; state || fixed {
			continue
		}
		if spec, ok := m.Preprocess[v.Name]; ok {
			p := abi.Port{Name: v.Name, Shape: abi.Shape{{Name: "H"}, {Name: "W"}, {Size: 3}}, DType: abi.UInt8}
			if spec.IsSound() {
				p.Shape, p.DType = abi.Shape{{Name: "S"}}, abi.FP32
				m.Modality = or(m.Modality, abi.Audio)
			}
			m.Inputs = append(m.Inputs, p)
			continue
		}
		p, err := d.port(v)
		m.Inputs, errs = append(m.Inputs, p), append(errs, err)
	}
	for _, v := range model.Graph.Outputs {
		if next[v.Name] {
			continue
		}
		p, err := d.port(v)
		m.Outputs, errs = append(m.Outputs, p), append(errs, err)
	}
	m.Modality = or(m.Modality, abi.Image)
	return m, errors.Join(errs...)
}

// settled completes states and constants with the shapes and types of the file, for
// use without the file. A dynamic size is 1.
func settled(carried map[string]modules.State, constants map[string]modules.Constant, inputs []onnx.Value) (map[string]modules.State, map[string]modules.Constant) {
	states, fixed := map[string]modules.State{}, map[string]modules.Constant{}
	for name, s := range carried {
		s.Shape, s.DType = complete(name, s.Shape, s.DType, inputs)
		states[name] = s
	}
	for name, c := range constants {
		c.Shape, c.DType = complete(name, c.Shape, c.DType, inputs)
		fixed[name] = c
	}
	return states, fixed
}

func complete(name string, shape []int64, dtype abi.DType, inputs []onnx.Value) ([]int64, abi.DType) {
	i := slices.IndexFunc(inputs, func(v onnx.Value) bool { return v.Name == name })
	if i < 0 {
		return shape, dtype
	}
	t := inputs[i].Type
	if shape == nil && t.Ranked {
		for _, d := range t.Dims {
			size := int64(1)
			if d.Param == "" && d.Value > 0 {
				size = d.Value
			}
			shape = append(shape, size)
		}
	}
	return shape, or(dtype, elements[t.DType])
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// dims assigns names to dynamic dimensions.
type dims struct {
	names map[string]string // by the model's name
	taken map[string]bool
}

// port converts a tensor of the model to a port.
func (d *dims) port(v onnx.Value) (abi.Port, error) {
	p := abi.Port{Name: v.Name, Shape: abi.Shape{}}
	if v.Type.Kind != onnx.TensorKind {
		return p, fmt.Errorf("%q is not a tensor", v.Name)
	}
	if p.DType = elements[v.Type.DType]; p.DType == "" {
		return p, fmt.Errorf("%q: unsupported element type %s", v.Name, v.Type.DType)
	}
	if !v.Type.Ranked {
		return p, fmt.Errorf("%q: unknown rank", v.Name)
	}
	sizes := v.Type.Dims
	if open := func(d onnx.Dim) bool { return d.Param != "" || d.Value == onnx.Unknown }; len(sizes) > 1 && (sizes[0].Value == 1 || open(sizes[0])) {
		sizes = sizes[1:] // the batch
	}
	for _, s := range sizes {
		if s.Param == "" && s.Value > 0 {
			p.Shape = append(p.Shape, abi.Dim{Size: s.Value})
			continue
		}
		p.Shape = append(p.Shape, abi.Dim{Name: d.name(s.Param)})
	}
	return p, nil
}

// name returns the name of a dynamic dimension: the model's if it is valid,
// otherwise D1, D2, … Equal names in the model stay equal.
func (d *dims) name(param string) string {
	if n, ok := d.names[param]; ok && param != "" {
		return n
	}
	n := param
	valid := param != "" && len(param) <= 64 && strings.IndexFunc(param, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_')
	}) < 0 && (param[0] > '9' && param[0] != '_')
	switch {
	case !valid, d.taken[n], n == "d_model", n == "vocab_size", n == "max_seq":
		for i := 1; ; i++ {
			if n = fmt.Sprintf("D%d", i); !d.taken[n] {
				break
			}
		}
	}
	d.taken[n] = true
	d.names[param] = n
	return n
}

// elements maps element types to those of ports.
var elements = map[onnx.DType]abi.DType{
	onnx.FLOAT: abi.FP32, onnx.FLOAT16: abi.FP16, onnx.BFLOAT16: abi.BF16, onnx.INT64: abi.Int64, onnx.INT32: abi.Int32,
	onnx.INT16: abi.Int16, onnx.INT8: abi.Int8, onnx.UINT8: abi.UInt8, onnx.BOOL: abi.Bool, onnx.FLOAT8E4M3FN: abi.FP8,
}
