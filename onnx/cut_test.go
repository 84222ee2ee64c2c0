package onnx

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// values returns values with names and without types.
func values(names ...string) (out []Value) {
	for _, name := range names {
		out = append(out, Value{Name: name})
	}
	return out
}

// The first value of a part becomes an input, with the declared, inferred or
// requested type.
func TestBetween(t *testing.T) {
	for _, c := range []struct {
		name      string
		from, to  []string
		requested *Value
		say       []Value // value_info
		in, ops   string
		typ       string
	}{
		{"from the middle", []string{"active"}, []string{"rows"}, nil, nil, "active", "AveragePool Reshape Transpose", "float32 false []"},
		{"declared type", []string{"active"}, []string{"rows"}, nil, []Value{TensorValue("active", FLOAT, 1, 8, "H", 8)}, "active", "AveragePool Reshape Transpose", "float32 true [1 8 H 8]"},
		{"requested type", []string{"active"}, []string{"rows"}, &Value{Name: "active", Type: TensorValue("", FLOAT16, 1, 8, 2, 2).Type}, nil, "active", "AveragePool Reshape Transpose", "float16 true [1 8 2 2]"},
		{"after a cast", []string{"floats"}, []string{"active"}, nil, nil, "floats", "Conv Relu", "float32 false []"},
		{"several", []string{"active"}, []string{"pooled", "flat"}, nil, nil, "active", "AveragePool Reshape", "float32 false []"},
		{"a model input", []string{"pixels"}, []string{"floats"}, nil, nil, "pixels", "Cast", "uint8 true [1 3 H 32]"},
	} {
		m := visionEncoder()
		m.Graph.Values = c.say
		from := values(c.from...)
		if c.requested != nil {
			from = []Value{*c.requested}
		}
		cut, err := m.Between(from, values(c.to...))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var ops []string
		for _, n := range cut.Graph.Nodes {
			ops = append(ops, n.Op)
		}
		typ := cut.Graph.Inputs[0].Type
		got := []string{strings.Join(names(cut.Graph.Inputs), " "), strings.Join(ops, " ")}
		if d := cmp.Diff([]string{c.in, c.ops, c.typ}, []string{got[0], got[1], fmt.Sprintf("%v %v %v", typ.DType, typ.Ranked, typ.Dims)}); d != "" {
			t.Errorf("%s:\n%s", c.name, d)
		}
		if p := cut.Check(CheckOptions{}); len(p) > 0 {
			t.Errorf("%s: %v", c.name, p)
		}
		if d := cmp.Diff(c.to, names(cut.Graph.Outputs)); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

func TestBetweenRefuses(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"conv.w", "rows", `"conv.w" is a constant`},
		{"ghost", "rows", `no node of the graph produces "ghost"`},
		{"inner", "rows", `"inner" is computed within a branch`},
		{"shifted", "rows", `no result needs "shifted"`},
		{"rows", "rows", `"rows" is both an input and a result of the part`},
		{"", "inner", `"inner" is computed within a branch`},
		{"", "pixels", `no node of the graph produces "pixels"`},
		{"odd", "rows", `unknown type of "odd"`},
	} {
		m := visionEncoder()
		m.Graph.Nodes[0].Attributes = append(m.Graph.Nodes[0].Attributes, Attribute{Name: "b", Type: AttrGraph, Graph: &Graph{Nodes: []Node{neg("pixels", "inner")}, Outputs: []Value{{Name: "inner"}}}})
		m.Graph.Nodes = append(m.Graph.Nodes, Node{Op: "Odd", Domain: "mine", Outputs: []string{"odd"}})
		var from []Value
		if c.from != "" {
			from = values(c.from)
		}
		if _, err := m.Between(from, values(c.to)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("from %q to %q: got %v, want %q", c.from, c.to, err, c.want)
		}
	}
	if _, err := visionEncoder().Between(nil, values("rows", "rows")); err == nil {
		t.Error("duplicate result accepted")
	}
	if _, err := visionEncoder().Between(nil, []Value{TensorValue("active", FLOAT16, 1, 8)}); err == nil || !strings.Contains(err.Error(), `"active" has type float32, not float16`) {
		t.Errorf("result of a different requested type: got %v", err)
	}
}

// A result has the requested shape.
func TestBetweenRequested(t *testing.T) {
	cut, err := visionEncoder().Between(nil, []Value{TensorValue("active", FLOAT, 1, 8, "H", 8)})
	if err != nil {
		t.Fatal(err)
	}
	if typ := cut.Graph.Outputs[0].Type; !typ.Ranked || fmt.Sprint(typ.Dims) != "[1 8 H 8]" {
		t.Errorf("%+v", typ)
	}
}

// Before IR version 4 constants are also inputs: those that the part needs
// remain both, the others are dropped from both lists.
func TestBetweenLegacy(t *testing.T) {
	m := imageDecoder()
	m.IRVersion = 3
	for _, c := range m.Graph.Initializers {
		m.Graph.Inputs = append(m.Graph.Inputs, TensorValue(c.Name, c.DType))
	}
	cut, err := m.Between(values("grid"), values("small"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"grid", "shape"}, names(cut.Graph.Inputs)); d != "" || len(cut.Graph.Initializers) != 1 {
		t.Errorf("%s, %d constants", d, len(cut.Graph.Initializers))
	}
	if d := cmp.Diff([]string{"grid"}, names(cut.Inputs())); d != "" {
		t.Error(d)
	}
}

// A value that only a graph two levels down reads is needed, and functions
// called by needed functions are kept while others are dropped.
func TestCutKeepsWhatIsCalled(t *testing.T) {
	inner := Graph{Name: "inner", Nodes: []Node{neg("conv.b", "n")}, Outputs: []Value{{Name: "n"}}}
	outer := Graph{Name: "outer", Nodes: []Node{{Op: "If", Inputs: []string{"cond"}, Outputs: []string{"o"}, Attributes: []Attribute{{Name: "then_branch", Type: AttrGraph, Graph: &inner}}}}, Outputs: []Value{{Name: "o"}}}
	m := visionEncoder()
	m.Graph.Inputs = append(m.Graph.Inputs, TensorValue("cond", BOOL))
	m.Graph.Nodes = append(m.Graph.Nodes,
		Node{Op: "If", Inputs: []string{"cond"}, Outputs: []string{"y"}, Attributes: []Attribute{{Name: "then_branch", Type: AttrGraph, Graph: &outer}}},
		Node{Op: "F", Domain: "mine", Inputs: []string{"y"}, Outputs: []string{"z"}})
	f := func(name, calls string) Function {
		return Function{Name: name, Domain: "mine", Inputs: []string{"a"}, Outputs: []string{"b"}, Nodes: []Node{{Op: calls, Domain: "mine", Inputs: []string{"a"}, Outputs: []string{"b"}}}}
	}
	m.Functions = []Function{f("F", "G"), f("G", "H"), f("I", "J"), f("J", "H")}
	m.Opsets = append(m.Opsets, Opset{"mine", 1}, Opset{"other", 1})
	cut, err := m.Cut("z")
	if err != nil {
		t.Fatal(err)
	}
	var functions []string
	for _, f := range cut.Functions {
		functions = append(functions, f.Name)
	}
	if d := cmp.Diff([]string{"F", "G"}, functions); d != "" {
		t.Error(d)
	}
	if len(cut.Graph.Initializers) != 1 || cut.Graph.Initializers[0].Name != "conv.b" || len(cut.Opsets) != 2 {
		t.Errorf("%v, %v", cut.Graph.Initializers, cut.Opsets)
	}
}

// Strip drops everything that no run needs, also in branches, and nothing else.
func TestStrip(t *testing.T) {
	m := visionEncoder()
	g := &m.Graph
	want := written(t, m.Strip(StripOptions{}))
	m.Doc, g.Doc, g.Nodes[1].Doc, g.Inputs[0].Doc = "a", "b", "c", "d"
	g.Constant(Ints("spare", []int64{1}, []int64{7}))
	g.Nodes = append(g.Nodes, neg("active", "nowhere"))
	g.Values = []Value{TensorValue("active", FLOAT, 1)}
	m.Opsets = append(m.Opsets, Opset{"other", 1})
	m.Functions = []Function{{Name: "F", Domain: "other"}}
	m.Training = []Graph{{Name: "t"}}
	small := m.Strip(StripOptions{})
	if string(written(t, small)) != string(want) {
		t.Errorf("%+v", small.Graph)
	}
	if p := small.Check(CheckOptions{}); len(p) > 0 || small.Metadata != nil {
		t.Errorf("%v, %v", p, small.Metadata)
	}
	if m.Doc != "a" || g.Nodes[1].Doc != "c" || len(g.Initializers) != 7 {
		t.Error("original model changed")
	}
	if kept := m.Strip(StripOptions{Metadata: true, Docs: true}); len(kept.Metadata) != 1 || kept.Graph.Nodes[1].Doc != "c" || kept.Graph.Inputs[0].Doc != "d" {
		t.Errorf("%+v", kept)
	}
	branch := Graph{Nodes: []Node{neg("active", "n"), neg("active", "spare")}, Outputs: []Value{{Name: "n"}}}
	g.Nodes[2].Attributes = []Attribute{{Name: "b", Type: AttrGraph, Graph: &branch}}
	if n := len(m.Strip(StripOptions{}).Graph.Nodes[2].Attributes[0].Graph.Nodes); n != 1 || len(branch.Nodes) != 2 {
		t.Errorf("%d nodes in a branch", n)
	}
}
