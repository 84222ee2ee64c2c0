package sentence

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/tower"
)

// example is a tiny model with the outputs of transformers (testdata/models.py).
type example struct {
	Config  json.RawMessage
	IDs     [][]int64
	Mask    [][]int64
	Types   [][]int64
	Pooled  map[string][][]float32
	Scores  [][]float32
	weights tower.Weights
}

func examples(t testing.TB) map[string]example {
	t.Helper()
	data, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]example
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	for name, e := range all {
		f, err := safetensors.Open(filepath.Join("testdata", name+".safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		tensors := map[string]safetensors.Tensor{}
		for _, x := range f.Tensors {
			tensors[x.Name] = x
		}
		e.weights = tower.Safetensors(tensors)
		all[name] = e
	}
	return all
}

func integers(rows [][]int64) engine.Tensor {
	x := engine.Tensor{Type: onnx.INT64, Shape: []int{len(rows), len(rows[0])}}
	for _, row := range rows {
		for _, v := range row {
			x.Data = binary.LittleEndian.AppendUint64(x.Data, uint64(v))
		}
	}
	return x
}

// run computes the rows of the one output.
func (e example) run(t *testing.T, m *onnx.Model) [][]float32 {
	t.Helper()
	p, err := engine.Compile(t.Context(), m, engine.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	in := map[string]engine.Tensor{IDs: integers(e.IDs), Mask: integers(e.Mask)}
	if e.Types != nil {
		in[Segments] = integers(e.Types)
	}
	got, err := p.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range got {
		out := make([][]float32, x.Shape[0])
		for i := range out {
			for k := range x.Shape[1] {
				out[i] = append(out[i], math.Float32frombits(binary.LittleEndian.Uint32(x.Data[4*(i*x.Shape[1]+k):])))
			}
		}
		return out
	}
	return nil
}

func near(t *testing.T, what string, want, got [][]float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for i := range want {
		for k := range want[i] {
			if d := math.Abs(float64(want[i][k] - got[i][k])); len(want[i]) != len(got[i]) || d > 2e-5*(1+math.Abs(float64(want[i][k]))) {
				t.Fatalf("%s: row %d is %v, want %v", what, i, got[i], want[i])
			}
		}
	}
}

// TestModels compares every family, pooling and head with transformers.
func TestModels(t *testing.T) {
	for name, e := range examples(t) {
		t.Run(name, func(t *testing.T) {
			c, err := ReadConfig(e.Config)
			if err != nil {
				t.Fatal(err)
			}
			if c.Labels > 0 {
				m, err := c.Model(e.weights, Pooling{})
				if err != nil {
					t.Fatal(err)
				}
				near(t, "scores", e.Scores, e.run(t, m))
				return
			}
			for _, mode := range slices.Sorted(maps.Keys(e.Pooled)) {
				m, err := c.Model(e.weights, Pooling{Modes: []string{mode}})
				if err != nil {
					t.Fatal(err)
				}
				near(t, mode, e.Pooled[mode], e.run(t, m))
			}
		})
	}
}

// TestPoolingParts joins modes, passes them through a layer and normalizes.
func TestPoolingParts(t *testing.T) {
	e := examples(t)["bert"]
	c, err := ReadConfig(e.Config)
	if err != nil {
		t.Fatal(err)
	}
	dense := tower.Weights{"linear.weight": ones(3, 16), "linear.bias": ones(3)}
	files := map[string]string{
		"modules.json":          `[{"path":"","type":"sentence_transformers.models.Transformer"},{"path":"1_Pooling","type":"sentence_transformers.models.Pooling"},{"path":"2_Dense","type":"x.Dense"},{"path":"3_Normalize","type":"x.Normalize"}]`,
		"1_Pooling/config.json": `{"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":true}`,
		"2_Dense/config.json":   `{"in_features":16,"out_features":3,"bias":true,"activation_function":"torch.nn.modules.activation.Tanh"}`,
	}
	p, err := ReadPooling(reads(files), func(string) (Weights, error) { return dense, nil })
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Model(e.weights, p)
	if err != nil {
		t.Fatal(err)
	}
	var want [][]float32
	for i := range e.IDs {
		sum := 1.0
		for _, mode := range []string{"cls", "mean"} {
			for _, v := range e.Pooled[mode][i] {
				sum += float64(v)
			}
		}
		v := float32(1 / math.Sqrt(3))
		if math.Tanh(sum) < 0 {
			v = -v
		}
		want = append(want, []float32{v, v, v})
	}
	near(t, "joined", want, e.run(t, m))
}

func ones(dims ...int) tower.Weight {
	w := tower.Weight{Shape: dims, Type: tensor.F32}
	n := 1
	for _, d := range dims {
		n *= d
	}
	for range n {
		w.Data = binary.LittleEndian.AppendUint32(w.Data, math.Float32bits(1))
	}
	return w
}

func reads(files map[string]string) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		if text, ok := files[name]; ok {
			return []byte(text), nil
		}
		return nil, nil
	}
}

// TestHalf keeps the vectors of words in half precision.
func TestHalf(t *testing.T) {
	e := examples(t)["bert"]
	c, _ := ReadConfig(e.Config)
	w := maps.Clone(e.weights)
	x := w["embeddings.word_embeddings.weight"]
	half := tower.Weight{Shape: x.Shape, Type: tensor.F16, Data: make([]byte, len(x.Data)/2)} // zeros
	w["embeddings.word_embeddings.weight"] = half
	m, err := c.Model(w, Pooling{Modes: []string{"cls"}})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(m.Graph.Initializers, func(x onnx.Tensor) bool { return x.DType == onnx.FLOAT16 }) {
		t.Error("no table in half precision")
	}
	e.run(t, m)
}

// TestPoolingRefuses has files of sentence-transformers that cannot be computed.
func TestPoolingRefuses(t *testing.T) {
	const head = `[{"path":"","type":"s.Transformer"},{"path":"1_Pooling","type":"s.Pooling"}`
	pool := func(text string) map[string]string {
		return map[string]string{"modules.json": head + "]", "1_Pooling/config.json": text}
	}
	for want, files := range map[string]map[string]string{
		"no pooling mode":                 pool(`{}`),
		"unsupported include_prompt":      pool(`{"include_prompt":false,"pooling_mode_cls_token":true}`),
		"unsupported pooling_mode x":      pool(`{"pooling_mode":"x"}`),
		"pooling_mode 3":                  pool(`{"pooling_mode":3}`),
		"missing file":                    {"modules.json": head + "]"},
		"modules.json: no pooling":        {"modules.json": `[{"path":"","type":"s.Transformer"}]`},
		"part 1 is \"s.CNN\"":             {"modules.json": `[{"path":"","type":"s.Transformer"},{"path":"c","type":"s.CNN"}]`},
		"the transformer is in \"0_T\"":   {"modules.json": `[{"path":"0_T","type":"s.Transformer"}]`},
		"path \"../x\"":                   {"modules.json": `[{"path":"","type":"s.Transformer"},{"path":"../x","type":"s.Pooling"}]`},
		"unexpected end of JSON":          {"modules.json": `[`},
		"unsupported activation_function": {"modules.json": head + `,{"path":"d","type":"s.Dense"}]`, "1_Pooling/config.json": `{"pooling_mode":"cls"}`, "d/config.json": `{"in_features":8,"out_features":8,"activation_function":"x.Softmax"}`},
		"layer of 0 × 8":                  {"modules.json": head + `,{"path":"d","type":"s.Dense"}]`, "1_Pooling/config.json": `{"pooling_mode":"cls"}`, "d/config.json": `{"out_features":8}`},
	} {
		_, err := ReadPooling(reads(files), func(string) (Weights, error) { return tower.Weights{}, nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	p, err := ReadPooling(reads(nil), nil)
	if err != nil || !slices.Equal(p.Modes, []string{"mean"}) || p.Normalize {
		t.Errorf("a folder without modules.json: %+v, %v", p, err)
	}
}

// TestConfigLimits has a value at each limit, and one beyond it.
func TestConfigLimits(t *testing.T) {
	config := func(key string, v any) error {
		m := map[string]any{"model_type": "bert", "vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12, "max_position_embeddings": 24}
		m[key] = v
		if key == "hidden_size" {
			m["num_attention_heads"] = 1
		}
		data, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ReadConfig(data)
		return err
	}
	for _, c := range []struct {
		key   string
		limit int
	}{
		{"vocab_size", maxVocab}, {"max_position_embeddings", maxPositions}, {"hidden_size", maxWidth}, {"num_hidden_layers", maxLayers}, {"intermediate_size", maxHidden}, {"type_vocab_size", 1 << 10},
	} {
		if err := config(c.key, c.limit); err != nil {
			t.Errorf("%s %d: %v", c.key, c.limit, err)
		}
		if err := config(c.key, c.limit+1); err == nil || !strings.Contains(err.Error(), c.key) {
			t.Errorf("%s %d: %v", c.key, c.limit+1, err)
		}
	}
	for n, want := range map[int]bool{maxLabels: true, maxLabels + 1: false} {
		labels := map[string]string{}
		for i := range n {
			labels[fmt.Sprint(i)] = "x"
		}
		data, _ := json.Marshal(map[string]any{"model_type": "bert", "vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12, "max_position_embeddings": 24,
			"architectures": []string{"BertForSequenceClassification"}, "id2label": labels})
		if _, err := ReadConfig(data); (err == nil) != want {
			t.Errorf("%d labels: %v", n, err)
		}
	}
	for n, want := range map[int]bool{maxRelative: true, maxRelative + 1: false} {
		data := fmt.Sprintf(`{"model_type":"mpnet","vocab_size":30,"hidden_size":8,"num_hidden_layers":2,"num_attention_heads":2,"intermediate_size":12,"max_position_embeddings":%d}`, n+2)
		if _, err := ReadConfig([]byte(data)); (err == nil) != want {
			t.Errorf("%d relative positions: %v", n, err)
		}
	}
	for want, text := range map[string]string{
		"unsupported model_type": `{"model_type":"gpt9"}`, "position_embedding_type": `{"model_type":"bert","position_embedding_type":"relative_key"}`, "want an encoder": `{"model_type":"bert","is_decoder":true}`,
		"not a multiple":  `{"model_type":"bert","vocab_size":30,"hidden_size":9,"num_hidden_layers":2,"num_attention_heads":2,"intermediate_size":12,"max_position_embeddings":24}`,
		"hidden_act":      `{"model_type":"bert","vocab_size":30,"hidden_size":8,"num_hidden_layers":2,"num_attention_heads":2,"intermediate_size":12,"max_position_embeddings":24,"hidden_act":"mish"}`,
		"embedding_size":  `{"model_type":"electra","hidden_size":8,"embedding_size":4}`,
		"pad_token_id 30": `{"model_type":"roberta","pad_token_id":30,"max_position_embeddings":24}`,
		"want 32":         `{"model_type":"mpnet","relative_attention_num_buckets":8}`,
	} {
		if _, err := ReadConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// TestMaxZeros bounds what replaces tensors that are missing.
func TestMaxZeros(t *testing.T) {
	big := `{"model_type":"bert","vocab_size":4000000,"hidden_size":16384,"num_hidden_layers":200,"num_attention_heads":2,"intermediate_size":100000,"max_position_embeddings":24}`
	c, err := ReadConfig([]byte(big))
	if err != nil {
		t.Fatal(err)
	}
	if m, err := c.Model(tower.Weights{}, Pooling{Modes: []string{"cls"}}); m != nil || err == nil || !strings.Contains(err.Error(), "missing tensor") {
		t.Errorf("got %v, %v", m, err)
	}
	w := writer{t: tower.Weights{}}
	w.read("a", maxZeros)
	defer func() {
		if recover() != (halt{}) {
			t.Error("a number more than maxZeros does not stop")
		}
	}()
	w.read("b", 1)
}

// FuzzConfig reads any configuration and files of sentence-transformers, and writes a
// model without weights.
func FuzzConfig(f *testing.F) {
	for _, e := range examples(f) {
		f.Add([]byte(e.Config), []byte(`[{"path":"","type":"s.Transformer"},{"path":"1","type":"s.Pooling"},{"path":"2","type":"s.Normalize"}]`), []byte(`{"pooling_mode_cls_token":true,"pooling_mode_max_tokens":true}`))
	}
	f.Fuzz(func(t *testing.T, config, parts, pooling []byte) {
		c, err := ReadConfig(config)
		if err != nil {
			return
		}
		p, err := ReadPooling(reads(map[string]string{"modules.json": string(parts), "1/config.json": string(pooling)}), func(string) (Weights, error) { return tower.Weights{}, nil })
		if err != nil {
			return
		}
		if m, err := c.Model(tower.Weights{}, p); err == nil {
			t.Errorf("a model without weights: %v", m)
		}
	})
}

// TestRotaryConfig reads nomic_bert as it is published and refuses settings that would
// change the vectors.
func TestRotaryConfig(t *testing.T) {
	published := map[string]any{
		"model_type": "nomic_bert", "vocab_size": 30, "n_embd": 8, "n_head": 2, "n_layer": 2, "n_inner": 12, "n_positions": 8192, "layer_norm_epsilon": 1e-12,
		"activation_function": "swiglu", "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0, "prenorm": false, "type_vocab_size": 2,
	}
	of := func(base map[string]any, key string, value any) (Config, error) {
		m := maps.Clone(base)
		if key != "" {
			m[key] = value
		}
		data, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return ReadConfig(data)
	}
	e := examples(t)["nomic"]
	c, err := of(published, "", nil)
	if err != nil || c.Positions != 2048 {
		t.Fatal(c.Positions, err)
	}
	m, err := c.Model(e.weights, Pooling{Modes: []string{"mean"}})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "published", e.Pooled["mean"], e.run(t, m))
	for _, change := range []struct {
		key   string
		value any
	}{
		{"activation_function", "gelu"}, {"prenorm", true}, {"use_rms_norm", true}, {"causal", true}, {"rotary_emb_interleaved", true}, {"moe_every_n_layers", 2}, {"rotary_emb_scale_base", 512},
		{"rotary_emb_fraction", 0.5}, {"rotary_emb_base", 0}, {"head_dim", 3}, {"architectures", []string{"NomicBertForSequenceClassification"}},
	} {
		if _, err := of(published, change.key, change.value); err == nil {
			t.Errorf("%s %v is accepted", change.key, change.value)
		}
	}
	var gte map[string]any
	if err := json.Unmarshal(examples(t)["gte"].Config, &gte); err != nil {
		t.Fatal(err)
	}
	gte["model_type"], gte["position_embedding_type"], gte["rope_theta"] = "new", "rope", 20000
	if c, err = of(gte, "", nil); err != nil {
		t.Fatal(err)
	}
	if m, err = c.Model(examples(t)["gte"].weights, Pooling{Modes: []string{"cls"}}); err != nil {
		t.Fatal(err)
	}
	near(t, "new", examples(t)["gte"].Pooled["cls"], examples(t)["gte"].run(t, m))
	for _, change := range []struct {
		key   string
		value any
	}{
		{"rope_scaling", map[string]any{"type": "ntk", "factor": 2}}, {"logn_attention_scale", true}, {"layer_norm_type", "rms_norm"}, {"position_embedding_type", "absolute"},
		{"rope_parameters", map[string]any{"rope_type": "yarn"}}, {"rope_parameters", []int{1}},
	} {
		if _, err := of(gte, change.key, change.value); err == nil {
			t.Errorf("%s %v is accepted", change.key, change.value)
		}
	}
}
