package tower

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/core/preprocess"
)

// Limits of a tower, far above the models of today.
const (
	maxLayers = 512
	maxWidth  = 1 << 14
	maxHidden = 1 << 16
	maxImage  = 1 << 13
	maxPatch  = 1 << 10
	maxShrink = 256 // tiles
	maxCalls  = 80  // of a sound, 40 minutes
)

// Config is the shape of a vision tower and its projector.
type Config struct {
	Family string // model_type of config.json

	Image      int // height and width of a picture or tile
	Patch      int
	Width      int // C
	Heads      int // H
	Layers     int // that are computed
	Hidden     int // of the feed-forward half
	Activation string
	Epsilon    float32

	// Shuffle joins blocks of so many patches a side into one vector, Pool
	// averages them; 1: neither.
	Shuffle, Pool int
	Into          int // W
	// Act is the activation of the projector.
	Act string

	class, rms bool
	full       bool // the class is a feature
	newline    bool // a vector that ends a row follows those of a tile
	shrink     int  // of a picture in tiles, in tiles; 0: none
	names      names
	normal     float32 // epsilon of the projector's norm
	sound      *sound  // of an encoder of sounds; Image is 0
	grid       *grid   // of a tower whose pictures have any size; Image is 0
}

// Deep returns K, the layers of the language model for which a vector carries a
// further one.
func (c Config) Deep() int {
	if c.grid == nil {
		return 0
	}
	return len(c.grid.deep)
}

// Grid reports whether the positions of the vectors have rows and columns.
func (c Config) Grid() bool { return c.grid != nil && c.grid.positions }

// ByRow reports whether text is between the rows of vectors.
func (c Config) ByRow() bool { return c.grid != nil && !c.grid.positions && !c.grid.one }

// Multiple returns the pixels a side that become one vector.
func (c Config) Multiple() int { return c.Patch * c.Shuffle }

// Patches returns P, the features of a picture.
func (c Config) Patches() int {
	side := c.Image / c.Patch
	return side * side
}

// Count returns N, the vectors of a picture, a tile or the longest sound of a call.
func (c Config) Count() int {
	if c.sound != nil {
		return c.sound.positions / (c.sound.pool * c.sound.stack)
	}
	n := c.Patches() / (c.Shuffle * c.Shuffle * c.Pool * c.Pool)
	if c.full {
		n++
	}
	if c.newline {
		n++
	}
	return n
}

// Mosaic reports whether the tiles of a picture are joined into one, and the tiles to
// which a larger one shrinks, 0 for none.
func (c Config) Mosaic() (shrink int, ok bool) { return c.shrink, c.newline }

// Most returns a bound of the vectors of a picture.
func (c Config) Most(s preprocess.Spec) int {
	switch {
	case s.Span != nil && s.Span.Longer == "divide":
		return c.Count() * maxCalls
	case s.Fit != nil:
		blocks := c.Multiple() / s.Fit.Multiple
		return s.Fit.Bound() / (blocks * blocks)
	case s.Tiles == nil:
		return c.Count()
	case !c.newline:
		return c.Count() * s.Tiles.Bound()
	}
	n, most := c.Count()-1, 0
	side := c.Image / c.Patch
	for _, p := range s.Tiles.Pinpoints {
		rows, columns := p[0]/s.Tiles.Size*side, p[1]/s.Tiles.Size*side
		if all := rows * columns; c.shrink == 0 {
			most = max(most, all+rows)
		} else { // up to 1.1² times the limit remain
			most = max(most, min(all, c.shrink*n*121/100+1)+rows)
		}
	}
	return n + most
}

// names are the tensors of a family.
type names struct {
	projector string // prefix

	embed, patch, class, position string
	batched                       bool // class and positions have a leading dimension of 1
	pre, post                     string
	layer                         string
	norm1, norm2                  string
	query, key, value, out        string
	queryNorm, keyNorm            string
	up, down                      string
	scale1, scale2                string // of the outputs of the halves
}

// lead returns the dimensions of the class.
func (n names) lead(width int) []int {
	if n.batched {
		return []int{1, 1, width}
	}
	return []int{width}
}

// clipNames are those of CLIP, SigLIP and their descendants.
func clipNames() names {
	return names{
		embed: "embeddings.", patch: "patch_embedding", class: "class_embedding", position: "position_embedding.weight",
		layer: "encoder.layers.%d.", norm1: "layer_norm1", norm2: "layer_norm2",
		query: "self_attn.q_proj", key: "self_attn.k_proj", value: "self_attn.v_proj", out: "self_attn.out_proj", up: "mlp.fc1", down: "mlp.fc2",
	}
}

// internNames are those of InternVL.
func internNames() names {
	return names{
		embed: "embeddings.", patch: "patch_embeddings.projection", class: "cls_token", position: "position_embeddings", batched: true,
		layer: "encoder.layer.%d.", norm1: "layernorm_before", norm2: "layernorm_after",
		query: "attention.q_proj", key: "attention.k_proj", value: "attention.v_proj", out: "attention.projection_layer",
		queryNorm: "attention.q_norm", keyNorm: "attention.k_norm", up: "mlp.fc1", down: "mlp.fc2", scale1: "lambda_1", scale2: "lambda_2",
	}
}

// rawConfig holds the keys of config.json.
type rawConfig struct {
	ModelType string `json:"model_type"`
	Vision    struct {
		ModelType  string   `json:"model_type"`
		Width      *int     `json:"hidden_size"`
		Hidden     *int     `json:"intermediate_size"`
		Layers     *int     `json:"num_hidden_layers"`
		Heads      *int     `json:"num_attention_heads"`
		Channels   *int     `json:"num_channels"`
		Image      *side    `json:"image_size"`
		Patch      *side    `json:"patch_size"`
		Activation *string  `json:"hidden_act"`
		Epsilon    *float64 `json:"layer_norm_eps"`
		Norm       *string  `json:"norm_type"`
		Positions  *bool    `json:"use_absolute_position_embeddings"`
		MeanPool   *bool    `json:"use_mean_pooling"`
		Head       *bool    `json:"vision_use_head"`
	} `json:"vision_config"`
	Text struct {
		Width   int      `json:"hidden_size"`
		Epsilon *float64 `json:"rms_norm_eps"`
	} `json:"text_config"`
	Merge    *int     `json:"spatial_merge_size"`
	Act      *string  `json:"projector_hidden_act"`
	Layer    *layers  `json:"vision_feature_layer"`
	Strategy *string  `json:"vision_feature_select_strategy"`
	Shuffle  *int     `json:"scale_factor"`
	Ratio    *float64 `json:"downsample_ratio"`
	PerImage *int     `json:"mm_tokens_per_image"`
	Into     *int     `json:"projection_dim"`
	Aspect   *string  `json:"vision_aspect_ratio"`
}

// side is a number or a list of two equal numbers.
type side int

// UnmarshalJSON implements json.Unmarshaler.
func (s *side) UnmarshalJSON(b []byte) error {
	var list []int
	if json.Unmarshal(b, (*int)(s)) == nil {
		return nil
	}
	if err := json.Unmarshal(b, &list); err != nil || len(list) != 2 || list[0] != list[1] {
		return fmt.Errorf("size %.40s: want a number or two equal ones", b)
	}
	*s = side(list[0])
	return nil
}

// layers is one layer; a list of one is accepted.
type layers int

// UnmarshalJSON implements json.Unmarshaler.
func (l *layers) UnmarshalJSON(b []byte) error {
	var list []int
	if json.Unmarshal(b, (*int)(l)) == nil {
		return nil
	}
	if err := json.Unmarshal(b, &list); err != nil || len(list) != 1 {
		return fmt.Errorf("vision_feature_layer %.40s: want one layer", b)
	}
	*l = layers(list[0])
	return nil
}

// family is the defaults of transformers for a model_type.
type family struct {
	vision []string // model types of its towers, the default first
	read   func(c *Config, raw *rawConfig) error
}

// defaults are those of a tower.
type defaults struct {
	width, hidden, layers, heads, image, patch int
	act                                        string
	epsilon                                    float64
	names                                      names
	class                                      bool
}

func towers() map[string]defaults {
	clip := clipNames()
	clip.pre = "pre_layrnorm"
	return map[string]defaults{
		"clip_vision_model":   {768, 3072, 12, 12, 224, 32, "quick_gelu", 1e-5, clip, true},
		"siglip_vision_model": {768, 3072, 12, 12, 224, 16, "gelu_pytorch_tanh", 1e-6, clipNames(), false},
		"idefics3_vision":     {1152, 3072, 12, 16, 224, 32, "gelu_pytorch_tanh", 1e-6, clipNames(), false},
		"internvl_vision":     {1024, 4096, 24, 16, 448, 14, "gelu", 1e-6, internNames(), true},
	}
}

func families() map[string]family {
	return map[string]family{
		"llava":           {[]string{"clip_vision_model", "siglip_vision_model"}, readLlava},
		"llava_next":      {[]string{"clip_vision_model", "siglip_vision_model"}, readNext},
		"llava_onevision": {[]string{"siglip_vision_model"}, readOneVision},
		"gemma3":          {[]string{"siglip_vision_model"}, readGemma3},
		"paligemma":       {[]string{"siglip_vision_model"}, readPaliGemma},
		"idefics3":        {[]string{"idefics3_vision"}, readIdefics3},
		"smolvlm":         {[]string{"idefics3_vision"}, readIdefics3},
		"internvl":        {[]string{"internvl_vision"}, readInternVL},
	}
}

// Families lists the supported values of model_type.
func Families() []string {
	var out []string
	for name := range families() {
		out = append(out, name)
	}
	out = append(append(out, gridFamilies()...), soundFamilies()...)
	slices.Sort(out)
	return out
}

// ReadConfig reads the shape of the tower and the projector from a config.json.
// Absent keys have the defaults of transformers.
func ReadConfig(data []byte) (Config, error) {
	var raw rawConfig
	if err := json.Unmarshal(data, &raw); err != nil {
		return Config{}, err
	}
	if isGrid(&raw) {
		return readGrid(data, &raw)
	}
	if slices.Contains(soundFamilies(), raw.ModelType) {
		return readAudio(data, &raw)
	}
	f, ok := families()[raw.ModelType]
	if !ok {
		return Config{}, fmt.Errorf("unsupported model_type %.40q, want one of %s", raw.ModelType, strings.Join(Families(), ", "))
	}
	return f.config(&raw)
}

// config reads the tower of a family.
func (f family) config(raw *rawConfig) (Config, error) {
	kind := raw.Vision.ModelType
	if kind == "" {
		kind = f.vision[0]
	}
	if kind == "smolvlm_vision" {
		kind = "idefics3_vision"
	}
	if !slices.Contains(f.vision, kind) {
		return Config{}, fmt.Errorf("unsupported vision_config.model_type %.40q of %s, want one of %s", kind, raw.ModelType, strings.Join(f.vision, ", "))
	}
	d := towers()[kind]
	c := Config{
		Family: raw.ModelType, Shuffle: 1, Pool: 1, Into: raw.Text.Width, names: d.names, class: d.class,
		Image: int(or(raw.Vision.Image, side(d.image))), Patch: int(or(raw.Vision.Patch, side(d.patch))),
		Width: or(raw.Vision.Width, d.width), Hidden: or(raw.Vision.Hidden, d.hidden),
		Heads: or(raw.Vision.Heads, d.heads), Layers: or(raw.Vision.Layers, d.layers),
		Activation: or(raw.Vision.Activation, d.act), Epsilon: float32(or(raw.Vision.Epsilon, d.epsilon)), Act: or(raw.Act, "gelu"),
	}
	if n := or(raw.Vision.Channels, 3); n != 3 {
		return Config{}, fmt.Errorf("unsupported num_channels %d, want 3", n)
	}
	if err := f.read(&c, raw); err != nil {
		return Config{}, err
	}
	return c, c.check()
}

func or[T any](v *T, absent T) T {
	if v == nil {
		return absent
	}
	return *v
}

// bounded is a size and its limit.
type bounded struct {
	name    string
	n, most int
}

// inRange returns the first size that is not from 1 to its limit.
func inRange(all []bounded) error {
	for _, v := range all {
		if v.n < 1 || v.n > v.most {
			return fmt.Errorf("bad %s: got %d, want 1 to %d", v.name, v.n, v.most)
		}
	}
	return nil
}

// check validates the sizes.
func (c Config) check() error {
	if err := inRange([]bounded{
		{"image_size", c.Image, maxImage}, {"patch_size", c.Patch, min(maxPatch, c.Image)}, {"hidden_size", c.Width, maxWidth},
		{"num_attention_heads", c.Heads, c.Width}, {"number of layers", c.Layers, maxLayers}, {"intermediate_size", c.Hidden, maxHidden},
		{"width of the language model", c.Into, maxHidden}, {"scale factor", c.Shuffle, c.Image}, {"pooling", c.Pool, c.Image},
	}); err != nil {
		return err
	}
	side := c.Image / c.Patch
	switch {
	case c.Width%c.Heads != 0:
		return fmt.Errorf("hidden_size %d is not a multiple of %d heads", c.Width, c.Heads)
	case c.Image%c.Patch != 0 && !strings.HasPrefix(c.Family, "llava") && !c.joint(): // a convolution drops the rest
		return fmt.Errorf("image_size %d is not a multiple of patch_size %d", c.Image, c.Patch)
	case side%(c.Shuffle*c.Pool) != 0:
		return fmt.Errorf("%d patches a side are not a multiple of %d", side, c.Shuffle*c.Pool)
	case !knownActivation(c.Activation) || !knownActivation(c.Act):
		return fmt.Errorf("unsupported activation %q or %q, want one of %s", c.Activation, c.Act, strings.Join(activations(), ", "))
	case !(c.Epsilon >= 0):
		return fmt.Errorf("bad layer_norm_eps: %v", c.Epsilon)
	}
	return nil
}

// readLlava: the features are the output of a layer before the last, without the
// class.
func readLlava(c *Config, raw *rawConfig) error {
	at := int(or(raw.Layer, -2))
	if at < 0 {
		at += c.Layers + 1
	}
	if at < 1 || at >= c.Layers {
		return fmt.Errorf("unsupported vision_feature_layer: got layer %d of %d, want one before the last", at, c.Layers)
	}
	c.Layers = at
	switch s := or(raw.Strategy, "default"); {
	case s == "default" && c.class:
	case s == "full" && !c.class:
	default:
		return fmt.Errorf("unsupported vision_feature_select_strategy %.40q of this tower", s)
	}
	c.names.projector = "multi_modal_projector."
	return nil
}

// readNext: as LLaVA, with a vector that ends a row.
func readNext(c *Config, raw *rawConfig) error {
	c.newline = true
	return readLlava(c, raw)
}

// readOneVision: the features are the output of the last layer.
func readOneVision(c *Config, raw *rawConfig) error {
	if at := int(or(raw.Layer, -1)); at != -1 && at != c.Layers {
		return fmt.Errorf("unsupported vision_feature_layer %d, want -1", at)
	}
	if s := or(raw.Strategy, "full"); s != "full" {
		return fmt.Errorf("unsupported vision_feature_select_strategy %.40q of this tower, want full", s)
	}
	aspect := or(raw.Aspect, "anyres_max_9")
	n, err := strconv.Atoi(strings.TrimPrefix(aspect, "anyres_max_"))
	if err != nil || n < 1 || n > maxShrink {
		return fmt.Errorf("unsupported vision_aspect_ratio %.40q, want anyres_max_1 to anyres_max_%d", aspect, maxShrink)
	}
	c.newline, c.shrink, c.names.projector = true, n, "multi_modal_projector."
	return nil
}

// readGemma3: the features after the last norm are averaged in squares.
func readGemma3(c *Config, raw *rawConfig) error {
	side := 0
	for n := or(raw.PerImage, 256); side*side < n && side <= c.Image; {
		if side++; side*side == n {
			c.Pool = max(c.Image/max(c.Patch, 1)/side, 1)
		}
	}
	if c.Pool*side != c.Image/max(c.Patch, 1) {
		return fmt.Errorf("bad mm_tokens_per_image: got %d for %d patches", or(raw.PerImage, 256), c.Image/max(c.Patch, 1))
	}
	c.names.post, c.names.projector = "post_layernorm", "multi_modal_projector."
	return nil
}

func readPaliGemma(c *Config, raw *rawConfig) error {
	c.Into = or(raw.Into, c.Into)
	c.names.post, c.names.projector = "post_layernorm", "multi_modal_projector."
	return nil
}

func readIdefics3(c *Config, raw *rawConfig) error {
	c.Shuffle = or(raw.Shuffle, 2)
	c.names.post, c.names.projector = "post_layernorm", "connector."
	return nil
}

func readInternVL(c *Config, raw *rawConfig) error {
	ratio := or(raw.Ratio, 0.5)
	if c.Shuffle = int(1/max(ratio, 1e-3) + 0.5); float64(c.Shuffle)*ratio != 1 {
		return fmt.Errorf("bad downsample_ratio: %v", ratio)
	}
	if at := int(or(raw.Layer, -1)); at != -1 {
		return fmt.Errorf("unsupported vision_feature_layer %d, want -1", at)
	}
	if s := or(raw.Strategy, "default"); s != "default" {
		return fmt.Errorf("unsupported vision_feature_select_strategy %.40q", s)
	}
	if !or(raw.Vision.Positions, true) {
		return fmt.Errorf("unsupported tower without absolute positions")
	}
	switch n := or(raw.Vision.Norm, "layer_norm"); n {
	case "layer_norm":
	case "rms_norm":
		c.rms = true
	default:
		return fmt.Errorf("unsupported norm_type %.40q", n)
	}
	if !or(raw.Vision.MeanPool, true) {
		c.names.post = "layernorm"
	}
	c.names.projector = "multi_modal_projector."
	return nil
}
