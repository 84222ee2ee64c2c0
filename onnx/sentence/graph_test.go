package sentence

import (
	"strings"
	"testing"

	"mm-abi.org/mm/onnx"
)

// exported returns a graph whose states are rows of a table. Segments are added to
// them, and a value has the name of the output.
func exported(opset int64) *onnx.Model {
	m := onnx.New("exported", opset)
	g := &m.Graph
	for _, name := range []string{IDs, Mask, Segments} {
		g.Inputs = append(g.Inputs, onnx.TensorValue(name, onnx.INT64, "batch", "sequence"))
	}
	table := make([]float32, 6*4)
	for i := range table {
		table[i] = float32((i*7+3)%11) - 4.5
	}
	g.Constant(onnx.Floats("table", []int64{6, 4}, table))
	at := g.Add("Add", []string{IDs, Segments}, Embedding)
	g.Add("Gather", []string{"table", at}, lastState)
	g.Outputs = []onnx.Value{onnx.TensorValue(lastState, onnx.FLOAT, "batch", "sequence", 4)}
	return m
}

// TestFinish compares the pooling of a graph with numbers of another calculation, in
// each form of the operators.
func TestFinish(t *testing.T) {
	e := example{IDs: [][]int64{{1, 2, 5}, {4, 3, 0}}, Mask: [][]int64{{1, 1, 1}, {1, 1, 0}}}
	row := func(id int) []float32 {
		out := make([]float32, 4)
		for k := range out {
			out[k] = float32(((4*id+k)*7+3)%11) - 4.5
		}
		return out
	}
	var want [][]float32
	for _, text := range [][]int{{1, 2, 5}, {4, 3}} {
		high, mean, weighted := []float32{-9, -9, -9, -9}, make([]float32, 4), make([]float32, 4)
		sum := float32(len(text)*(len(text)+1)) / 2
		for i, id := range text {
			for k, v := range row(id) {
				high[k] = max(high[k], v)
				mean[k] += v / float32(len(text))
				weighted[k] += v * float32(i+1) / sum
			}
		}
		all := append(row(text[0]), high...)
		want = append(want, append(append(append(all, mean...), weighted...), row(text[len(text)-1])...))
	}
	for _, opset := range []int64{leastOpset, 12, 13, 17, 18} {
		m := exported(opset)
		c := Config{Width: 4, types: 2}
		if err := c.Finish(m, Pooling{Modes: []string{"cls", "max", "mean", "weighted", "last"}}); err != nil {
			t.Fatal(err)
		}
		if n := len(m.Graph.Inputs); n != 2 {
			t.Errorf("got %d inputs, want ids and mask", n)
		}
		near(t, "pooled", want, e.run(t, m))
	}
}

// TestFinishScores maps logits to 0 … 1 and keeps the segments.
func TestFinishScores(t *testing.T) {
	m := exported(17)
	g := &m.Graph
	g.Constant(onnx.Ints("first", nil, []int64{0}))
	g.Add("Gather", []string{lastState, "first"}, Scores, onnx.Int("axis", 1))
	g.Constant(onnx.Floats("weight", []int64{4, 1}, []float32{0.5, 0, 0, 0}))
	g.Add("MatMul", []string{Scores, "weight"}, logits)
	g.Outputs = []onnx.Value{onnx.TensorValue(logits, onnx.FLOAT, "batch", 1)}
	c := Config{Width: 4, Labels: 1, Sigmoid: true, types: 2}
	if err := c.Finish(m, Pooling{}); err != nil {
		t.Fatal(err)
	}
	e := example{IDs: [][]int64{{0, 2}, {4, 3}}, Mask: [][]int64{{1, 1}, {1, 1}}, Types: [][]int64{{0, 0}, {1, 0}}}
	near(t, "scores", [][]float32{{0.32082131}, {0.0953495}}, e.run(t, m))
}

// TestFinishRefusals reads graphs with missing or unsupported parts.
func TestFinishRefusals(t *testing.T) {
	values := func(v ...onnx.Value) []onnx.Value { return v }
	ids, mask := onnx.TensorValue(IDs, onnx.INT64, "N", "T"), onnx.TensorValue(Mask, onnx.INT64, "N", "T")
	for want, change := range map[string]func(m *onnx.Model, c *Config){
		"unsupported opset 10":                      func(m *onnx.Model, _ *Config) { m.Opsets[0].Version = leastOpset - 1 },
		`unsupported input "position_ids"`:          func(m *onnx.Model, _ *Config) { m.Graph.Inputs[2].Name = "position_ids" },
		"missing input input_ids or attention_mask": func(m *onnx.Model, _ *Config) { m.Graph.Inputs = values(ids) },
		"input input_ids: got int64 [1 T]": func(m *onnx.Model, _ *Config) {
			m.Graph.Inputs = values(onnx.TensorValue(IDs, onnx.INT64, 1, "T"), mask)
		},
		"input attention_mask: got float32 [N T]": func(m *onnx.Model, _ *Config) {
			m.Graph.Inputs = values(ids, onnx.TensorValue(Mask, onnx.FLOAT, "N", "T"))
		},
		"unsupported output last_hidden_state of type float16":                func(m *onnx.Model, _ *Config) { m.Graph.Outputs[0].Type.DType = onnx.FLOAT16 },
		"output last_hidden_state: got [batch sequence 4], want 3 dimensions": func(_ *onnx.Model, c *Config) { c.Width = 8 },
		"missing output logits, got last_hidden_state":                        func(_ *onnx.Model, c *Config) { c.Labels = 1 },
		"missing output last_hidden_state or token_embeddings, got other":     func(m *onnx.Model, _ *Config) { m.Graph.Outputs[0].Name = "other" },
	} {
		m, c := exported(17), Config{Width: 4, types: 2}
		change(m, &c)
		if err := c.Finish(m, Pooling{Modes: []string{"mean"}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}
