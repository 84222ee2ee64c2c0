package preference

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"testing"

	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/train/llm"
)

// golden is a batch with the losses and gradients of TRL's DPOTrainer, written
// by make preference.
type golden struct {
	*safetensors.File
	t *testing.T
}

func openGolden(t *testing.T) golden {
	t.Helper()
	path := "testdata/trl.safetensors"
	if other := os.Getenv("MM_PREFERENCE"); other != "" {
		path = other
	}
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return golden{f, t}
}

// floats returns a tensor of numbers.
func (g golden) floats(name string) ([]float32, []int) {
	g.t.Helper()
	w, ok := g.Tensor(name)
	if !ok {
		g.t.Fatalf("missing tensor %s", name)
	}
	typ, _ := w.DType.Type()
	v := make([]float32, len(w.Data)/typ.BlockBytes())
	quant.Dequantize(v, w.Data, typ)
	return v, w.Shape
}

// integers returns a tensor of 32-bit integers.
func (g golden) integers(name string) ([]int32, []int) {
	w, ok := g.Tensor(name)
	if !ok || w.DType != safetensors.I32 {
		g.t.Fatalf("missing integers %s", name)
	}
	v := make([]int32, len(w.Data)/4)
	for i := range v {
		v[i] = int32(w.Data[4*i]) | int32(w.Data[4*i+1])<<8 | int32(w.Data[4*i+2])<<16 | int32(w.Data[4*i+3])<<24
	}
	return v, w.Shape
}

// hfName returns the name of a tensor in Hugging Face's models.
func hfName(name string) string {
	if m := regexp.MustCompile(`^blk\.(\d+)\.(\w+)\.weight$`).FindStringSubmatch(name); m != nil {
		part := map[string]string{
			"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
			"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
			"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
		}[m[2]]
		return "model.layers." + m[1] + "." + part + ".weight"
	}
	return map[string]string{"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight", "output.weight": "lm_head.weight"}[name]
}

// model reads the weights with the prefix.
func (g golden) model(prefix string) *llm.Model[float32] {
	g.t.Helper()
	m, err := llm.New[float32](llm.Config{Vocab: 24, Dim: 8, Layers: 2, Heads: 2, KVHeads: 1, HeadDim: 4, Hidden: 12, Context: 32})
	if err != nil {
		g.t.Fatal(err)
	}
	for _, w := range m.Tensors() {
		v, _ := g.floats(prefix + hfName(w.Name))
		if len(v) != len(w.Data) {
			g.t.Fatalf("%s has %d elements, want %d", w.Name, len(v), len(w.Data))
		}
		copy(w.Data, v)
	}
	m.Refresh(nil)
	return m
}

// batch returns TRL's batch, all chosen answers before all rejected ones, as
// pairs of rows, and the tokens of each answer.
func (g golden) batch() (b llm.Batch[float32], rows, T int, tokens []int) {
	ids, shape := g.integers("input_ids")
	mask, _ := g.integers("completion_mask")
	rows, T = shape[0], shape[1]
	for row := range rows {
		from := (row/2 + row%2*rows/2) * T
		n := 0
		for i := range T {
			target := int32(-1)
			if i+1 < T && mask[from+i+1] != 0 {
				target = ids[from+i+1]
				n++
			}
			b.Tokens, b.Targets = append(b.Tokens, ids[from+i]), append(b.Targets, target)
		}
		tokens = append(tokens, n)
	}
	return b, rows, T, tokens
}

// Loss and gradients of a batch equal those of TRL's trainer.
func TestTRL(t *testing.T) {
	g := openGolden(t)
	var cases []struct {
		Name string
		Kind Kind
		Beta float64
		Loss float64
	}
	if err := json.Unmarshal([]byte(g.Metadata["cases"]), &cases); err != nil || len(cases) < 3 {
		t.Fatalf("%d cases: %v", len(cases), err)
	}
	b, rows, T, tokens := g.batch()
	reference, policy := make([]float64, rows), g.model("policy.")
	if err := g.model("reference.").NewPass(nil, rows, T).Losses(b, reference); err != nil {
		t.Fatal(err)
	}
	pass := policy.NewPass(nil, rows, T)
	for _, c := range cases {
		var loss float64
		err := pass.TrainWeighted(b, func(nats, factors []float64) {
			answers := make([]Answer, rows)
			for i := range answers {
				answers[i] = Answer{nats[i], reference[i], tokens[i]}
			}
			n := float64(rows / 2)
			loss = Objective{Kind: c.Kind, Beta: c.Beta}.Loss(answers, 1/n, factors) / n
		}, false)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(loss-c.Loss) > 1e-5*math.Abs(c.Loss) {
			t.Errorf("%s: loss %v, want %v", c.Name, loss, c.Loss)
		}
		worst := 0.0
		for _, w := range policy.Tensors() {
			want, _ := g.floats(fmt.Sprintf("%s.%s", c.Name, hfName(w.Name)))
			var diff, norm float64
			for i, v := range want {
				diff += float64(v-w.Grad[i]) * float64(v-w.Grad[i])
				norm += float64(v) * float64(v)
			}
			if norm == 0 {
				t.Errorf("%s: gradient of %s is zero", c.Name, w.Name)
			}
			worst = max(worst, math.Sqrt(diff/norm))
		}
		if t.Logf("%s: loss %.7f, TRL %.7f; gradients differ by at most %.1e", c.Name, loss, c.Loss, worst); !(worst < 1e-4) {
			t.Errorf("%s: gradients differ by %v of their norm", c.Name, worst)
		}
	}
}
