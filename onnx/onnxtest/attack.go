// Package onnxtest provides hostile ONNX models for tests: external data that
// refers to other files ([Attacks]), and damaged files ([Mutate]). A
// [Trial] applies one operator: again with its cache, on nonzero memory, on one and several
// threads, whose results must be equal.
package onnxtest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx"
)

// Attack is a model whose external data must not be read.
type Attack struct {
	Name     string
	Rule     onnx.Rule // the violated rule
	Declared []string  // the files that the model may name

	external onnx.External
	hold     func(*onnx.Model, onnx.Tensor)
	prepare  func(dir string) error
}

// Model is the name of the file that Plant writes.
const Model = "m.onnx"

// secret is a file outside the model's folder, dull one inside; both have the
// eight bytes that a model needs.
const secret, dull = "secret.bin", "w.bin"

// Plant writes the model and its files into a new folder and returns the
// model's path.
func (a Attack) Plant(t testing.TB) string {
	t.Helper()
	top := t.TempDir()
	dir := filepath.Join(top, "model")
	m := onnx.New("sum", 17)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 2)}
	m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, 2)}
	m.Graph.Constant(onnx.Floats("one", []int64{2}, []float32{1, 1}))
	m.Graph.Add("Add", []string{"x", "one"}, "y")
	e := onnx.External{Entries: slices.Clone(a.external.Entries)}
	for i := range e.Entries {
		if e.Entries[i].Value == absolute {
			e.Entries[i].Value = filepath.Join(top, secret)
		}
	}
	a.hold(m, onnx.Tensor{Name: "w", DType: onnx.FLOAT, Dims: []int64{2}, External: &e})
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Join(top, secret), filepath.Join(dir, dull)} {
		if err := fsx.WriteFile(file, make([]byte, 8), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if a.prepare != nil {
		if err := a.prepare(dir); err != nil {
			t.Skip("skipped: ", err)
		}
	}
	path := filepath.Join(dir, Model)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = onnx.Write(f, m); err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// absolute is a placeholder for the path of the secret, which is known only
// after it is written.
const absolute = "\x00absolute"

func location(value string, more ...string) onnx.External {
	e := onnx.External{Entries: []onnx.Entry{{Key: "location", Value: value}}}
	for i := 0; i+1 < len(more); i += 2 {
		e.Entries = append(e.Entries, onnx.Entry{Key: more[i], Value: more[i+1]})
	}
	return e
}

// initializer adds a tensor at the usual place of weights.
func initializer(m *onnx.Model, t onnx.Tensor) {
	m.Graph.Constant(t)
	m.Graph.Nodes[0].Inputs[1] = t.Name
}

// places lists the other places of a model that hold tensors.
func places() map[string]func(*onnx.Model, onnx.Tensor) {
	indices := func(n int64) onnx.Tensor {
		return onnx.Ints("at", []int64{n}, make([]int64, n))
	}
	constant := func(a onnx.Attribute) onnx.Node {
		return onnx.Node{Op: "Constant", Outputs: []string{"c"}, Attributes: []onnx.Attribute{a}}
	}
	attribute := func(m *onnx.Model, a onnx.Attribute) {
		m.Graph.Nodes[0].Attributes = append(m.Graph.Nodes[0].Attributes, a)
	}
	return map[string]func(*onnx.Model, onnx.Tensor){
		"sparse values": func(m *onnx.Model, t onnx.Tensor) {
			m.Graph.Sparse = append(m.Graph.Sparse, onnx.SparseTensor{Values: t, Indices: indices(2), Dims: []int64{8}})
		},
		"sparse indices": func(m *onnx.Model, t onnx.Tensor) {
			t.DType, t.Dims = onnx.INT64, []int64{1}
			m.Graph.Sparse = append(m.Graph.Sparse, onnx.SparseTensor{Values: onnx.Floats("w", []int64{1}, []float32{1}), Indices: t, Dims: []int64{8}})
		},
		"a Constant": func(m *onnx.Model, t onnx.Tensor) {
			m.Graph.Nodes = append([]onnx.Node{constant(TensorAttr("value", t))}, m.Graph.Nodes...)
		},
		"a sparse Constant": func(m *onnx.Model, t onnx.Tensor) {
			s := onnx.SparseTensor{Values: t, Indices: indices(2), Dims: []int64{8}}
			m.Graph.Nodes = append([]onnx.Node{constant(onnx.Attribute{Name: "sparse_value", Type: onnx.AttrSparseTensor, Sparse: &s})}, m.Graph.Nodes...)
		},
		"a list of tensors": func(m *onnx.Model, t onnx.Tensor) {
			attribute(m, onnx.Attribute{Name: "list", Type: onnx.AttrTensors, Tensors: []onnx.Tensor{t}})
		},
		"a branch": func(m *onnx.Model, t onnx.Tensor) {
			g := onnx.Graph{Name: "then", Initializers: []onnx.Tensor{t}, Outputs: []onnx.Value{{Name: t.Name}}}
			attribute(m, onnx.Attribute{Name: "then_branch", Type: onnx.AttrGraph, Graph: &g})
		},
		"a function": func(m *onnx.Model, t onnx.Tensor) {
			m.Functions = []onnx.Function{{Name: "F", Domain: "mine", Outputs: []string{"c"}, Nodes: []onnx.Node{constant(TensorAttr("value", t))}, Opsets: m.Opsets}}
		},
		"a default of a function": func(m *onnx.Model, t onnx.Tensor) {
			m.Functions = []onnx.Function{{Name: "F", Domain: "mine", Defaults: []onnx.Attribute{TensorAttr("d", t)}, Opsets: m.Opsets}}
		},
		"a training graph": func(m *onnx.Model, t onnx.Tensor) {
			m.Training = []onnx.Graph{{Initializers: []onnx.Tensor{t}}}
		},
	}
}

// Attacks returns the attacks that the ONNX tools and ONNX Runtime once
// allowed, and those that they still allow.
func Attacks() []Attack {
	symlink := func(to, name string) func(string) error {
		return func(dir string) error { return os.Symlink(to, filepath.Join(dir, name)) }
	}
	both := []string{dull}
	list := []Attack{
		{Name: "parent (CVE-2022-25882)", Rule: onnx.RuleLocation, Declared: []string{"../" + secret}, external: location("../" + secret)},
		{Name: "nested parent (CVE-2024-27318)", Rule: onnx.RuleLocation, Declared: []string{"a/../../" + secret}, external: location("a/../../" + secret)},
		{Name: "absolute", Rule: onnx.RuleLocation, Declared: both, external: location(absolute)},
		{Name: "drive", Rule: onnx.RuleLocation, Declared: []string{"C:/" + secret}, external: location("C:/" + secret)},
		{Name: "backslash", Rule: onnx.RuleLocation, Declared: []string{`..\` + secret}, external: location(`..\` + secret)},
		{Name: "NUL", Rule: onnx.RuleLocation, Declared: both, external: location(dull + "\x00.txt")},
		{Name: "address in memory", Rule: onnx.RuleLocation, Declared: []string{"*/_ORT_MEM_ADDR_/*"}, external: location("*/_ORT_MEM_ADDR_/*", "offset", "4096", "length", "8")},
		{Name: "symbolic link (CVE-2026-27489)", Rule: onnx.RuleLink, Declared: []string{"link.bin"}, external: location("link.bin"), prepare: symlink("../"+secret, "link.bin")},
		{Name: "symbolic link within the folder", Rule: onnx.RuleLink, Declared: []string{"link.bin"}, external: location("link.bin"), prepare: symlink(dull, "link.bin")},
		{Name: "linked folder (CVE-2026-34447)", Rule: onnx.RuleLink, Declared: []string{"up/" + secret}, external: location("up/" + secret), prepare: symlink("..", "up")},
		{Name: "hard link (CVE-2026-34446)", Rule: onnx.RuleLink, Declared: []string{"hard.bin"}, external: location("hard.bin"),
			prepare: func(dir string) error {
				return os.Link(filepath.Join(filepath.Dir(dir), secret), filepath.Join(dir, "hard.bin"))
			}},
		{Name: "attribute as key (CVE-2026-34445)", Rule: onnx.RuleKey, Declared: both, external: location(dull, "__class__", "x")},
		{Name: "location twice", Rule: onnx.RuleKey, Declared: both, external: location(dull, "location", "../"+secret)},
		{Name: "base path", Rule: onnx.RuleKey, Declared: both, external: location(dull, "basepath", "..")},
		{Name: "not declared", Rule: onnx.RuleFile, external: location(dull)},
		{Name: "not there", Rule: onnx.RuleFile, Declared: []string{"none.bin"}, external: location("none.bin")},
		{Name: "a folder", Rule: onnx.RuleFile, Declared: []string{"sub"}, external: location("sub"), prepare: func(dir string) error { return os.Mkdir(filepath.Join(dir, "sub"), 0o700) }},
		{Name: "beyond the file", Rule: onnx.RuleRange, Declared: both, external: location(dull, "offset", "1")},
		{Name: "offset that wraps", Rule: onnx.RuleRange, Declared: both, external: location(dull, "offset", "9223372036854775807")},
		{Name: "length of another type", Rule: onnx.RuleRange, Declared: both, external: location(dull, "length", "4")},
		{Name: "overlap", Rule: onnx.RuleOverlap, Declared: both, external: location(dull), hold: func(m *onnx.Model, t onnx.Tensor) {
			initializer(m, t)
			e := location(dull, "offset", "4")
			m.Graph.Constant(onnx.Tensor{Name: "v", DType: onnx.FLOAT, Dims: []int64{1}, External: &e})
		}},
	}
	for i := range list {
		if list[i].hold == nil {
			list[i].hold = initializer
		}
	}
	all := places()
	for _, name := range []string{"sparse values", "sparse indices", "a Constant", "a sparse Constant", "a list of tensors", "a branch", "a function", "a default of a function", "a training graph"} {
		list = append(list, Attack{Name: "parent, in " + name, Rule: onnx.RuleLocation, Declared: []string{"../" + secret}, external: location("../" + secret), hold: all[name]})
	}
	return list
}

// TensorAttr returns an attribute with a tensor.
func TensorAttr(name string, t onnx.Tensor) onnx.Attribute {
	return onnx.Attribute{Name: name, Type: onnx.AttrTensor, Tensor: &t}
}
