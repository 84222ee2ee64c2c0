package sentence

import (
	"encoding/json"
	"errors"
	"fmt"
)

// rawRotary holds the keys of config.json of nomic_bert as it is published, and of the
// model type new.
type rawRotary struct {
	NWidth      int      `json:"n_embd"`
	NHead       int      `json:"n_head"`
	NLayer      int      `json:"n_layer"`
	NInner      int      `json:"n_inner"`
	NPositions  int      `json:"n_positions"`
	Trained     int      `json:"max_trained_positions"`
	Function    string   `json:"activation_function"`
	LayerNorm   *float64 `json:"layer_norm_epsilon"`
	Base        *float64 `json:"rotary_emb_base"`
	Fraction    *float64 `json:"rotary_emb_fraction"`
	Interleaved bool     `json:"rotary_emb_interleaved"`
	Scaled      *float64 `json:"rotary_emb_scale_base"`
	Prenorm     bool     `json:"prenorm"`
	RMS         bool     `json:"use_rms_norm"`
	Causal      bool     `json:"causal"`
	Experts     int      `json:"moe_every_n_layers"`

	Theta   *float64        `json:"rope_theta"`
	Scaling json.RawMessage `json:"rope_scaling"`
	Norm    string          `json:"layer_norm_type"`
	LogN    bool            `json:"logn_attention_scale"`
	HeadDim int             `json:"head_dim"`
}

// nomic reads nomic_bert, as transformers writes it and as it is published.
func (c *Config) nomic() error {
	r := &c.raw
	if r.Width == 0 {
		c.Width, c.Heads, c.Layers, c.Hidden, c.Positions = r.NWidth, r.NHead, r.NLayer, r.NInner, r.NPositions
		if r.Function != "swiglu" {
			return fmt.Errorf("unsupported activation_function %.40q, want swiglu", r.Function)
		}
		c.Activation = "silu"
		if r.LayerNorm != nil {
			c.Epsilon = float32(*r.LayerNorm)
		}
		trained := 2048 // beyond, rotations depend on the length of the text
		if r.Trained > 0 {
			trained = r.Trained
		}
		c.Positions = min(c.Positions, trained)
	} else if r.Activation == "" {
		c.Activation = "silu"
	}
	switch {
	case r.Prenorm, r.RMS, r.Causal, r.Interleaved, r.Experts > 0, r.Scaled != nil, r.Fraction != nil && *r.Fraction != 1:
		return errors.New("unsupported prenorm, use_rms_norm, causal, rotary_emb_interleaved, moe_every_n_layers, rotary_emb_scale_base or rotary_emb_fraction")
	case c.classifies():
		return errors.New("unsupported class ForSequenceClassification of nomic_bert")
	}
	return c.flat(r.Base, 1000)
}

// gte reads the model types gte and new.
func (c *Config) gte() error {
	r := &c.raw
	if r.LogN || r.Norm != "" && r.Norm != "layer_norm" {
		return fmt.Errorf("unsupported layer_norm_type %.40q or logn_attention_scale", r.Norm)
	}
	if r.ModelType == "new" && r.PositionType != "rope" {
		return fmt.Errorf("unsupported position_embedding_type %.40q, want rope", r.PositionType)
	}
	theta := 160_000.0
	if r.ModelType == "new" {
		theta = 10_000
	}
	return c.flat(r.Theta, theta)
}

// flat reads the segments and the rotations of models whose layers are all alike.
func (c *Config) flat(stated *float64, absent float64) error {
	r := &c.raw
	c.types = 2
	if r.ModelType != "nomic_bert" {
		c.types = 1
	}
	if r.Types != nil {
		c.types = *r.Types
	}
	if s := string(r.Scaling); s != "" && s != "null" {
		return fmt.Errorf("unsupported rope_scaling %.80s", s)
	}
	if r.HeadDim != 0 && r.HeadDim*c.Heads != c.Width {
		return fmt.Errorf("unsupported head_dim %d of %d heads, want %d in all", r.HeadDim, c.Heads, c.Width)
	}
	one := rope{Theta: stated}
	if s := string(r.Rope); s != "" && s != "null" {
		if err := json.Unmarshal(r.Rope, &one); err != nil {
			return fmt.Errorf("rope_parameters: %w", err)
		}
	}
	if one.Theta == nil {
		one.Theta = &absent
	}
	c.ropes = map[string]rope{fullAttention: one}
	return c.plain()
}

// plain refuses rotations that are scaled.
func (c *Config) plain() error {
	for kind, one := range c.ropes {
		if one.Type != "" && one.Type != "default" {
			return fmt.Errorf("unsupported rope_type %.40q of %.40q", one.Type, kind)
		}
		if one.Theta != nil && !(*one.Theta >= 1) {
			return fmt.Errorf("rope_theta: got %v, want at least 1", *one.Theta)
		}
	}
	return nil
}
