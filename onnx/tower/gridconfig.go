package tower

import (
	"encoding/json"
	"fmt"
	"slices"
)

// grid is the shape of a tower whose pictures have any size: patches in rows and
// columns, which rotary embedding distinguishes.
type grid struct {
	frames    int   // of a patch; the picture is repeated
	window    int   // patches a side of a window of attention; 0: none
	full      []int // layers that see all patches despite the window
	deep      []int // layers whose outputs become further vectors
	table     int   // side of the table of learnt positions; 0: none
	gated     bool  // feed-forward half
	qkv       bool  // one matrix for queries, keys and values
	turns     bool  // rows and columns rotate pairs in turns
	positions bool  // of vectors in the language model
	// one: no text is between the rows of vectors, and patches after the last whole block
	// of a row or a column have no vector.
	one  bool
	base float64
}

// maxDeep limits the layers with further vectors.
const maxDeep = 64

// isGrid reports whether a model has a tower for pictures of any size.
func isGrid(raw *rawConfig) bool {
	return slices.Contains(gridFamilies(), raw.ModelType) || raw.ModelType == "llava" && raw.Vision.ModelType == "pixtral"
}

func gridFamilies() []string {
	return []string{"lighton_ocr", "mistral3", "qwen2_5_vl", "qwen2_vl", "qwen3_5", "qwen3_5_moe", "qwen3_vl", "qwen3_vl_moe"}
}

// rawGrid holds the keys of vision_config.
type rawGrid struct {
	Depth      *int             `json:"depth"`
	Layers     *int             `json:"num_hidden_layers"`
	Embed      *int             `json:"embed_dim"`
	Width      *int             `json:"hidden_size"`
	Hidden     *int             `json:"intermediate_size"`
	Ratio      *float64         `json:"mlp_ratio"`
	Heads      *int             `json:"num_heads"`
	OtherHeads *int             `json:"num_attention_heads"`
	Channels   *int             `json:"in_channels"`
	OldChannel *int             `json:"in_chans"`
	Patch      *side            `json:"patch_size"`
	Merge      *int             `json:"spatial_merge_size"`
	Frames     *int             `json:"temporal_patch_size"`
	Window     *int             `json:"window_size"`
	Full       *[]int           `json:"fullatt_block_indexes"`
	Out        *int             `json:"out_hidden_size"`
	Table      *int             `json:"num_position_embeddings"`
	Deep       *[]int           `json:"deepstack_visual_indexes"`
	Act        *string          `json:"hidden_act"`
	Base       *float64         `json:"rope_theta"`
	Image      *int             `json:"image_size"`
	Rope       *json.RawMessage `json:"rope_parameters"`
}

// readGrid reads the configuration of a tower for pictures of any size.
func readGrid(data []byte, raw *rawConfig) (Config, error) {
	var all struct {
		Vision rawGrid `json:"vision_config"`
		Width  int     `json:"hidden_size"` // of the language model in older files
		Text   struct {
			Width int `json:"hidden_size"`
		} `json:"text_config"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return Config{}, err
	}
	v, family := all.Vision, raw.ModelType
	if family == "qwen3_5" || family == "qwen3_5_moe" { // Qwen3-VL's tower, without further vectors
		family, v.Deep = "qwen3_vl", &[]int{}
	}
	if family == "qwen3_vl_moe" {
		family = "qwen3_vl"
	}
	c := Config{
		Family: family, Patch: int(or(v.Patch, 14)), Shuffle: or(v.Merge, 2), Pool: 1, Layers: or(v.Depth, 32), Heads: or(v.Heads, 16),
		Epsilon: 1e-6, Act: "gelu", Into: all.Text.Width, grid: &grid{frames: or(v.Frames, 2), base: 10000, qkv: true, positions: true},
	}
	if c.Into == 0 {
		c.Into = all.Width
	}
	c.names = gridNames()
	switch c.Family {
	case "qwen2_vl":
		c.Width, c.Activation = or(v.Embed, 1280), or(v.Act, "quick_gelu")
		c.Hidden = int(float64(c.Width) * or(v.Ratio, 4))
	case "qwen2_5_vl":
		c.Width, c.Hidden, c.Activation, c.rms = or(v.Width, 3584), or(v.Hidden, 3420), or(v.Act, "silu"), true
		c.names.up, c.names.down, c.grid.gated = "mlp.up_proj", "mlp.down_proj", true
		c.grid.window = or(v.Window, 112) / max(c.Patch, 1) / max(c.Shuffle, 1) * c.Shuffle
		c.grid.full = or(v.Full, []int{7, 15, 23, 31})
		if c.grid.window == 0 {
			return c, fmt.Errorf("bad window_size: got %d, want at least %d", or(v.Window, 112), c.Patch*c.Shuffle)
		}
	case "qwen3_vl":
		c.Patch, c.Layers, c.Width, c.Hidden, c.Activation = int(or(v.Patch, 16)), or(v.Depth, 27), or(v.Width, 1152), or(v.Hidden, 4304), or(v.Act, "gelu_pytorch_tanh")
		c.names.up, c.names.down = "mlp.linear_fc1", "mlp.linear_fc2"
		c.grid.deep = or(v.Deep, []int{8, 16, 24})
		n := or(v.Table, 2304)
		for c.grid.table = 1; c.grid.table*c.grid.table < n && c.grid.table < maxImage; c.grid.table++ {
		}
		if c.grid.table*c.grid.table != n {
			return c, fmt.Errorf("bad num_position_embeddings: got %d, want a square", n)
		}
	default:
		if err := c.pixtral(v, raw); err != nil {
			return c, err
		}
	}
	out := or(v.Out, c.Into)
	if c.Family == "qwen2_vl" {
		out = or(v.Width, c.Into)
	}
	if c.grid.positions && out != c.Into {
		return c, fmt.Errorf("tower of output width %d for a language model of %d", out, c.Into)
	}
	if n := or(v.Channels, or(v.OldChannel, 3)); n != 3 {
		return c, fmt.Errorf("unsupported number of channels %d, want 3", n)
	}
	return c, c.checkGrid()
}

// pixtral reads the tower of Pixtral, one vector a patch.
func (c *Config) pixtral(v rawGrid, raw *rawConfig) error {
	c.Patch, c.Shuffle, c.Layers, c.Heads = int(or(v.Patch, 16)), 1, or(v.Layers, 24), or(v.OtherHeads, 16)
	c.Width, c.Hidden, c.Activation, c.rms, c.Epsilon = or(v.Width, 1024), or(v.Hidden, 4096), or(v.Act, "gelu"), true, 1e-5
	c.Act = or(raw.Act, "gelu")
	c.names = names{
		projector: "multi_modal_projector.", patch: "patch_conv", pre: "ln_pre", layer: "transformer.layers.%d.", norm1: "attention_norm", norm2: "ffn_norm",
		query: "attention.q_proj", key: "attention.k_proj", value: "attention.v_proj", out: "attention.o_proj", up: "feed_forward.up_proj", down: "feed_forward.down_proj",
	}
	c.grid.frames, c.grid.qkv, c.grid.positions, c.grid.gated, c.grid.turns = 1, false, false, true, true
	c.grid.base = or(v.Base, 10000)
	var rope struct {
		Base *float64 `json:"rope_theta"`
	}
	if v.Rope != nil && json.Unmarshal(*v.Rope, &rope) == nil {
		c.grid.base = or(rope.Base, c.grid.base)
	}
	last := layers(-2)
	if c.Family != "llava" {
		last = -1
	}
	if c.Family == "lighton_ocr" {
		raw.Layer = nil // which transformers ignores
	}
	at := int(or(raw.Layer, last))
	if at < 0 {
		at += c.Layers + 1
	}
	if at < 1 || at > c.Layers {
		return fmt.Errorf("unsupported vision_feature_layer: got layer %d of %d", at, c.Layers)
	}
	c.Layers = at
	if c.Family == "lighton_ocr" {
		c.grid.one, c.names.projector, c.Act = true, "vision_projection.", "gelu"
	}
	if c.Family != "llava" {
		c.Shuffle, c.normal = or(raw.Merge, 2), float32(or(raw.Text.Epsilon, 1e-6))
		return nil
	}
	if s := or(raw.Strategy, "default"); s != "full" {
		return fmt.Errorf("unsupported vision_feature_select_strategy %.40q of this tower, want full", s)
	}
	return nil
}

// gridNames are those of Qwen's towers.
func gridNames() names {
	return names{
		projector: "merger.", embed: "patch_embed.", patch: "proj", layer: "blocks.%d.", norm1: "norm1", norm2: "norm2", query: "attn.qkv", out: "attn.proj", up: "mlp.fc1", down: "mlp.fc2",
	}
}

// checkGrid validates the sizes.
func (c Config) checkGrid() error {
	if err := inRange([]bounded{
		{"patch_size", c.Patch, maxPatch}, {"hidden_size", c.Width, maxWidth}, {"number of heads", c.Heads, c.Width}, {"number of layers", c.Layers, maxLayers},
		{"intermediate_size", c.Hidden, maxHidden}, {"width of the language model", c.Into, maxHidden}, {"spatial_merge_size", c.Shuffle, maxPatch / max(c.Patch, 1)},
		{"temporal_patch_size", c.grid.frames, maxPatch},
	}); err != nil {
		return err
	}
	if c.Width%c.Heads != 0 || c.Width/c.Heads%4 != 0 {
		return fmt.Errorf("hidden_size %d of %d heads: want a multiple of 4 for each head", c.Width, c.Heads)
	}
	if !knownActivation(c.Activation) || !knownActivation(c.Act) {
		return fmt.Errorf("unsupported activation %q or %q", c.Activation, c.Act)
	}
	if !(c.grid.base > 0) {
		return fmt.Errorf("bad rope_theta: %v", c.grid.base)
	}
	if len(c.grid.deep) > maxDeep {
		return fmt.Errorf("too many deepstack_visual_indexes: got %d, limit %d", len(c.grid.deep), maxDeep)
	}
	for i, at := range c.grid.deep {
		if at < 0 || at >= c.Layers || i > 0 && at <= c.grid.deep[i-1] {
			return fmt.Errorf("bad deepstack_visual_indexes %v of %d layers", c.grid.deep, c.Layers)
		}
	}
	return nil
}
