package sentence

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Limits of a model, far above those of today.
const (
	maxLayers    = 256
	maxWidth     = 1 << 14
	maxHidden    = 1 << 17
	maxVocab     = 1 << 22
	maxPositions = 1 << 17
	maxLabels    = 1 << 12
	// maxRelative bounds the positions of a table of relative positions, which is
	// their square.
	maxRelative = 1 << 11
)

// Config is the shape of an encoder of text.
type Config struct {
	Family    string // model_type of config.json
	Vocab     int
	Positions int // tokens of a text
	Width     int // C
	Heads     int
	Layers    int
	Hidden    int // of the feed-forward half
	// Activation is that of the feed-forward half.
	Activation string
	Epsilon    float32
	// Labels is the number of classes of a classifier, 0 for an encoder. Names are
	// their names.
	Labels int
	Names  []string
	// Sigmoid maps the output of a classifier to 0 … 1.
	Sigmoid bool

	family
	types    int // segments; 0: none
	raw      rawConfig
	offset   int // row of the first position
	pad      int
	relative int // buckets of relative positions; 0: none
	period   int // of layers with attention to all; 0: all of them
	window   int // distance of attention in the others
	pooled   string
	ropes    map[string]rope // by kind of layer
	joint    *joint          // of a tower that shares its space with pictures
}

// family holds the common properties of the models of a type.
type family struct {
	names    names
	read     func(c *Config) error
	rotary   bool // positions are rotations
	before   bool // norms come before the halves
	gated    bool // the feed-forward half has a gate
	last     bool // a layer that joins gate and values has the gate last
	biasless bool // norms have no bias
}

// names are the tensors of a family. A layer's follow its prefix.
type names struct {
	prefixes                            []string
	words, positions, types, norm, last string
	layer                               string
	query, key, value, joined, out      string // joined: query, key and value in one
	norm1, up, gate, down, norm2        string // gate: if it is not joined with up
	relative                            string
	head                                []string // layers of a classifier after the first position
	label                               string
}

func bertNames(prefix string) names {
	return names{
		prefixes: []string{prefix, ""}, words: "embeddings.word_embeddings", positions: "embeddings.position_embeddings", types: "embeddings.token_type_embeddings", norm: "embeddings.LayerNorm",
		layer: "encoder.layer.%d.", query: "attention.self.query", key: "attention.self.key", value: "attention.self.value", out: "attention.output.dense",
		norm1: "attention.output.LayerNorm", up: "intermediate.dense", down: "output.dense", norm2: "output.LayerNorm",
	}
}

// families are the supported values of model_type.
func families() map[string]family {
	bert := family{names: bertNames("bert."), read: (*Config).bert}
	bert.names.head, bert.names.label = []string{"pooler.dense"}, "classifier"
	roberta := family{names: bertNames("roberta."), read: (*Config).roberta}
	roberta.names.head, roberta.names.label = []string{"classifier.dense"}, "classifier.out_proj"
	electra := family{names: bertNames("electra."), read: (*Config).electra}
	electra.names.head, electra.names.label = []string{"classifier.dense"}, "classifier.out_proj"
	mpnet := family{names: bertNames("mpnet."), read: (*Config).mpnet}
	n := &mpnet.names
	n.query, n.key, n.value, n.out, n.norm1 = "attention.attn.q", "attention.attn.k", "attention.attn.v", "attention.attn.o", "attention.LayerNorm"
	n.relative, n.types, n.head, n.label = "encoder.relative_attention_bias", "", []string{"classifier.dense"}, "classifier.out_proj"
	distil := family{names: bertNames("distilbert."), read: (*Config).distil}
	n = &distil.names
	n.layer, n.query, n.key, n.value, n.out = "transformer.layer.%d.", "attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin"
	n.norm1, n.up, n.down, n.norm2, n.types, n.head, n.label = "sa_layer_norm", "ffn.lin1", "ffn.lin2", "output_layer_norm", "", []string{"pre_classifier"}, "classifier"
	modern := family{read: (*Config).modern, rotary: true, before: true, gated: true, biasless: true}
	modern.names = names{
		prefixes: []string{"model.", ""}, words: "embeddings.tok_embeddings", norm: "embeddings.norm", last: "final_norm", layer: "layers.%d.", joined: "attn.Wqkv", out: "attn.Wo",
		norm1: "attn_norm", up: "mlp.Wi", down: "mlp.Wo", norm2: "mlp_norm", head: []string{"head.dense", "head.norm"}, label: "classifier",
	}
	nomic := family{read: (*Config).nomic, rotary: true, gated: true}
	nomic.names = names{
		prefixes: []string{"nomic_bert.", "bert.", ""}, words: "embeddings.word_embeddings", types: "embeddings.token_type_embeddings", norm: "emb_ln", layer: "encoder.layers.%d.", joined: "attn.Wqkv",
		out: "attn.out_proj", norm1: "norm1", up: "mlp.fc11", gate: "mlp.fc12", down: "mlp.fc2", norm2: "norm2",
	}
	gte := family{read: (*Config).gte, rotary: true, gated: true, last: true}
	gte.names = names{
		prefixes: []string{"new.", "gte.", ""}, words: "embeddings.word_embeddings", types: "embeddings.token_type_embeddings", norm: "embeddings.LayerNorm", layer: "encoder.layer.%d.", joined: "attention.qkv_proj",
		out: "attention.o_proj", norm1: "attn_ln", up: "mlp.up_gate_proj", down: "mlp.down_proj", norm2: "mlp_ln", head: []string{"pooler.dense"}, label: "classifier",
	}
	return map[string]family{
		"nomic_bert": nomic, "gte": gte, "new": gte,
		"bert": bert, "roberta": roberta, "xlm-roberta": roberta, "camembert": roberta, "electra": electra, "mpnet": mpnet, "distilbert": distil, "modernbert": modern,
	}
}

// Families lists the supported values of model_type.
func Families() []string {
	var out []string
	for name := range families() {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// rawConfig holds the keys of config.json.
type rawConfig struct {
	ModelType     string            `json:"model_type"`
	Architectures []string          `json:"architectures"`
	Vocab         int               `json:"vocab_size"`
	Positions     int               `json:"max_position_embeddings"`
	Width         int               `json:"hidden_size"`
	Dim           int               `json:"dim"` // of DistilBERT, as n_heads, n_layers, hidden_dim
	Embedding     int               `json:"embedding_size"`
	Heads         int               `json:"num_attention_heads"`
	NHeads        int               `json:"n_heads"`
	Layers        int               `json:"num_hidden_layers"`
	NLayers       int               `json:"n_layers"`
	Hidden        int               `json:"intermediate_size"`
	HiddenDim     int               `json:"hidden_dim"`
	Activation    string            `json:"hidden_act"`
	Act           string            `json:"activation"`
	Epsilon       *float64          `json:"layer_norm_eps"`
	Types         *int              `json:"type_vocab_size"`
	Pad           *int              `json:"pad_token_id"`
	PositionType  string            `json:"position_embedding_type"`
	Decoder       bool              `json:"is_decoder"`
	Cross         bool              `json:"add_cross_attention"`
	Labels        map[string]string `json:"id2label"`
	Scored        *string           `json:"sbert_ce_default_activation_function"`
	Sentence      *struct {
		Function string `json:"activation_fn"`
	} `json:"sentence_transformers"`
	Buckets *int `json:"relative_attention_num_buckets"`

	// Of ModernBERT.
	NormEpsilon *float64        `json:"norm_eps"`
	HiddenAct   string          `json:"hidden_activation"`
	Period      *int            `json:"global_attn_every_n_layers"`
	Window      *int            `json:"local_attention"`
	ThetaGlobal *float64        `json:"global_rope_theta"`
	ThetaLocal  *float64        `json:"local_rope_theta"`
	Pooling     string          `json:"classifier_pooling"`
	LayerTypes  []string        `json:"layer_types"`
	Rope        json.RawMessage `json:"rope_parameters"`

	rawRotary
}

// rope holds the rotations of the layers of a kind.
type rope struct {
	Type  string   `json:"rope_type"`
	Theta *float64 `json:"rope_theta"`
}

// ReadConfig reads a config.json.
func ReadConfig(data []byte) (Config, error) {
	c := Config{}
	if err := json.Unmarshal(data, &c.raw); err != nil {
		return c, err
	}
	r := &c.raw
	f, ok := families()[r.ModelType]
	if !ok {
		return c, fmt.Errorf("unsupported model_type %.40q, want one of %s", r.ModelType, strings.Join(Families(), ", "))
	}
	c.family, c.Family, c.Vocab, c.Positions = f, r.ModelType, r.Vocab, r.Positions
	c.Width, c.Heads, c.Layers, c.Hidden, c.Activation = r.Width, r.Heads, r.Layers, r.Hidden, r.Activation
	c.Epsilon, c.pooled = 1e-12, "cls"
	if r.Epsilon != nil {
		c.Epsilon = float32(*r.Epsilon)
	}
	if c.Activation == "" {
		c.Activation = "gelu"
	}
	if r.PositionType != "" && r.PositionType != "absolute" && !(f.rotary && r.PositionType == "rope") {
		return c, fmt.Errorf("unsupported position_embedding_type %.40q", r.PositionType)
	}
	if r.Decoder || r.Cross {
		return c, fmt.Errorf("unsupported is_decoder and add_cross_attention: want an encoder")
	}
	if err := c.read(&c); err != nil {
		return c, err
	}
	c.classifier()
	return c, c.check()
}

// classifies reports whether the class has a head for labels.
func (c *Config) classifies() bool {
	return len(c.raw.Architectures) > 0 && strings.HasSuffix(c.raw.Architectures[0], "ForSequenceClassification")
}

// classifier reads the head by the name of the class.
func (c *Config) classifier() {
	if !c.classifies() {
		return
	}
	c.Labels = len(c.raw.Labels)
	if c.Labels == 0 {
		c.Labels = 2
	}
	for i := range min(c.Labels, maxLabels) {
		c.Names = append(c.Names, c.raw.Labels[fmt.Sprint(i)])
	}
	function := ""
	if c.raw.Scored != nil {
		function = *c.raw.Scored
	}
	if c.raw.Sentence != nil && c.raw.Sentence.Function != "" {
		function = c.raw.Sentence.Function
	}
	c.Sigmoid = c.Labels == 1 && function == "" || strings.HasSuffix(function, ".Sigmoid")
}

// check reports sizes that are impossible or too large.
func (c *Config) check() error {
	for _, v := range []struct {
		name     string
		n, limit int
	}{
		{"vocab_size", c.Vocab, maxVocab}, {"max_position_embeddings", c.Positions, maxPositions}, {"hidden_size", c.Width, maxWidth}, {"num_attention_heads", c.Heads, maxWidth},
		{"num_hidden_layers", c.Layers, maxLayers}, {"intermediate_size", c.Hidden, maxHidden},
	} {
		if v.n < 1 || v.n > v.limit {
			return fmt.Errorf("%s: got %d, want 1 to %d", v.name, v.n, v.limit)
		}
	}
	switch {
	case c.Width%c.Heads != 0:
		return fmt.Errorf("hidden_size %d is not a multiple of num_attention_heads %d", c.Width, c.Heads)
	case c.Labels > maxLabels:
		return fmt.Errorf("%d labels, limit %d", c.Labels, maxLabels)
	case c.relative > 0 && c.Positions > maxRelative:
		return fmt.Errorf("max_position_embeddings %d, limit %d with relative positions", c.Positions, maxRelative)
	case c.types < 0 || c.types > 1<<10:
		return fmt.Errorf("type_vocab_size: got %d, want 0 to 1024", c.types)
	case c.rotary && c.Width/c.Heads%2 != 0:
		return fmt.Errorf("heads of %d dimensions, want an even number", c.Width/c.Heads)
	}
	if !slices.Contains([]string{"gelu", "quick_gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu"}, c.Activation) {
		return fmt.Errorf("unsupported hidden_act %.40q", c.Activation)
	}
	return nil
}

func (c *Config) bert() error {
	c.types = 2
	if c.raw.Types != nil {
		c.types = *c.raw.Types
	}
	return nil
}

// electra has a classifier with another activation, and may embed in fewer
// dimensions than it computes in.
func (c *Config) electra() error {
	if c.raw.Embedding != 0 && c.raw.Embedding != c.Width {
		return fmt.Errorf("unsupported embedding_size %d, want hidden_size %d", c.raw.Embedding, c.Width)
	}
	return c.bert()
}

// roberta counts positions from the padding token's on.
func (c *Config) roberta() error {
	if err := c.bert(); err != nil {
		return err
	}
	return c.padded()
}

func (c *Config) padded() error {
	c.pad = 1
	if c.raw.Pad != nil {
		c.pad = *c.raw.Pad
	}
	c.offset = c.pad + 1
	if c.pad < 0 || c.offset >= c.Positions {
		return fmt.Errorf("pad_token_id %d of %d positions", c.pad, c.Positions)
	}
	c.Positions -= c.offset
	return nil
}

func (c *Config) mpnet() error {
	c.relative = 32
	if c.raw.Buckets != nil {
		c.relative = *c.raw.Buckets
	}
	if c.relative != 32 { // the number of transformers, for any value of the key
		return fmt.Errorf("relative_attention_num_buckets: got %d, want 32", c.relative)
	}
	return c.padded()
}

func (c *Config) distil() error {
	r := &c.raw
	c.Width, c.Heads, c.Layers, c.Hidden = r.Dim, r.NHeads, r.NLayers, r.HiddenDim
	if r.Act != "" {
		c.Activation = r.Act
	}
	return nil
}

func (c *Config) modern() error {
	r := &c.raw
	c.Epsilon, c.Activation, c.period, c.window = 1e-5, "gelu", 3, 128
	if r.NormEpsilon != nil {
		c.Epsilon = float32(*r.NormEpsilon)
	}
	if r.HiddenAct != "" {
		c.Activation = r.HiddenAct
	}
	if r.Period != nil {
		c.period = *r.Period
	}
	if r.Window != nil {
		c.window = *r.Window
	}
	if r.Pooling != "" {
		c.pooled = r.Pooling
	}
	if c.period < 1 || c.window < 2 || c.pooled != "cls" && c.pooled != "mean" {
		return fmt.Errorf("global_attn_every_n_layers %d, local_attention %d, classifier_pooling %.40q", c.period, c.window, c.pooled)
	}
	for i, kind := range r.LayerTypes {
		if (kind == fullAttention) != c.everywhere(i) {
			return fmt.Errorf("unsupported layer_types: layer %d is %.40q", i, kind)
		}
	}
	if len(r.Rope) > 0 {
		if err := json.Unmarshal(r.Rope, &c.ropes); err != nil {
			return fmt.Errorf("rope_parameters: %w", err)
		}
	}
	return c.plain()
}

// everywhere reports whether layer i attends to all positions.
func (c *Config) everywhere(i int) bool { return c.period == 0 || i%c.period == 0 }

// fullAttention is the kind of layers that attend to all positions.
const fullAttention = "full_attention"

// theta returns the base of the rotations of layer i.
func (c *Config) theta(i int) float64 {
	kind, stated, absent := "sliding_attention", c.raw.ThetaLocal, 1e4
	if c.everywhere(i) {
		kind, stated, absent = fullAttention, c.raw.ThetaGlobal, 16e4
	}
	if v := c.ropes[kind].Theta; v != nil {
		return *v
	}
	if stated != nil {
		return *stated
	}
	return absent
}
