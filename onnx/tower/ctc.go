package tower

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/onnx"
)

// CTC is a model that scores the letters of each step of a sound, Wav2Vec 2.0 or
// HuBERT: the sizes of its config.json.
type CTC struct {
	family               string
	conv, stride, kernel []int
	each                 bool // every convolution has a norm of its channels
	bias, projected      bool // of the convolutions; the features have a norm
	width, layers, heads int
	hidden               int
	act, convAct         string
	places, groups       int // kernel and groups of the convolution of positions
	before               bool
	epsilon              float32
	Vocab                int
}

// CTCFamilies lists the supported values of model_type.
func CTCFamilies() []string { return []string{"hubert", "wav2vec2"} }

// maxConvs and maxKernel bound the convolutions.
const (
	maxConvs  = 32
	maxKernel = 1 << 10
)

// ReadCTC reads the config.json of Wav2Vec2ForCTC or HubertForCTC.
func ReadCTC(data []byte) (CTC, error) {
	var raw struct {
		Type     string   `json:"model_type"`
		Classes  []string `json:"architectures"`
		Norm     *string  `json:"feat_extract_norm"`
		ConvAct  *string  `json:"feat_extract_activation"`
		Conv     []int    `json:"conv_dim"`
		Stride   []int    `json:"conv_stride"`
		Kernel   []int    `json:"conv_kernel"`
		Bias     *bool    `json:"conv_bias"`
		Width    *int     `json:"hidden_size"`
		Layers   *int     `json:"num_hidden_layers"`
		Heads    *int     `json:"num_attention_heads"`
		Hidden   *int     `json:"intermediate_size"`
		Act      *string  `json:"hidden_act"`
		Places   *int     `json:"num_conv_pos_embeddings"`
		Groups   *int     `json:"num_conv_pos_embedding_groups"`
		Before   *bool    `json:"do_stable_layer_norm"`
		Epsilon  *float64 `json:"layer_norm_eps"`
		Vocab    *int     `json:"vocab_size"`
		Adapter  *bool    `json:"add_adapter"`
		Adapters *int     `json:"adapter_attn_dim"`
		Batch    *bool    `json:"conv_pos_batch_norm"`
		Features *bool    `json:"feat_proj_layer_norm"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return CTC{}, err
	}
	switch norm := or(raw.Norm, "group"); {
	case !slices.Contains(CTCFamilies(), raw.Type):
		return CTC{}, fmt.Errorf("unsupported model_type %.64q, want hubert or wav2vec2", raw.Type)
	case len(raw.Classes) != 1 || raw.Classes[0] != "Wav2Vec2ForCTC" && raw.Classes[0] != "HubertForCTC":
		return CTC{}, fmt.Errorf("unsupported architectures %.80q, want Wav2Vec2ForCTC or HubertForCTC", raw.Classes)
	case or(raw.Adapter, false) || raw.Adapters != nil || or(raw.Batch, false):
		return CTC{}, fmt.Errorf("unsupported add_adapter, adapter_attn_dim or conv_pos_batch_norm")
	case norm != "group" && norm != "layer":
		return CTC{}, fmt.Errorf("unsupported feat_extract_norm %.64q", norm)
	}
	if raw.Conv == nil && raw.Stride == nil && raw.Kernel == nil {
		raw.Conv, raw.Stride, raw.Kernel = []int{512, 512, 512, 512, 512, 512, 512}, []int{5, 2, 2, 2, 2, 2, 2}, []int{10, 3, 3, 3, 3, 2, 2}
	}
	c := CTC{
		family: raw.Type, conv: raw.Conv, stride: raw.Stride, kernel: raw.Kernel, each: or(raw.Norm, "group") == "layer", bias: or(raw.Bias, false), projected: or(raw.Features, true),
		width: or(raw.Width, 768), layers: or(raw.Layers, 12), heads: or(raw.Heads, 12), hidden: or(raw.Hidden, 3072), act: or(raw.Act, "gelu"), convAct: or(raw.ConvAct, "gelu"),
		places: or(raw.Places, 128), groups: or(raw.Groups, 16), before: or(raw.Before, false), epsilon: float32(or(raw.Epsilon, 1e-5)), Vocab: or(raw.Vocab, 32),
	}
	return c, c.check()
}

// check validates the sizes.
func (c CTC) check() error {
	all := []bounded{
		{"hidden_size", c.width, maxWidth}, {"num_hidden_layers", c.layers, maxLayers}, {"num_attention_heads", c.heads, c.width}, {"intermediate_size", c.hidden, maxHidden},
		{"vocab_size", c.Vocab, maxVocab}, {"num_conv_pos_embeddings", c.places, maxKernel}, {"num_conv_pos_embedding_groups", c.groups, c.width}, {"layers of conv_dim", len(c.conv), maxConvs},
	}
	if len(c.conv) != len(c.stride) || len(c.conv) != len(c.kernel) {
		return fmt.Errorf("conv_dim, conv_stride and conv_kernel have %d, %d and %d layers", len(c.conv), len(c.stride), len(c.kernel))
	}
	for i := range c.conv {
		all = append(all, bounded{"conv_dim", c.conv[i], maxWidth}, bounded{"conv_stride", c.stride[i], maxKernel}, bounded{"conv_kernel", c.kernel[i], maxKernel})
	}
	if err := inRange(all); err != nil {
		return err
	}
	switch {
	case c.width%c.heads != 0 || c.width%c.groups != 0:
		return fmt.Errorf("hidden_size %d is not a multiple of %d heads and %d groups", c.width, c.heads, c.groups)
	case !knownActivation(c.act) || !knownActivation(c.convAct):
		return fmt.Errorf("unsupported activation %.64q or %.64q", c.act, c.convAct)
	}
	return nil
}

// Model writes the model: samples to the scores of each step.
func (c CTC) Model(t Weights) (m *onnx.Model, err error) {
	m = onnx.New("ctc", opset)
	w := &writer{c: Config{Epsilon: c.epsilon}, t: t, m: m, g: &m.Graph, tower: c.family + ".", written: map[string]bool{}}
	defer w.halted(&m, &err)
	g, at := w.g, w.tower
	g.Inputs = []onnx.Value{onnx.TensorValue(inputValues, onnx.FLOAT, 1, samplesDim)}
	g.Outputs = []onnx.Value{onnx.TensorValue(logits, onnx.FLOAT, 1, "steps", c.Vocab)}
	x := g.Add("Unsqueeze", []string{inputValues, w.ints("columns", 1)}, "sound")
	in := 1
	for i, out := range c.conv {
		x = c.convolved(w, i, x, in, out)
		in = out
	}
	x = g.Add("Transpose", []string{x}, "features", onnx.IntList("perm", 0, 2, 1))
	if c.projected {
		x = w.norm(at+"feature_projection.layer_norm", x, in)
	}
	x = w.linear(at+"feature_projection.projection", x, in, c.width)
	x = g.Add("Add", []string{x, c.placed(w, x)}, "placed")
	if !c.before {
		x = w.norm(at+"encoder.layer_norm", x, c.width)
	}
	for i := range c.layers {
		x = c.layer(w, fmt.Sprintf("%sencoder.layers.%d.", at, i), x)
	}
	if c.before {
		x = w.norm(at+"encoder.layer_norm", x, c.width)
	}
	g.Add("Identity", []string{w.linear("lm_head", x, c.width, c.Vocab)}, logits)
	return w.m, w.err
}

// convolved writes a convolution of the features.
func (c CTC) convolved(w *writer, i int, x string, in, out int) string {
	g, at := w.g, fmt.Sprintf("%sfeature_extractor.conv_layers.%d.", w.tower, i)
	inputs := []string{x, w.constant(at+"conv.weight", out, in, c.kernel[i])}
	if c.bias {
		inputs = append(inputs, w.constant(at+"conv.bias", out))
	}
	x = g.Add("Conv", inputs, at+"conv", onnx.IntList("kernel_shape", int64(c.kernel[i])), onnx.IntList("strides", int64(c.stride[i])))
	turn := func(x, name string) string {
		return g.Add("Transpose", []string{x}, at+name, onnx.IntList("perm", 0, 2, 1))
	}
	switch {
	case c.each:
		x = turn(w.channels(at+"layer_norm", turn(x, "steps"), out), "channels")
	case i == 0: // each channel over all steps
		x = g.Add("InstanceNormalization", []string{x, w.constant(at+"layer_norm.weight", out), w.constant(at+"layer_norm.bias", out)}, at+"even", onnx.Float("epsilon", 1e-5))
	}
	return w.activated(at+"act", x, c.convAct)
}

// channels writes LayerNorm with the constant of PyTorch.
func (w *writer) channels(name, x string, n int) string {
	return w.g.Add("LayerNormalization", []string{x, w.constant(name+".weight", n), w.constant(name+".bias", n)}, name+".out", onnx.Int("axis", -1), onnx.Float("epsilon", 1e-5))
}

// placed writes the convolution of positions, whose weights have a direction and, for
// each place, a length.
func (c CTC) placed(w *writer, x string) string {
	g, at := w.g, w.tower+"encoder.pos_conv_embed.conv."
	length, way := at+"parametrizations.weight.original0", at+"parametrizations.weight.original1"
	if !w.t.has(way) {
		length, way = at+"weight_g", at+"weight_v"
	}
	weight, lengths := slices.Clone(w.read(way, c.width, c.width/c.groups, c.places)), w.read(length, 1, 1, c.places)
	sums := make([]float64, c.places)
	for i, v := range weight {
		sums[i%c.places] += float64(v) * float64(v)
	}
	for i := range weight {
		if n := math.Sqrt(sums[i%c.places]); n > 0 {
			weight[i] = float32(float64(weight[i]) * float64(lengths[i%c.places]) / n)
		}
	}
	left, right := int64(c.places/2), int64(c.places/2-(1-c.places%2))
	y := g.Add("Transpose", []string{x}, at+"channels", onnx.IntList("perm", 0, 2, 1))
	y = g.Add("Conv", []string{y, w.floats(at+"weight", weight, c.width, c.width/c.groups, c.places), w.constant(at+"bias", c.width)}, at+"out",
		onnx.IntList("kernel_shape", int64(c.places)), onnx.IntList("pads", left, right), onnx.Int("group", int64(c.groups)))
	return g.Add("Transpose", []string{w.activated(at+"act", y, c.convAct)}, at+"steps", onnx.IntList("perm", 0, 2, 1))
}

// layer writes a layer, with the norms before its halves or after them.
func (c CTC) layer(w *writer, at, x string) string {
	norm := func(name, x string) string { return w.norm(at+name, x, c.width) }
	feed := func(x string) string {
		y := w.activated(at+"act", w.linear(at+"feed_forward.intermediate_dense", x, c.width, c.hidden), c.act)
		return w.linear(at+"feed_forward.output_dense", y, c.hidden, c.width)
	}
	add := func(x, y, name string) string { return w.g.Add("Add", []string{x, y}, at+name) }
	if c.before {
		x = add(x, c.attend(w, at+"attention.", norm("layer_norm", x)), "attended")
		return add(x, feed(norm("final_layer_norm", x)), "fed")
	}
	x = norm("layer_norm", add(x, c.attend(w, at+"attention.", x), "attended"))
	return norm("final_layer_norm", add(x, feed(x), "fed"))
}

// attend writes the attention of all steps.
func (c CTC) attend(w *writer, at, x string) string {
	v := Whisper{Width: c.width, heads: c.heads}
	keys, values := v.split(w, w.linear(at+"k_proj", x, c.width, c.width)), v.split(w, w.linear(at+"v_proj", x, c.width, c.width))
	return v.attend(w, at, x, keys, values, "")
}
