package openvino

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/onnx/lower"
	"mm-abi.org/mm/onnx/ovir"
)

// The shipped core has the inputs of OpenVINO GenAI, and a variable for the keys and
// the values of each layer, read and assigned once.
func TestGrow(t *testing.T) {
	f, err := gguf.Open(filepath.FromSlash("../../../catalog/core-llm/core-llm.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write := func(precision string) map[string][]byte {
		files, r, err := export.Lowered{Form: Form{}}.WriteLanguage(t.Context(), f, "core", precision, export.LanguageOptions{Stateful: true})
		if err != nil {
			t.Fatal(err)
		}
		if !r.Stateful || r.Cosine < export.Tolerance(precision) || !slices.Equal(r.Graphs, []string{"openvino_model"}) || r.Tokenizer != "core.vocab.gguf" {
			t.Errorf("%s: got record %+v", precision, r)
		}
		out := map[string][]byte{}
		for _, o := range files {
			var b bytes.Buffer
			if err := o.Write(&b); err != nil {
				t.Fatal(err)
			}
			out[o.Path] = b.Bytes()
		}
		return out
	}
	for _, precision := range []string{fp32, int8s} {
		files, again := write(precision), write(precision)
		for name, data := range files {
			if !bytes.Equal(data, again[name]) {
				t.Errorf("%s: the bytes of %s differ", precision, name)
			}
		}
		text := files["core/openvino_model.xml"]
		m, err := ovir.Read(bytes.NewReader(text), int64(len(files["core/openvino_model.bin"])))
		if err != nil {
			t.Fatal(err)
		}
		if m.Operations["ReadValue"] != 8 || m.Operations["Assign"] != 8 || m.Operations["ScaledDotProductAttention"] != 4 || m.Operations["SoftMax"] != 0 {
			t.Errorf("%s: got operations %v", precision, m.Operations)
		}
		for i, want := range []string{"input_ids", "attention_mask", "position_ids", "beam_idx"} {
			if m.Inputs[i].Name != want || m.Inputs[i].Shape[0] != -1 {
				t.Errorf("%s: got input %+v, want %s", precision, m.Inputs[i], want)
			}
		}
		if len(m.Outputs) != 1 || m.Outputs[0].Name != "logits" || !slices.Equal(m.Outputs[0].Shape, []int64{-1, -1, 1024}) {
			t.Errorf("%s: got outputs %+v", precision, m.Outputs)
		}
		if !strings.Contains(string(text), `variable_id="past_key_values.3.keypresent.3.key" variable_type="f32" variable_shape="?,2,?,64"`) {
			t.Errorf("%s: no variable of the last layer's keys", precision)
		}
		if want := map[string]string{fp32: `<KV_CACHE_PRECISION value="f32"/>`, int8s: `<KV_CACHE_PRECISION value="f16"/>`}[precision]; !strings.Contains(string(text), want) {
			t.Errorf("%s: no %s", precision, want)
		}
		if !bytes.Contains(files["core/config.json"], []byte(`"eos_token_id"`)) {
			t.Errorf("got config %s", files["core/config.json"])
		}
	}
}

// An open dimension of a reshape is the operand's at its place, or follows from the
// others.
func TestOpenReshape(t *testing.T) {
	w := newWriter(fp32)
	w.reshape(w.parameter("x", f32, []int{-1, -2, 8}), []int{-1, 4, -3, 2})
	if got := w.layers[1].data; got[5] != "0" || w.layers[2].data[1] != "true" {
		t.Errorf("got %v, %v", got, w.layers[2].data)
	}
	if got := w.bin.parts[0]; !bytes.Equal(got, []byte{31: 0, 0: 0, 8: 4, 16: 255, 17: 255, 18: 255, 19: 255, 20: 255, 21: 255, 22: 255, 23: 255, 24: 2}) {
		t.Errorf("got %v", got)
	}
}

// Nodes that need every size are refused with open dimensions.
func TestGrowRefused(t *testing.T) {
	x := &lower.Value{Name: "x", Shape: []int{-1, 4}}
	for op, n := range map[lower.Op]*lower.Node{
		lower.Tile:  {Op: lower.Tile, In: []*lower.Value{x}, Out: &lower.Value{Name: "y", Shape: []int{-2, 4}}},
		lower.Slice: {Op: lower.Slice, In: []*lower.Value{x}, Out: &lower.Value{Name: "y", Shape: []int{-2, 4}}, Starts: []int{0, 0}, Steps: []int{1, 1}},
		lower.Pad:   {Op: lower.Pad, In: []*lower.Value{x}, Out: &lower.Value{Name: "y", Shape: []int{-2, 4}}, Before: []int{1, 0}, After: []int{0, 0}, Mode: "constant"},
	} {
		w := newWriter(fp32)
		w.at[x] = w.parameter("x", f32, x.Shape)
		if problems := w.nodes(&lower.Graph{Nodes: []*lower.Node{n}}); len(problems) != 1 || !strings.Contains(problems[0].Reason, "open dimension") {
			t.Errorf("%s: got %v", op, problems)
		}
	}
}
