package tower

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tensor"
)

// MMProj is an mmproj file of llama.cpp: a tower and a projector in GGUF, with the
// values that transformers has in config.json and preprocessor_config.json.
//
// llama.cpp's own preprocessing differs from the models' for most families: it adds
// borders to pictures that the model stretches, and chooses other tiles. The
// processor here is the model's. A missing key has the value of the
// published models of its family.
type MMProj struct {
	Config    []byte // as config.json
	Processor []byte // as preprocessor_config.json
	Weights   Weights
}

// IsMMProj reports whether a GGUF file is a tower and a projector.
func IsMMProj(f *gguf.File) bool {
	a, err := gguf.GetOr(f, "general.architecture", "")
	return err == nil && a == "clip"
}

// object is a JSON object.
type object = map[string]any

// merger is a kind of projector in an mmproj file.
type merger struct {
	family string
	// names maps the tensors of the projector to those of transformers.
	names map[string]string
	last  string // matrix whose rows are the width of the language model
	read  func(r *projReader)
}

func mergers() map[string]merger {
	two := func(a, b, from, to string) map[string]string { return map[string]string{a: from, b: to} }
	return map[string]merger{
		"mlp":      {"llava", two("mm.0", "mm.2", "multi_modal_projector.linear_1", "multi_modal_projector.linear_2"), "mm.2.weight", (*projReader).llava},
		"gemma3":   {"gemma3", two("mm.input_projection", "mm.soft_emb_norm", "multi_modal_projector.mm_input_projection", "multi_modal_projector.mm_soft_emb_norm"), "", (*projReader).gemma3},
		"idefics3": {"idefics3", map[string]string{"mm.model.fc": "connector.modality_projection.proj"}, "mm.model.fc.weight", (*projReader).idefics3},
		"pixtral": {"llava", map[string]string{
			"mm.1": "multi_modal_projector.linear_1", "mm.2": "multi_modal_projector.linear_2", "mm.input_norm": "multi_modal_projector.norm",
			"mm.patch_merger": "multi_modal_projector.patch_merger.merging_layer",
		}, "mm.2.weight", (*projReader).pixtral},
		"qwen2vl_merger":   {"qwen2_vl", two("mm.0", "mm.2", "visual.merger.mlp.0", "visual.merger.mlp.2"), "mm.2.weight", (*projReader).qwen2},
		"qwen2.5vl_merger": {"qwen2_5_vl", two("mm.0", "mm.2", "visual.merger.mlp.0", "visual.merger.mlp.2"), "mm.2.weight", (*projReader).qwen25},
		"qwen3vl_merger":   {"qwen3_vl", two("mm.0", "mm.2", "visual.merger.linear_fc1", "visual.merger.linear_fc2"), "mm.2.weight", (*projReader).qwen3},
		"internvl": {"internvl", map[string]string{
			"mm.model.mlp.0": "multi_modal_projector.layer_norm", "mm.model.mlp.1": "multi_modal_projector.linear_1", "mm.model.mlp.3": "multi_modal_projector.linear_2",
		}, "mm.model.mlp.3.weight", (*projReader).internvl},
	}
}

// Mergers lists the supported values of clip.projector_type.
func Mergers() []string {
	var out []string
	for name := range mergers() {
		out = append(out, name)
	}
	for name := range soundMergers() {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// projReader reads an mmproj file.
type projReader struct {
	f                         *gguf.File
	half                      half
	config, vision, processor object // vision: of the encoder
	errs                      []error
}

// ReadMMProj reads an mmproj file. The weights are valid until f is closed.
func ReadMMProj(f *gguf.File) (*MMProj, error) {
	if !IsMMProj(f) {
		return nil, errors.New("not an mmproj file: general.architecture is not clip")
	}
	audio, err := gguf.GetOr(f, "clip.has_audio_encoder", false)
	if err != nil {
		return nil, err
	}
	vision, err := gguf.GetOr(f, "clip.has_vision_encoder", !audio)
	if err != nil || audio && vision {
		return nil, errors.Join(err, errors.New("unsupported mmproj file: it has encoders of pictures and of sounds"))
	}
	kind, err := gguf.GetOr(f, "clip.projector_type", "mlp")
	if err != nil {
		return nil, err
	}
	m, ok := mergers()[kind]
	part := visionHalf()
	if audio {
		m, ok = soundMergers()[kind]
		part = audioHalf()
	}
	if !ok {
		return nil, fmt.Errorf("unsupported clip.projector_type %.40q, want one of %s", kind, strings.Join(Mergers(), ", "))
	}
	r := &projReader{f: f, half: part, vision: object{}, processor: object{}}
	r.config = object{"model_type": m.family, part.config: r.vision, "text_config": object{"hidden_size": r.into(m)}}
	for key, name := range map[string]string{
		"hidden_size": "embedding_length", "intermediate_size": "feed_forward_length", "num_attention_heads": "attention.head_count", "num_hidden_layers": "block_count",
		"image_size": "image_size", "patch_size": "patch_size",
	} {
		r.vision[key] = r.count(part.key+name, 0)
	}
	if eps, err := gguf.GetOr(f, "clip.vision.attention.layer_norm_epsilon", float32(1e-6)); err == nil {
		r.vision["layer_norm_eps"] = eps
	}
	for key, name := range map[string]string{"image_mean": "clip.vision.image_mean", "image_std": "clip.vision.image_std"} {
		if v, err := gguf.GetOr[[]float32](f, name, nil); err != nil {
			r.errs = append(r.errs, err)
		} else if v != nil {
			r.processor[key] = v
		}
	}
	m.read(r)
	out := &MMProj{}
	config, first := json.Marshal(r.config)
	processor, second := json.Marshal(r.processor)
	if err := errors.Join(append(r.errs, first, second)...); err != nil {
		return nil, err
	}
	out.Config, out.Processor = config, processor
	c, err := ReadConfig(config)
	if err != nil {
		return nil, err
	}
	out.Weights, err = r.weights(c, m)
	return out, err
}

// count reads a number.
func (r *projReader) count(key string, absent uint32) int {
	v, err := gguf.GetOr(r.f, key, absent)
	if err != nil {
		r.errs = append(r.errs, err)
	}
	return int(v)
}

func (r *projReader) is(key string) bool {
	v, err := gguf.GetOr(r.f, key, false)
	if err != nil {
		r.errs = append(r.errs, err)
	}
	return v
}

// into returns the width of the language model.
func (r *projReader) into(m merger) int {
	if m.last == "" {
		t, _ := r.f.Tensor("mm.input_projection.weight")
		return append(t.Dims, 0)[0]
	}
	t, ok := r.f.Tensor(m.last)
	if !ok || len(t.Dims) < 2 {
		r.errs = append(r.errs, fmt.Errorf("missing tensor %s", m.last))
		return 0
	}
	return t.Dims[1]
}

func (r *projReader) llava() {
	side := r.vision["image_size"]
	if _, ok := r.f.Tensor("v.image_newline"); ok {
		r.errs = append(r.errs, errors.New("unsupported tensor v.image_newline: a model of the LLaVA-NeXT family"))
	}
	if v, err := gguf.GetOr[[]int32](r.f, "clip.vision.feature_layer", nil); err != nil || v != nil {
		r.errs = append(r.errs, errors.Join(err, fmt.Errorf("unsupported key clip.vision.feature_layer: %v", v)))
	}
	if _, ok := r.f.Tensor("v.class_embd"); !ok {
		r.vision["model_type"], r.config["vision_feature_select_strategy"] = "siglip_vision_model", "full"
		r.processor["size"] = object{"height": side, "width": side}
		return
	}
	r.vision["model_type"] = "clip_vision_model"
	if r.is("clip.use_gelu") {
		r.vision["hidden_act"] = "gelu"
	}
	r.processor["size"], r.processor["crop_size"] = object{"shortest_edge": side}, object{"height": side, "width": side}
}

func (r *projReader) gemma3() {
	side := r.vision["image_size"]
	r.processor["size"] = object{"height": side, "width": side}
	n := r.vision["image_size"].(int) / max(r.vision["patch_size"].(int), 1) / max(r.count("clip.vision.projector.scale_factor", 4), 1)
	r.config["mm_tokens_per_image"] = n * n
}

func (r *projReader) idefics3() {
	r.config["scale_factor"] = r.count("clip.vision.projector.scale_factor", 4)
	side := r.vision["image_size"].(int)
	r.processor["max_image_size"] = object{"longest_edge": side}
	r.processor["size"] = object{"longest_edge": r.count("clip.vision.preproc_image_size", uint32(4*max(side, 0)))}
}

func (r *projReader) internvl() {
	r.config["downsample_ratio"] = 1 / float64(max(r.count("clip.vision.projector.scale_factor", 2), 1))
	side := r.vision["image_size"]
	r.processor["size"] = object{"height": side, "width": side}
	r.processor["crop_to_patches"], r.processor["max_patches"] = true, r.count("clip.vision.preproc_max_tiles", 12)
	if n := r.count("clip.vision.preproc_min_tiles", 1); n != 1 {
		r.errs = append(r.errs, fmt.Errorf("unsupported clip.vision.preproc_min_tiles %d, want 1", n))
	}
	if r.is("clip.use_silu") {
		r.vision["hidden_act"] = "silu"
	}
	if _, ok := r.f.Tensor("v.blk.0.ln1.bias"); !ok {
		r.vision["norm_type"] = "rms_norm"
	}
}

func (r *projReader) pixtral() {
	r.vision["model_type"], r.config["vision_feature_layer"], r.config["vision_feature_select_strategy"] = "pixtral", -1, "full"
	if r.is("clip.use_silu") {
		r.vision["hidden_act"] = "silu"
	}
	if n := r.count("clip.vision.spatial_merge_size", 1); n != 1 {
		r.config["model_type"], r.config["spatial_merge_size"] = "mistral3", n
		r.config["text_config"].(object)["rms_norm_eps"] = 1e-5
	}
	r.processor["size"] = object{"longest_edge": r.vision["image_size"]}
}

// qwen sets what Qwen's towers have in common; sizes are the published ones.
func (r *projReader) qwen(least, most uint32) {
	v := r.vision
	v["depth"], v["num_heads"], v["out_hidden_size"], v["spatial_merge_size"] = v["num_hidden_layers"], v["num_attention_heads"], r.config["text_config"].(object)["hidden_size"], r.count("clip.vision.spatial_merge_size", 2)
	r.processor["merge_size"] = v["spatial_merge_size"]
	r.processor["min_pixels"], r.processor["max_pixels"] = r.count("clip.vision.image_min_pixels", least), r.count("clip.vision.image_max_pixels", most)
}

func (r *projReader) qwen2() {
	r.qwen(3136, 12845056)
	v := r.vision
	v["embed_dim"], v["hidden_size"] = v["hidden_size"], v["out_hidden_size"]
	v["mlp_ratio"] = float64(v["intermediate_size"].(int)) / float64(max(v["embed_dim"].(int), 1))
	t, _ := r.f.Tensor("v.blk.0.ffn_up.weight") // the key may be another
	if len(t.Dims) == 2 {
		v["mlp_ratio"] = float64(t.Dims[1]) / float64(max(v["embed_dim"].(int), 1))
	}
}

func (r *projReader) qwen25() {
	r.qwen(3136, 12845056)
	r.vision["window_size"] = r.count("clip.vision.window_size", 112)
	every := r.count("clip.vision.n_wa_pattern", 0)
	full := []int{}
	for i := range min(r.vision["depth"].(int), maxLayers) {
		if every > 0 && (i+1)%every == 0 {
			full = append(full, i)
		}
	}
	if every == 0 {
		r.errs = append(r.errs, errors.New("missing key clip.vision.n_wa_pattern"))
	}
	r.vision["fullatt_block_indexes"] = full
}

func (r *projReader) qwen3() {
	r.qwen(65536, 16777216)
	side := r.vision["image_size"].(int) / max(r.vision["patch_size"].(int), 1)
	r.vision["num_position_embeddings"] = side * side
	layers, err := gguf.GetOr[[]bool](r.f, "clip.vision.is_deepstack_layers", nil)
	if err != nil {
		r.errs = append(r.errs, err)
	}
	deep := []int{}
	for i, is := range layers {
		if is {
			deep = append(deep, i)
		}
	}
	r.vision["deepstack_visual_indexes"] = deep
}

// weights renames the tensors.
func (r *projReader) weights(c Config, m merger) (Weights, error) {
	out := Weights{}
	swapped := r.swapped(c)
	for _, t := range r.f.Tensors {
		name := r.renamed(c, m, t.Name, swapped)
		if name == "" {
			continue
		}
		dims := slices.Clone(t.Dims)
		slices.Reverse(dims)
		if convolved(t.Name) && len(dims) == 2 && dims[1] == 1 {
			dims = dims[:1]
		}
		if out.has(name) {
			return nil, fmt.Errorf("tensors %s and another are both %s", t.Name, name)
		}
		out[name] = Weight{Shape: dims, Type: t.Type, Data: t.Data}
	}
	switch {
	case c.ByRow():
		return out, out.pair(c)
	case c.Family == "gemma3":
		return out, out.less(c)
	}
	return out, nil
}

// less subtracts 1 from the gain of Gemma's norm, as transformers stores it.
func (w Weights) less(c Config) error {
	const name = "multi_modal_projector.mm_soft_emb_norm.weight"
	x, err := w.floats(name, c.Width)
	if err != nil {
		return err
	}
	for i := range x {
		x[i]--
	}
	w[name] = floatWeight(x, c.Width)
	return nil
}

func floatWeight(x []float32, dims ...int) Weight {
	w := Weight{Shape: dims, Type: tensor.F32, Data: make([]byte, 0, 4*len(x))}
	for _, v := range x {
		w.Data = binary.LittleEndian.AppendUint32(w.Data, math.Float32bits(v))
	}
	return w
}

// swapped reports the names of old files, which call the second matrix of the
// feed-forward half the first.
func (r *projReader) swapped(c Config) bool {
	t, ok := r.f.Tensor(r.half.stem + ".blk.0.ffn_down.weight")
	return ok && c.Hidden != c.Width && len(t.Dims) == 2 && t.Dims[0] == c.Width
}

// renamed returns the name of a tensor in transformers, or "" if the tower does not
// have it.
func (r *projReader) renamed(c Config, m merger, name string, swapped bool) string {
	n, at := c.names, r.half.tower
	if c.grid != nil && c.grid.positions {
		at = "visual."
	}
	stem, end, _ := strings.Cut(name, ".weight")
	if end != "" { // a frame of a patch
		return at + n.embed + n.patch + ".weight" + end
	}
	suffix := ".weight"
	if s, ok := strings.CutSuffix(name, ".bias"); ok {
		stem, suffix = s, ".bias"
	}
	if to, ok := m.names[stem]; ok {
		if c.Family == "gemma3" && stem == "mm.input_projection" {
			return to + "_weight"
		}
		return to + suffix
	}
	if c.sound != nil {
		if to := renamedSound(stem, suffix); to != "" {
			return to
		}
		return r.renamedLayer(c, at, stem, suffix, swapped)
	}
	switch stem {
	case "v.patch_embd":
		return at + n.embed + n.patch + suffix
	case "v.class_embd":
		return at + n.embed + n.class
	case "v.position_embd":
		if c.grid != nil {
			return at + "pos_embed.weight"
		}
		return at + n.embed + n.position
	case "v.pre_ln":
		return at + n.pre + suffix
	case "v.post_ln":
		switch {
		case c.Family == "qwen3_vl":
			return at + "merger.norm" + suffix
		case c.Family == "qwen2_vl", c.Family == "qwen2_5_vl":
			return at + "merger.ln_q" + suffix
		case n.post == "":
			return ""
		}
		return at + n.post + suffix
	}
	return r.renamedLayer(c, at, stem, suffix, swapped)
}

// renamedLayer returns the name of a tensor of a layer.
func (r *projReader) renamedLayer(c Config, at, stem, suffix string, swapped bool) string {
	n := c.names
	var i int
	var part string
	if k, err := fmt.Sscanf(stem, "v.deepstack.%d.%s", &i, &part); err == nil && k == 2 && c.grid != nil {
		to, ok := map[string]string{"norm": "norm", "fc1": "linear_fc1", "fc2": "linear_fc2"}[part]
		if !ok || !slices.Contains(c.grid.deep, i) {
			return ""
		}
		return fmt.Sprintf("%sdeepstack_merger_list.%d.%s%s", at, slices.Index(c.grid.deep, i), to, suffix)
	}
	if k, err := fmt.Sscanf(stem, r.half.stem+".blk.%d.%s", &i, &part); err != nil || k != 2 {
		return ""
	}
	if swapped {
		if to, ok := map[string]string{"ffn_up": "ffn_down", "ffn_down": "ffn_up"}[part]; ok {
			part = to
		}
	}
	query, key, value := n.query, n.key, n.value
	if c.grid != nil && c.grid.qkv {
		query, key, value = "attn.q", "attn.k", "attn.v"
	}
	to := map[string]string{
		"ln1": n.norm1, "ln2": n.norm2, "attn_q": query, "attn_k": key, "attn_v": value, "attn_qkv": n.query, "attn_out": n.out, "ffn_up": n.up, "ffn_down": n.down,
		"attn_q_norm": n.queryNorm, "attn_k_norm": n.keyNorm, "ls1": n.scale1, "ls2": n.scale2, "ffn_gate": strings.TrimSuffix(n.up, "up_proj") + "gate_proj",
	}[part]
	switch {
	case to == "":
		return ""
	case part == "ls1" || part == "ls2":
		return at + fmt.Sprintf(n.layer, i) + to
	}
	return at + fmt.Sprintf(n.layer, i) + to + suffix
}

// pair puts the pairs of queries and keys that rotate together half a head apart, as
// transformers has them; llama.cpp stores them next to each other.
func (w Weights) pair(c Config) error {
	dim, wide := c.Width/c.Heads, c.Width
	for i := range c.Layers {
		for _, part := range []string{c.names.query, c.names.key} {
			name := "vision_tower." + fmt.Sprintf(c.names.layer, i) + part + ".weight"
			x, err := w.floats(name, wide, wide)
			if err != nil {
				return err
			}
			out := make([]float32, len(x))
			for row := range wide {
				head, d := row/dim, row%dim
				to := head*dim + d/2 + d%2*(dim/2)
				copy(out[to*wide:(to+1)*wide], x[row*wide:])
			}
			w[name] = floatWeight(out, wide, wide)
		}
	}
	return nil
}
