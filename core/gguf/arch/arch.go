// Package arch is what GGUF says of a language model: the shape of each
// architecture, the metadata keys that describe it, and the names and
// dimensions of its tensors.
//
// The way of a file: [Read] makes a [Shape] of the metadata and refuses what
// would change the result and is not understood; [Shape.Globals] and
// [Shape.Layer] list what the file must hold, and [Shape.CheckTensors] holds
// the file against that, in both directions. [Shape.Metadata] is the way back, for writers. What the layers
// of an architecture are made of is its [Style]; the engine (core/infer) asks
// the shape and the style, and never for the name of an architecture.
//
// Keys and names are those of llama.cpp's gguf-py/gguf/constants.py.
//
// Letters: C = d_model, H query heads and G key/value heads of D dimensions,
// F the width of the feed-forward layer, E experts, V tokens of vocabulary.
package arch

import (
	"errors"
	"fmt"
	"math"

	"mm-abi.org/mm/core/gguf"
)

// Shape is the shape of a decoder. The zero value of a field that is not
// needed by every architecture means that the model does without.
type Shape struct {
	// Arch is GGUF's name of the architecture, such as "llama".
	Arch string
	// Context is the number of positions the model was trained for.
	Context int

	Layers  int // L
	Width   int // C, d_model
	Heads   int // H
	KVHeads int // G, heads of keys and values; H/G query heads share one
	HeadDim int // D
	Hidden  int // F, width of the feed-forward layer
	Vocab   int // V

	// Epsilon is added to the mean square, or the variance, in norms.
	Epsilon float32
	Rope    Rope

	// Local is the rotation in layers with a window, where it is another.
	Local *Rope `json:",omitempty"`
	// Window is how many positions a windowed layer sees, its own included.
	Window int `json:",omitempty"`
	// Windowed tells the layers that have the window; nil: none.
	Windowed []bool `json:",omitempty"`
	// Unrotated tells the layers whose queries and keys are not rotated.
	Unrotated []bool `json:",omitempty"`

	// Experts is E, the number of feed-forward layers a layer chooses from;
	// ExpertsUsed how many it takes for a position, and ExpertHidden their
	// width. 0 experts: there is no choice.
	Experts      int `json:",omitempty"`
	ExpertsUsed  int `json:",omitempty"`
	ExpertHidden int `json:",omitempty"`
	// ExpertSum leaves the weights of the experts as the softmax over all of
	// them; otherwise those of the chosen sum up to 1.
	ExpertSum bool `json:",omitempty"`

	// Parallel says that attention and feed-forward read the same residual.
	Parallel bool `json:",omitempty"`
	// Activation of the feed-forward layer; "" means that of the style.
	Activation Activation `json:",omitempty"`

	EmbeddingScale float32 `json:",omitempty"` // embeddings are multiplied by it; 0: by 1
	ResidualScale  float32 `json:",omitempty"` // what layers add is multiplied by it; 0: by 1
	AttentionScale float32 `json:",omitempty"` // q·k is multiplied by it; 0: by 1/√D
	LogitDivisor   float32 `json:",omitempty"` // logits are divided by it; 0: by 1
	AttentionCap   float32 `json:",omitempty"` // q·k becomes cap·tanh(q·k/cap); 0: no cap
	LogitCap       float32 `json:",omitempty"` // the same for logits
}

// The limits of what is loaded, far above the models of today.
const (
	maxLayers  = gguf.MaxBlocks
	maxWidth   = 1 << 16
	maxHidden  = 1 << 18
	maxVocab   = 1 << 21
	maxHeads   = 1 << 12
	maxDim     = 1 << 10
	maxExperts = 1 << 10
	// MaxContext bounds the positions of a model and of a session.
	MaxContext = 1 << 24
)

// Check reports what makes the shape impossible, all of it at once.
func (s Shape) Check() error {
	faults := []error{checkArch(s.Arch)}
	limit := func(name string, v, most int) {
		if v < 1 || v > most {
			faults = append(faults, fmt.Errorf("%s is %d, not 1 to %d", name, v, most))
		}
	}
	limit("the context length", s.Context, MaxContext)
	limit("the number of layers", s.Layers, maxLayers)
	limit("the embedding length", s.Width, maxWidth)
	limit("the number of heads", s.Heads, maxHeads)
	limit("the number of key/value heads", s.KVHeads, maxHeads)
	limit("the head size", s.HeadDim, maxDim)
	limit("the feed forward length", s.Hidden, maxHidden)
	limit("the vocabulary size", s.Vocab, maxVocab)
	limit("the number of heads times their size", s.Heads*s.HeadDim, maxHidden)
	if s.KVHeads > 0 && s.Heads%s.KVHeads != 0 {
		faults = append(faults, fmt.Errorf("%d heads cannot share %d key/value heads", s.Heads, s.KVHeads))
	}
	if !(s.Epsilon >= 0) || math.IsInf(float64(s.Epsilon), 0) {
		faults = append(faults, fmt.Errorf("the norm's epsilon is %v", s.Epsilon))
	}
	if s.HeadDim > 0 && s.HeadDim <= maxDim && !s.Style().Learned {
		faults = append(faults, s.Rope.check(s.HeadDim))
		if s.Local != nil {
			faults = append(faults, s.Local.check(s.HeadDim))
		}
	}
	if s.Experts != 0 {
		limit("the number of experts", s.Experts, maxExperts)
		limit("the number of experts used", s.ExpertsUsed, s.Experts)
		limit("the experts' feed forward length", s.ExpertHidden, maxHidden)
		if !s.Style().Gated {
			faults = append(faults, fmt.Errorf("architecture %s has no experts", s.Arch))
		}
	}
	return errors.Join(append(faults, s.checkLayers(), s.checkFactors())...)
}

// checkLayers checks what differs from layer to layer.
func (s Shape) checkLayers() error {
	switch {
	case s.Windowed != nil && len(s.Windowed) != s.Layers:
		return fmt.Errorf("%d layers are said to have a window or none, the model has %d", len(s.Windowed), s.Layers)
	case s.Unrotated != nil && len(s.Unrotated) != s.Layers:
		return fmt.Errorf("%d layers are said to be rotated or not, the model has %d", len(s.Unrotated), s.Layers)
	case s.Window < 0 || s.Window > MaxContext*2:
		return fmt.Errorf("the sliding window is %d", s.Window)
	case s.Windowed != nil && s.Window == 0:
		return errors.New("layers have a sliding window of 0 positions")
	}
	return nil
}

// checkFactors checks numbers that are multiplied with.
func (s Shape) checkFactors() error {
	for _, f := range []struct {
		name string
		v    float32
		sign bool // may be negative
	}{
		{"the embedding scale", s.EmbeddingScale, true}, {"the residual scale", s.ResidualScale, true},
		{"the attention scale", s.AttentionScale, true}, {"the logit scale", s.LogitDivisor, true},
		{"the attention's soft cap", s.AttentionCap, false}, {"the logits' soft cap", s.LogitCap, false},
	} {
		if math.IsNaN(float64(f.v)) || math.IsInf(float64(f.v), 0) || f.v < 0 && !f.sign {
			return fmt.Errorf("%s is %v", f.name, f.v)
		}
	}
	if !s.activation().known() {
		return fmt.Errorf("the activation %q is not supported: known are silu, gelu and its tanh forms", s.Activation)
	}
	return nil
}

// Plain reports whether nothing is to be known of the layers but their sizes
// and their rotation: no windows, experts, scales, caps, or other activation.
func (s Shape) Plain() bool {
	return s.Windowed == nil && s.Unrotated == nil && s.Local == nil && s.Experts == 0 && !s.Parallel && s.Activation == "" &&
		s.EmbeddingScale == 0 && s.ResidualScale == 0 && s.AttentionScale == 0 && s.LogitDivisor == 0 && s.AttentionCap == 0 && s.LogitCap == 0
}

// WindowOf is how many positions layer i sees; 0 means all.
func (s Shape) WindowOf(i int) int {
	if s.Windowed == nil || !s.Windowed[i] {
		return 0
	}
	return s.Window
}

// Rotated reports whether layer i rotates queries and keys.
func (s Shape) Rotated(i int) bool {
	return !s.Style().Learned && (s.Unrotated == nil || !s.Unrotated[i])
}

// activation is the activation of the feed-forward layer.
func (s Shape) activation() Activation {
	if s.Activation == "" {
		return s.Style().Activation
	}
	return s.Activation
}

// Act is the activation of the feed-forward layer: SiLU, GELU or GELUTanh.
func (s Shape) Act() Activation { return s.activation().plain() }
