package hf

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
)

// family describes an architecture in transformers.
type family struct {
	arch  string
	names names
	shape func(r *shapeReader)
	tied  bool // default of tie_word_embeddings
	plus  bool // gains of norms are stored minus 1
	// further ignores layers after the last, which propose tokens.
	further bool
	// pairs is set if transformers rotates neighbors where the architecture's other
	// classes rotate halves.
	pairs bool
	// base is the default of rope_theta; 0 is that of the architecture.
	base float64
	// local is set if layers with a window rotate by a base of theirs, without scaling.
	local bool
	// part is set if transformers rotates the first dimensions of a head alone, where
	// the architecture's other classes rotate all.
	part bool
}

// families maps the names in config.json's architectures.
func families() map[string]family {
	llama := family{arch: "llama", names: llamaNames(nil), shape: (*shapeReader).llama}
	moe := map[string]string{"ffn_gate_inp": "mlp.gate", "ffn_gate_exps": "mlp.experts.%d.gate_proj", "ffn_up_exps": "mlp.experts.%d.up_proj", "ffn_down_exps": "mlp.experts.%d.down_proj"}
	mixtral := map[string]string{"ffn_gate_inp": "block_sparse_moe.gate", "ffn_gate_exps": "block_sparse_moe.experts.%d.w1", "ffn_up_exps": "block_sparse_moe.experts.%d.w3", "ffn_down_exps": "block_sparse_moe.experts.%d.w2"}
	glm := map[string]string{"post_attention_norm": "post_self_attn_layernorm", "post_ffw_norm": "post_mlp_layernorm", "ffn_up": "mlp.gate_up_proj"}
	phi := map[string]string{arch.OutputNorm: "model.final_layernorm", arch.OutputBias: "lm_head.bias", "attn_output": "self_attn.dense", "ffn_up": "mlp.fc1", "ffn_down": "mlp.fc2"}
	seed := llamaNames(map[string]string{"post_attention_norm": "post_attention_layernorm"})
	delete(seed.of, "ffn_norm")
	post := map[string]string{"post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm", "ffn_norm": "pre_feedforward_layernorm"}
	return map[string]family{
		"LlamaForCausalLM":            llama,
		"MistralForCausalLM":          {arch: "llama", names: llama.names, shape: (*shapeReader).mistral},
		"MixtralForCausalLM":          {arch: "llama", names: llamaNames(mixtral), shape: (*shapeReader).mixtral},
		"Qwen2ForCausalLM":            {arch: "qwen2", names: llama.names, shape: (*shapeReader).qwen},
		"Qwen3ForCausalLM":            {arch: "qwen3", names: llama.names, shape: (*shapeReader).qwen},
		"Qwen3MoeForCausalLM":         {arch: "qwen3moe", names: llamaNames(moe), shape: (*shapeReader).qwen3moe},
		"Qwen2VLTextModel":            {arch: "qwen2vl", names: llama.names, shape: (*shapeReader).qwen},
		"Qwen3VLTextModel":            {arch: "qwen3vl", names: llama.names, shape: (*shapeReader).qwen3vl},
		"Qwen3VLMoeTextModel":         {arch: "qwen3vlmoe", names: llamaNames(moe), shape: (*shapeReader).qwen3vlmoe},
		"GemmaForCausalLM":            {arch: "gemma", names: llama.names, shape: (*shapeReader).gemma, tied: true, plus: true},
		"Gemma2ForCausalLM":           {arch: "gemma2", names: llamaNames(post), shape: (*shapeReader).gemma2, tied: true, plus: true},
		"Gemma3ForCausalLM":           {arch: "gemma3", names: llamaNames(post), shape: (*shapeReader).gemma3, tied: true, plus: true, local: true},
		"Gemma3nForCausalLM":          {arch: "gemma3n", names: gemma3nNames(post), shape: (*shapeReader).gemma3n, tied: true, local: true},
		"Gemma4ForCausalLM":           {arch: "gemma4", names: gemma4Names(post), shape: (*shapeReader).gemma4, tied: true, local: true},
		"Phi3ForCausalLM":             {arch: "phi3", names: llamaNames(map[string]string{"ffn_up": "mlp.gate_up_proj"}), shape: (*shapeReader).phi3},
		"SmolLM3ForCausalLM":          {arch: "smollm3", names: llama.names, shape: (*shapeReader).smollm3, tied: true},
		"Olmo2ForCausalLM":            {arch: "olmo2", names: llamaNames(post), shape: (*shapeReader).olmo2},
		"GraniteForCausalLM":          {arch: "granite", names: llama.names, shape: (*shapeReader).granite},
		"StableLmForCausalLM":         {arch: "stablelm", names: llamaNames(map[string]string{"attn_q_norm": "self_attn.q_layernorm.norms.%d", "attn_k_norm": "self_attn.k_layernorm.norms.%d"}), shape: (*shapeReader).stablelm},
		"Qwen2MoeForCausalLM":         {arch: "qwen2moe", names: llamaNames(sharedNames(moe)), shape: (*shapeReader).qwen2moe},
		"Qwen3NextForCausalLM":        {arch: "qwen3next", names: qwen3NextNames(moe), shape: (*shapeReader).qwen3next, plus: true, further: true},
		"Qwen3_5ForCausalLM":          {arch: "qwen35", names: qwen35Names(nil), shape: (*shapeReader).qwen35, plus: true, further: true},
		"Qwen3_5MoeForCausalLM":       {arch: "qwen35moe", names: qwen35Names(sharedNames(moe)), shape: (*shapeReader).qwen35moe, plus: true, further: true},
		"OlmoeForCausalLM":            {arch: "olmoe", names: llamaNames(moe), shape: (*shapeReader).olmoe},
		"GraniteMoeForCausalLM":       {arch: "granitemoe", names: graniteNames(), shape: (*shapeReader).granitemoe},
		"GptOssForCausalLM":           {arch: "gpt-oss", names: gptOssNames(), shape: (*shapeReader).gptoss},
		"Glm4ForCausalLM":             {arch: "glm4", names: llamaNames(glm), shape: (*shapeReader).glm4},
		"Ministral3ForCausalLM":       {arch: "mistral3", names: llama.names, shape: (*shapeReader).ministral3},
		"PhiForCausalLM":              {arch: "phi2", names: llamaNames(phi), shape: (*shapeReader).phi},
		"FalconForCausalLM":           {arch: "falcon", names: falconNames(), shape: (*shapeReader).falcon, tied: true},
		"CohereForCausalLM":           {arch: "command-r", names: llama.names, shape: (*shapeReader).cohere, tied: true},
		"Cohere2ForCausalLM":          {arch: "cohere2", names: llama.names, shape: (*shapeReader).cohere2, tied: true},
		"Starcoder2ForCausalLM":       {arch: "starcoder2", names: llamaNames(map[string]string{"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}), shape: (*shapeReader).starcoder2, tied: true},
		"Exaone4ForCausalLM":          {arch: "exaone4", names: llamaNames(post), shape: (*shapeReader).exaone4},
		"Ernie4_5ForCausalLM":         {arch: "ernie4_5", names: llama.names, shape: (*shapeReader).ernie, tied: true},
		"DeepseekV2ForCausalLM":       {arch: "deepseek2", names: deepseekNames(moe), shape: (*shapeReader).deepseek2},
		"DeepseekV3ForCausalLM":       {arch: "deepseek2", names: deepseekNames(moe), shape: (*shapeReader).deepseek3, further: true},
		"Lfm2ForCausalLM":             {arch: "lfm2", names: lfm2Names(), shape: (*shapeReader).lfm2, tied: true},
		"Lfm2MoeForCausalLM":          {arch: "lfm2moe", names: lfm2MoeNames(), shape: (*shapeReader).lfm2moe, tied: true},
		"Mamba2ForCausalLM":           {arch: "mamba2", names: mamba2Names(), shape: (*shapeReader).mamba2},
		"GraniteMoeHybridForCausalLM": {arch: "granitehybrid", names: graniteHybridNames(), shape: (*shapeReader).granitehybrid},
		"SeedOssForCausalLM":          {arch: "seed_oss", names: seed, shape: (*shapeReader).seedOss},
		"Olmo3ForCausalLM":            {arch: "olmo2", names: llamaNames(post), shape: (*shapeReader).olmo3, base: 5e5, local: true},
		"MinistralForCausalLM":        {arch: "llama", names: llama.names, shape: (*shapeReader).mistral},
		"CwmForCausalLM":              {arch: "llama", names: llama.names, shape: (*shapeReader).mistral},
		"HeliumForCausalLM":           {arch: "llama", names: llama.names, shape: (*shapeReader).llama, pairs: true},
		"ArceeForCausalLM":            {arch: "arcee", names: llama.names, shape: (*shapeReader).arcee},
		"NemotronForCausalLM":         {arch: "nemotron", names: llama.names, shape: (*shapeReader).nemotron, plus: true},
		"GlmForCausalLM":              {arch: "chatglm", names: llamaNames(map[string]string{"ffn_up": "mlp.gate_up_proj"}), shape: (*shapeReader).llama},
		"GPTBigCodeForCausalLM":       {arch: "starcoder", names: bigCodeNames(), shape: (*shapeReader).bigCode, tied: true},
		"HunYuanDenseV1ForCausalLM":   {arch: "hunyuan-dense", names: hunyuanNames(moe), shape: (*shapeReader).hunyuan},
		"HunYuanMoEV1ForCausalLM":     {arch: "hunyuan-moe", names: hunyuanNames(moe), shape: (*shapeReader).hunyuanMoe},
		"Glm4MoeForCausalLM":          {arch: "glm4moe", names: glm4MoeNames(moe), shape: (*shapeReader).glm4moe, further: true},
		"Dots1ForCausalLM":            {arch: "dots1", names: deepseekNames(moe), shape: (*shapeReader).dots1},
		"Ernie4_5_MoeForCausalLM":     {arch: "ernie4_5-moe", names: ernieMoeNames(moe), shape: (*shapeReader).ernieMoe, tied: true, further: true},
		"MiniMaxM2ForCausalLM":        {arch: "minimax-m2", names: minimaxNames(mixtral), shape: (*shapeReader).minimax, further: true},
		"GraniteMoeSharedForCausalLM": {arch: "granitemoe", names: graniteSharedNames(), shape: (*shapeReader).graniteShared},
		"Glm4MoeLiteForCausalLM":      {arch: "deepseek2", names: deepseekNames(moe), shape: (*shapeReader).glm4MoeLite, further: true},
		"FlexOlmoForCausalLM":         {arch: "flexolmo", names: flexOlmoNames(moe, post), shape: (*shapeReader).flexOlmo, base: 5e5},
		"BambaForCausalLM":            {arch: "granitehybrid", names: bambaNames(), shape: (*shapeReader).bamba, part: true},
		"NemotronHForCausalLM":        {arch: "nemotron_h", names: nemotronHNames(), shape: (*shapeReader).nemotronH, further: true},
		"ApertusForCausalLM":          {arch: "apertus", names: llamaNames(map[string]string{"attn_norm": "attention_layernorm", "ffn_norm": "feedforward_layernorm"}), shape: (*shapeReader).apertus, base: 12e6},
		"SolarOpenForCausalLM":        {arch: "glm4moe", names: glm4MoeNames(moe), shape: (*shapeReader).solarOpen, further: true},
		"DeepseekForCausalLM":         {arch: "deepseek", names: deepseekNames(moe), shape: (*shapeReader).deepseek1},
		"GPT2LMHeadModel":             {arch: "gpt2", names: gpt2Names(), shape: (*shapeReader).gpt2, tied: true},
		"OPTForCausalLM":              {arch: "opt", names: optNames(), shape: (*shapeReader).opt, tied: true},
		"GPTNeoForCausalLM":           {arch: "gptneo", names: gptNeoNames(), shape: (*shapeReader).gptNeo, tied: true},
		"GPTJForCausalLM":             {arch: "gptj", names: gptjNames(), shape: (*shapeReader).gptj},
		"CodeGenForCausalLM":          {arch: "gptj", names: codegenNames(), shape: (*shapeReader).gptj},
		"BloomForCausalLM":            {arch: "bloom", names: bloomNames(), shape: (*shapeReader).bloom, tied: true},
		"MptForCausalLM":              {arch: "mpt", names: mptNames(), shape: (*shapeReader).mpt, tied: true},
		"GPTNeoXForCausalLM":          {arch: "gptneox", names: neoxNames(), shape: (*shapeReader).gptneox},
	}
}

// Architectures lists the supported classes of transformers.
func Architectures() []string {
	var out []string
	for name := range families() {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// family returns the class of the model.
func (c *config) family() (family, error) {
	var classes []string
	c.get("architectures", &classes)
	if len(classes) != 1 {
		return family{}, fmt.Errorf("bad architectures %q, want one of %s", classes, strings.Join(Architectures(), ", "))
	}
	f, ok := families()[classes[0]]
	switch {
	case !ok:
		return f, fmt.Errorf("unsupported architecture %q, want one of %s", classes[0], strings.Join(Architectures(), ", "))
	case c.has("quantization_config") && !(f.arch == "gpt-oss" && c.mxfp4()):
		return f, errors.New("key quantization_config: unsupported quantized weights; use the folder of the unquantized model")
	}
	return f, c.assume(classes[0])
}

// mxfp4 reports whether the experts are blocks of 4 bits.
func (c *config) mxfp4() bool {
	o := c.object("quantization_config")
	return o != nil && o.text("quant_method", "") == "mxfp4"
}

// shapeReader reads a shape from a config.
type shapeReader struct {
	*config
	weights *weights
	family  family
	s       arch.Shape
	style   arch.Style
	extra   []extra // tensors stored in config.json
	ignore  []string
}

func (r *shapeReader) read(ignore []string) (arch.Shape, error) {
	r.ignore = ignore
	r.s.Arch = r.family.arch
	r.style = r.s.Style()
	r.family.shape(r)
	r.tie()
	r.must("use_bidirectional_attention", false)
	r.must("add_cross_attention", false)
	r.must("is_encoder_decoder", false)
	r.must("is_causal", true)
	r.has("tokenizer_class") // of the tokenizer
	r.fullAttention()
	r.rest("", ignore)
	if err := r.err(); err != nil {
		return r.s, err
	}
	return r.s, r.s.Check()
}

// tie decides whether the output is the embedding, as transformers 5 does: two
// different matrices are not tied, and either one suffices if they are.
func (r *shapeReader) tie() {
	names := r.family.names.of
	output, exists := r.weights.find(names[arch.Output])
	embedding, embeds := r.weights.find(names[arch.TokenEmbedding])
	tied := r.flag("tie_word_embeddings", r.family.tied)
	switch {
	case !tied && !exists:
		r.fail("key tie_word_embeddings is false, but tensor %s is missing", names[arch.Output])
	case !tied:
	case exists && !embeds:
		r.note("%s is missing: %s is used, because tie_word_embeddings is true", names[arch.TokenEmbedding], output.Name)
		r.weights.move(output, names[arch.TokenEmbedding])
	case exists && same(output, embedding):
		r.weights.dropped = output.Name
		r.weights.move(output, "")
	case exists:
		r.note("tie_word_embeddings is true, but %s differs from %s: both are used", output.Name, embedding.Name)
	}
	if tied { // an index may list a matrix that was not saved
		for _, part := range []string{arch.Output, arch.TokenEmbedding} {
			delete(r.weights.lost, names[part])
			delete(r.weights.lost, strings.TrimPrefix(names[part], r.family.names.base))
		}
	}
}

// sizes reads the keys that most architectures share.
func (r *shapeReader) sizes() {
	s := &r.s
	s.Context = r.count("max_position_embeddings")
	s.Layers = r.layers("num_hidden_layers")
	s.Width = r.count("hidden_size")
	s.Heads = r.count("num_attention_heads")
	s.KVHeads = r.countOr("num_key_value_heads", s.Heads)
	if s.Hidden = r.same("intermediate_size", 0); !r.has("intermediate_size") {
		r.count("intermediate_size")
	}
	s.Vocab = r.count("vocab_size")
	if s.Heads > 0 {
		s.HeadDim = r.countOr("head_dim", s.Width/s.Heads)
	}
	if r.style.LayerNorm {
		s.Epsilon = float32(r.float("layer_norm_eps", 1e-5))
	} else {
		s.Epsilon = float32(r.float("rms_norm_eps", 1e-6))
	}
}

// layers reads the number of layers, which sizes lists.
func (r *shapeReader) layers(key string) int {
	n := r.count(key)
	if n > gguf.MaxBlocks {
		r.fail("bad number of layers: got %d, want 1 to %d", n, gguf.MaxBlocks)
		return 0
	}
	return n
}

// act reads the activation from the first present key.
func (r *shapeReader) act(absent string, keys ...string) {
	name, found := absent, false
	for _, k := range keys {
		if v := r.text(k, ""); v != "" && !found {
			name, found = v, true
		}
	}
	r.s.Activation = arch.Activation(name)
	if r.s.Act() == r.style.Activation {
		r.s.Activation = "" // the style's default
	}
}

// bias checks a key against the presence of its tensor.
func (r *shapeReader) bias(key string, part string) {
	if !r.has(key) {
		return
	}
	name := fmt.Sprintf(r.family.names.layer, 0) + r.family.names.of[part] + ".bias"
	if _, there := r.weights.find(name); there != r.flag(key, false) {
		r.fail("key %s is %v, but presence of tensor %s is %v", key, r.flag(key, false), name, there)
	}
}

// llama reads LlamaForCausalLM and similar classes.
func (r *shapeReader) llama() {
	r.sizes()
	r.act("silu", "hidden_act")
	r.bias("attention_bias", "attn_q")
	r.bias("mlp_bias", "ffn_up")
	r.rope()
	r.must("rope_interleaved", false)
}

func (r *shapeReader) mistral() {
	r.llama()
	r.window(func(int) bool { return true })
}

func (r *shapeReader) mixtral() {
	r.mistral()
	r.s.Experts, r.s.ExpertsUsed = r.count("num_local_experts"), r.countOr("num_experts_per_tok", 2)
	r.s.ExpertHidden = r.s.Hidden
}

func (r *shapeReader) qwen() {
	r.llama()
	r.noWindow()
}

// noWindow reads a window that must be disabled.
func (r *shapeReader) noWindow() {
	if r.flag("use_sliding_window", false) {
		r.fail("key use_sliding_window: architecture %s does not support a sliding window", r.s.Arch)
	}
	r.has("sliding_window")
}

// fullAttention reads the types of layers of an architecture without windows.
func (r *shapeReader) fullAttention() {
	if r.heeded["layer_types"] {
		return
	}
	var types []string
	if r.get("layer_types", &types); slices.ContainsFunc(types, func(t string) bool { return t != "full_attention" }) {
		r.fail("key layer_types: got %s, want full_attention for architecture %s", brief(r.raw["layer_types"]), r.s.Arch)
	} else if len(types) > 0 && len(types) != r.s.Layers {
		r.fail("key layer_types: got %d entries, want %d", len(types), r.s.Layers)
	}
}

func (r *shapeReader) qwen3vl() {
	r.qwen()
	var deep []int
	r.get(deepLayers, &deep)
	r.s.Deep = len(deep)
}

// qwen3vlmoe reads the half of Qwen3-VL with experts, whose matrices are stored
// together and may be transposed.
func (r *shapeReader) qwen3vlmoe() {
	r.qwen3vl()
	s := &r.s
	s.Experts, s.ExpertsUsed = r.countOr("num_local_experts", r.countOr("num_experts", 60)), r.count("num_experts_per_tok")
	if n := r.countOr("num_experts", s.Experts); n != s.Experts {
		r.fail("key num_experts: got %d, but num_local_experts is %d", n, s.Experts)
	}
	s.ExpertHidden = r.count("moe_intermediate_size")
	r.has("norm_topk_prob") // transformers always normalizes
	r.must("decoder_sparse_step", 1)
	r.must("mlp_only_layers", []int{})
	n := &r.family.names
	n.together()
	n.columns = map[string]bool{}
	for part, shape := range map[string][]int{"ffn_gate_exps": {s.Experts, 2 * s.ExpertHidden, s.Width}, "ffn_down_exps": {s.Experts, s.Width, s.ExpertHidden}} {
		t, ok := r.weights.find(fmt.Sprintf(n.layer, 0) + n.of[part+".weight"])
		n.columns[part+".weight"] = ok && !slices.Equal(t.Shape, shape)
	}
	n.columns["ffn_up_exps.weight"] = n.columns["ffn_gate_exps.weight"]
}

func (r *shapeReader) qwen3moe() {
	r.qwen()
	key := "num_experts"
	if !r.has(key) {
		key = "num_local_experts"
	}
	r.s.Experts, r.s.ExpertsUsed = r.count(key), r.countOr("num_experts_per_tok", 8)
	r.s.ExpertHidden = r.count("moe_intermediate_size")
	r.s.ExpertSum = !r.flag("norm_topk_prob", false)
	r.must("decoder_sparse_step", 1)
	r.must("mlp_only_layers", []int{})
}

func (r *shapeReader) gemma() {
	r.sizes()
	if r.style.HeadNorm == arch.NoHeadNorm && !r.style.PostNorm {
		// The first Gemma's hidden_act is wrong and ignored.
		r.has("hidden_act")
		r.act("gelu_pytorch_tanh", "hidden_activation")
	} else {
		r.act("gelu_pytorch_tanh", "hidden_activation", "hidden_act")
	}
	r.bias("attention_bias", "attn_q")
	r.rope()
}

// pre reads the scale of queries and keys.
func (r *shapeReader) pre() {
	v := r.float("query_pre_attn_scalar", 256)
	if !(v > 0) {
		r.fail("key query_pre_attn_scalar: bad value %v", v)
	} else if int(v) != r.s.HeadDim || v != math.Trunc(v) {
		r.s.AttentionScale = float32(1 / math.Sqrt(v))
	}
}

// positive reads an optional factor, 0 if it is absent. A factor of 0 has no effect in
// files of GGUF and another one in transformers.
func (r *shapeReader) positive(key string) float32 {
	v := r.float(key, 0)
	if r.has(key) && !(v > 0) {
		r.fail("key %s: got %v, want a positive number", key, v)
	}
	return float32(v)
}

func (r *shapeReader) gemma2() {
	r.gemma()
	r.pre()
	r.s.AttentionCap = r.positive("attn_logit_softcapping")
	r.s.LogitCap = r.positive("final_logit_softcapping")
	r.window(func(i int) bool { return i%2 == 0 })
}

func (r *shapeReader) gemma3() {
	r.gemma2()
	if r.s.AttentionCap != 0 {
		r.fail("key attn_logit_softcapping: got %v, but Gemma 3 has none", r.s.AttentionCap)
	}
	every := r.countOr("_sliding_window_pattern", r.countOr("sliding_window_pattern", 6))
	if !r.has("layer_types") {
		r.window(func(i int) bool { return every > 0 && (i+1)%every != 0 })
	}
	if r.s.Window == 0 {
		r.fail("missing key sliding_window")
	}
}

func (r *shapeReader) phi3() {
	r.sizes()
	r.act("silu", "hidden_act")
	r.rope()
	r.window(func(int) bool { return true })
}

func (r *shapeReader) smollm3() {
	r.llama()
	r.noWindow()
	every := r.countOr("no_rope_layer_interval", 4)
	var rotated []int
	if !r.get("no_rope_layers", &rotated) {
		for i := range r.s.Layers {
			rotated = append(rotated, 0)
			if every == 0 || (i+1)%every != 0 {
				rotated[i] = 1
			}
		}
	}
	if len(rotated) != r.s.Layers {
		r.fail("key no_rope_layers: got %d entries, want %d", len(rotated), r.s.Layers)
	}
	for _, v := range rotated {
		r.s.Unrotated = append(r.s.Unrotated, v == 0)
	}
}

func (r *shapeReader) olmo2() {
	r.llama()
	r.must("clip_qkv", nil)
}

func (r *shapeReader) granite() {
	r.llama()
	factor := func(key string) float32 {
		if v := r.positive(key); v != 1 {
			return v
		}
		return 0
	}
	if r.s.AttentionScale = r.positive("attention_multiplier"); r.s.AttentionScale == 0 {
		r.s.AttentionScale = 1
	}
	r.s.EmbeddingScale, r.s.ResidualScale = factor("embedding_multiplier"), factor("residual_multiplier")
	r.s.LogitDivisor = factor("logits_scaling")
}

func (r *shapeReader) stablelm() {
	r.sizes()
	r.act("silu", "hidden_act")
	r.rope()
	r.bias("use_qkv_bias", "attn_q")
	r.s.Parallel = r.flag("use_parallel_residual", false)
	name := fmt.Sprintf(r.family.names.layer, 0) + fmt.Sprintf(r.family.names.of["attn_q_norm"], 0) + ".weight"
	if _, there := r.weights.find(name); there != r.flag("qk_layernorm", false) {
		r.fail("key qk_layernorm is %v, but presence of tensor %s is %v", !there, name, there)
	}
}

func (r *shapeReader) gptneox() {
	r.sizes()
	r.act("gelu", "hidden_act")
	r.rope()
	r.bias("attention_bias", "attn_output")
	r.s.Parallel = r.flag("use_parallel_residual", true)
	r.must("rotary_ndims", nil)
}

func (r *shapeReader) gpt2() {
	s := &r.s
	s.Context, s.Layers, s.Width, s.Heads = r.count("n_positions"), r.layers("n_layer"), r.count("n_embd"), r.count("n_head")
	s.KVHeads, s.Vocab = s.Heads, r.count("vocab_size")
	s.Hidden = r.countOr("n_inner", 4*s.Width)
	s.Epsilon = float32(r.float("layer_norm_epsilon", 1e-5))
	if s.Heads > 0 {
		s.HeadDim = s.Width / s.Heads
	}
	r.act("gelu_new", "activation_function")
	r.must("scale_attn_weights", true)
	r.must("scale_attn_by_inverse_layer_idx", false)
}

// window reads the sliding window; without a list, has reports which layers are
// windowed.
func (r *shapeReader) window(has func(i int) bool) { r.windowOf(has, false) }

// windowOf reads the sliding window. Unless keep is set, one that covers the
// context is ignored.
func (r *shapeReader) windowOf(has func(i int) bool, keep bool) {
	n := r.countOr("sliding_window", 0)
	if n == 0 && r.has("sliding_window") && r.flag("use_sliding_window", true) {
		r.fail("key sliding_window: got 0, want null or a number")
	}
	if !r.flag("use_sliding_window", true) {
		n = 0
	}
	var types []string
	if r.get("layer_types", &types) {
		if len(types) != r.s.Layers {
			r.fail("key layer_types: got %d entries, want %d", len(types), r.s.Layers)
			return
		}
		for _, t := range types {
			if t != "full_attention" && t != "sliding_attention" {
				r.fail("key layer_types: unsupported %q, want full_attention or sliding_attention", t)
			}
		}
		has = func(i int) bool { return types[i] == "sliding_attention" }
	}
	r.s.Window, r.s.Windowed = 0, nil
	if n == 0 || n >= r.s.Context && r.s.Local == nil && !keep {
		return
	}
	r.s.Window = n
	for i := range r.s.Layers {
		r.s.Windowed = append(r.s.Windowed, has(i))
	}
}
