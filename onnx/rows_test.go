package onnx

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Features become rows of channels, with all known dimensions in the shape.
func TestRows(t *testing.T) {
	for _, c := range []struct {
		to   string
		dims []any
		ops  string
		want string
	}{
		{"active", []any{"N", 8, "H", 8}, "Cast Conv Relu Reshape Transpose", "[N ? 8]"},
		{"active", []any{1, 8, "H", 1}, "Cast Conv Relu Reshape Transpose", "[1 H 8]"},
		{"active", []any{"N", 8, 6, 8}, "Cast Conv Relu Reshape Transpose", "[N 48 8]"},
		{"active", []any{1, 8, 1, 1}, "Cast Conv Relu Reshape Transpose", "[1 1 8]"},
		{"active", []any{1, 8, 1 << 40, 1 << 40}, "Cast Conv Relu Reshape Transpose", "[1 ? 8]"},
		{"flat", []any{1, 8, "T"}, "Cast Conv Relu AveragePool Reshape Transpose", "[1 T 8]"},
	} {
		m := visionEncoder()
		cut, err := m.Between(nil, []Value{TensorValue(c.to, FLOAT, c.dims...)})
		if err != nil {
			t.Fatal(err)
		}
		before := written(t, cut)
		rows, err := cut.Rows("patch_tokens")
		if err != nil {
			t.Fatalf("%s %v: %v", c.to, c.dims, err)
		}
		var ops []string
		for _, n := range rows.Graph.Nodes {
			ops = append(ops, n.Op)
		}
		out := rows.Graph.Outputs[0]
		if got := fmt.Sprintf("%s %s %v", strings.Join(ops, " "), out.Name, out.Type.Dims); got != c.ops+" patch_tokens "+c.want {
			t.Errorf("%s %v: %s, want %s", c.to, c.dims, got, c.want)
		}
		if p := rows.Check(CheckOptions{}); len(p) > 0 {
			t.Errorf("%s %v: %v", c.to, c.dims, p)
		}
		if d := cmp.Diff(before, written(t, cut)); d != "" {
			t.Errorf("%s: original model changed", c.to)
		}
	}
}

// A model without channels or with conflicting names is refused.
func TestRowsRefuses(t *testing.T) {
	for want, damage := range map[string]func(*Model){
		"unknown shape of":                func(m *Model) { m.Graph.Outputs[0].Type.Ranked = false },
		`"tokens" has 2 dimensions`:       func(m *Model) { m.Graph.Outputs[0].Type.Dims = m.Graph.Outputs[0].Type.Dims[:2] },
		"need one result, got 2":          func(m *Model) { m.Graph.Outputs = append(m.Graph.Outputs, TensorValue("rows", FLOAT, 1, 2, 3)) },
		"of opset 5":                      func(m *Model) { m.Opsets[0].Version = 4 },
		`name "new" already exists`:       func(m *Model) { m.Graph.Nodes[0].Outputs = append(m.Graph.Nodes[0].Outputs, "new") },
		`name "new.shape" already exists`: func(m *Model) { m.Graph.Constant(Ints("new.shape", []int64{1}, []int64{0})) },
		`name "new.flat" already exists`:  func(m *Model) { m.Graph.Inputs = append(m.Graph.Inputs, TensorValue("new.flat", FLOAT, 1)) },
	} {
		m := visionEncoder()
		damage(m)
		if _, err := m.Rows("new"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Before IR version 4 the shape is also an input, which callers do not pass.
func TestRowsLegacy(t *testing.T) {
	m := imageDecoder()
	m.IRVersion = 3
	for _, c := range m.Graph.Initializers {
		m.Graph.Inputs = append(m.Graph.Inputs, TensorValue(c.Name, c.DType))
	}
	rows, err := m.Rows("pixels")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"vector"}, names(rows.Inputs())); d != "" || len(rows.Graph.Inputs) != len(m.Graph.Inputs)+1 {
		t.Errorf("%s, %d inputs", d, len(rows.Graph.Inputs))
	}
	if d := cmp.Diff("[1 64 3]", fmt.Sprint(rows.Graph.Outputs[0].Type.Dims)); d != "" {
		t.Error(d)
	}
}
