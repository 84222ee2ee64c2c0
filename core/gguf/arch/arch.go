// Package arch describes language models in GGUF: the shape of each
// architecture, its metadata keys, and the names and dimensions of its tensors.
//
// [Read] reads a [Shape] from the metadata and refuses keys that would change
// the result and are not supported; [Shape.Globals] and [Shape.Layer] list the
// tensors of a file, and [Shape.CheckTensors] compares the file with them in
// both directions. [Shape.Metadata] is the inverse, for writers. [Style]
// describes the layers of an architecture; the engine (core/infer) uses only
// the shape and the style, never the name of an architecture.
//
// Keys and names are those of llama.cpp's gguf-py/gguf/constants.py.
//
// Letters: C = d_model, H query heads and G key/value heads of D dimensions, F
// the width of the feed-forward layer, E experts, V tokens of vocabulary.
package arch

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/core/gguf"
)

// Shape is the shape of a decoder. The zero value of an optional field disables
// the feature.
type Shape struct {
	// Arch is GGUF's name of the architecture, such as "llama".
	Arch string
	// Context is the number of positions in training.
	Context int

	Layers  int // L
	Width   int // C, d_model
	Heads   int // H
	KVHeads int // G, key/value heads; H/G query heads share one
	HeadDim int // D
	Hidden  int // F, width of the feed-forward layer
	Vocab   int // V

	// Epsilon is added to the mean square, or the variance, in norms.
	Epsilon float32
	Rope    Rope

	// Local is the rotation of layers with a window, if different.
	Local *Rope `json:",omitempty"`
	// Window is the number of positions visible in a windowed layer, including
	// the current one.
	Window int `json:",omitempty"`
	// Windowed marks the layers with the window; nil if none.
	Windowed []bool `json:",omitempty"`
	// Unrotated marks the layers without rotation of queries and keys.
	Unrotated []bool `json:",omitempty"`

	// Experts is E, the number of feed-forward layers a layer chooses from;
	// ExpertsUsed is the number chosen for a position, and ExpertHidden their
	// width. If Experts is zero, there is no choice.
	Experts      int `json:",omitempty"`
	ExpertsUsed  int `json:",omitempty"`
	ExpertHidden int `json:",omitempty"`
	// ExpertSum keeps the softmax over all experts as weights; otherwise the
	// weights of the chosen experts are normalized to 1.
	ExpertSum bool `json:",omitempty"`
	// SharedHidden is the width of the feed-forward layer that every position passes
	// in addition to experts. If zero, the layer is absent.
	SharedHidden int `json:",omitempty"`
	// DenseLead is the number of first layers without experts.
	DenseLead int `json:",omitempty"`
	// ExpertSigmoid scores experts by σ of the router's products, and chooses
	// them by these scores and a bias; otherwise the scores are the softmax.
	ExpertSigmoid bool `json:",omitempty"`
	// ExpertGroups divides the experts into groups, of which the best GroupsUsed
	// may be chosen from. A group is as good as its best expert or, with
	// ExpertSigmoid, its two best. If zero, there is one.
	ExpertGroups int `json:",omitempty"`
	GroupsUsed   int `json:",omitempty"`
	// ExpertScale multiplies the weights of experts; 0: 1.
	ExpertScale float32 `json:",omitempty"`

	// Latent is the compression of keys and values, or nil.
	Latent *Latent `json:",omitempty"`
	// Mixer describes the Recurrent layers, which have a state instead of keys
	// and values; nil without such layers.
	Mixer     *Mixer `json:",omitempty"`
	Recurrent []bool `json:",omitempty"`
	// Feeding marks the layers that are a feed-forward half alone; in such models other
	// layers have none. It is nil if all layers have both halves.
	Feeding []bool `json:",omitempty"`
	// LocalHeadDim and LocalKVHeads are D and G of layers with a window, if different;
	// otherwise 0.
	LocalHeadDim int `json:",omitempty"`
	LocalKVHeads int `json:",omitempty"`
	// WideShared is set if the feed-forward layers of layers that share keys and
	// values are twice as wide as others.
	WideShared bool `json:",omitempty"`
	// Altup describes layers of several residual streams, or is nil.
	Altup *Altup `json:",omitempty"`

	// Curves describes the activation XIELU, or is nil.
	Curves *Curves `json:",omitempty"`

	// Parallel is set if attention and feed-forward read the same residual.
	Parallel bool `json:",omitempty"`
	// Activation is that of the feed-forward layer. If empty, it is that of the
	// style.
	Activation Activation `json:",omitempty"`

	// Cooling is β of the factor 1 + β·ln(1 + ⌊position/OriginalContext⌋) of
	// queries.
	Cooling float32 `json:",omitempty"`

	// Further is the number of layers after the last that propose tokens. They are
	// not computed.
	Further int `json:",omitempty"`

	// Deep is the number of first layers to whose outputs further vectors of a
	// position are added.
	Deep int `json:",omitempty"`

	EmbeddingScale float32 `json:",omitempty"` // factor of embeddings; 0: 1
	ResidualScale  float32 `json:",omitempty"` // factor of layer outputs; 0: 1
	AttentionScale float32 `json:",omitempty"` // factor of q·k; 0: 1/√D
	LogitDivisor   float32 `json:",omitempty"` // divisor of logits; 0: 1
	AttentionCap   float32 `json:",omitempty"` // q·k becomes cap·tanh(q·k/cap); 0: no cap
	LogitCap       float32 `json:",omitempty"` // the same for logits
}

// Limits of a model, far above the models of today.
const (
	maxLayers  = gguf.MaxBlocks
	maxWidth   = 1 << 16
	maxHidden  = 1 << 18
	maxVocab   = 1 << 21
	maxHeads   = 1 << 12
	maxDim     = 1 << 10
	maxExperts = 1 << 10
	// MaxContext limits the positions of a model and of a session.
	MaxContext = 1 << 24
)

// Check validates the shape and returns all errors joined.
func (s Shape) Check() error {
	faults := []error{
		checkArch(s.Arch),
		within("context length", s.Context, 1, MaxContext), within("number of layers", s.Layers, 1, maxLayers),
		within("number of layers that propose tokens", s.Further, 0, maxLayers-s.Layers),
		within("embedding length", s.Width, 1, maxWidth), within("vocabulary size", s.Vocab, 1, maxVocab),
	}
	if s.attends() {
		faults = append(faults,
			within("number of heads", s.Heads, 1, maxHeads), within("number of key/value heads", s.KVHeads, 1, maxHeads),
			within("head size", s.HeadDim, 1, maxDim), within("feed forward length", s.Hidden, 1, maxHidden),
			within("number of heads times their size", s.Heads*s.HeadDim, 1, maxHidden))
	} else if s.Heads != 0 || s.KVHeads != 0 || s.HeadDim != 0 || s.Hidden != 0 || s.Experts != 0 {
		faults = append(faults, fmt.Errorf("architecture %s has no heads and no feed-forward layer", s.Arch))
	}
	if s.KVHeads > 0 && s.Heads%s.KVHeads != 0 {
		faults = append(faults, fmt.Errorf("%d heads cannot share %d key/value heads", s.Heads, s.KVHeads))
	}
	if !(s.Epsilon >= 0) || math.IsInf(float64(s.Epsilon), 0) {
		faults = append(faults, fmt.Errorf("bad epsilon of norms: %v", s.Epsilon))
	}
	if s.Latent != nil {
		faults = append(faults, s.Latent.check(&s))
	}
	faults = append(faults, s.checkLocal())
	if faults = append(faults, s.checkMixer()); errors.Join(faults...) != nil {
		return errors.Join(faults...) // what follows multiplies sizes
	}
	if s.HeadDim > 0 && s.HeadDim <= maxDim && s.Style().rotates() {
		faults = append(faults, s.Rope.check(s.HeadDim))
		if s.Local != nil {
			faults = append(faults, s.Local.check(cmp.Or(s.LocalHeadDim, s.HeadDim)))
		}
	}
	if s.Experts != 0 {
		faults = append(faults, within("number of experts", s.Experts, 1, maxExperts),
			within("number of experts used", s.ExpertsUsed, 1, s.Experts), within("expert feed forward length", s.ExpertHidden, 1, maxHidden))
		if s.SharedHidden != 0 || s.Style().shared {
			faults = append(faults, within("shared expert feed forward length", s.SharedHidden, 1, maxHidden))
		}
		if !s.Style().Gated && !s.Style().halved {
			faults = append(faults, fmt.Errorf("architecture %s has no experts", s.Arch))
		}
		faults = append(faults, s.checkGroups())
	}
	return errors.Join(append(faults, s.checkLayers(), s.checkFactors(), s.checkAltup())...)
}

// checkLocal validates the sizes of layers with a window.
func (s Shape) checkLocal() error {
	if s.LocalHeadDim == 0 && s.LocalKVHeads == 0 && !s.WideShared {
		return nil
	}
	if !s.Style().single {
		return fmt.Errorf("architecture %s: layers of different sizes", s.Arch)
	}
	if s.LocalHeadDim == 0 && s.LocalKVHeads == 0 {
		return nil
	}
	if err := errors.Join(within("head size of layers with a window", s.LocalHeadDim, 1, maxDim), within("number of key/value heads of layers with a window", s.LocalKVHeads, 1, maxHeads)); err != nil {
		return err
	}
	if s.Heads%s.LocalKVHeads != 0 {
		return fmt.Errorf("%d heads cannot share %d key/value heads", s.Heads, s.LocalKVHeads)
	}
	return nil
}

// within returns an error unless a size is within its limits.
func within(name string, v, least, most int) error {
	if v < least || v > most {
		return fmt.Errorf("bad %s: got %d, want %d to %d", name, v, least, most)
	}
	return nil
}

// checkGroups validates the groups of experts.
func (s Shape) checkGroups() error {
	switch {
	case s.DenseLead < 0 || s.DenseLead > s.Layers:
		return fmt.Errorf("bad number of layers without experts: got %d, want 0 to %d", s.DenseLead, s.Layers)
	case s.ExpertGroups == 0 && s.GroupsUsed == 0:
		return nil
	case s.ExpertGroups < 1 || s.ExpertGroups > s.Experts || s.Experts%s.ExpertGroups != 0:
		return fmt.Errorf("%d experts cannot form %d groups", s.Experts, s.ExpertGroups)
	case s.GroupsUsed < 1 || s.GroupsUsed > s.ExpertGroups:
		return fmt.Errorf("bad number of groups used: got %d, want 1 to %d", s.GroupsUsed, s.ExpertGroups)
	case s.ExpertsUsed > s.Experts/s.ExpertGroups*s.GroupsUsed:
		return fmt.Errorf("bad number of experts used: got %d, but %d groups hold %d", s.ExpertsUsed, s.GroupsUsed, s.Experts/s.ExpertGroups*s.GroupsUsed)
	}
	return nil
}

// checkLayers validates the per-layer fields.
func (s Shape) checkLayers() error {
	switch {
	case s.Windowed != nil && len(s.Windowed) != s.Layers:
		return fmt.Errorf("window pattern of %d layers, want %d", len(s.Windowed), s.Layers)
	case s.Unrotated != nil && s.Style().switched && slices.Contains(s.Unrotated, false):
		return fmt.Errorf("architecture %s rotates all layers or none", s.Arch)
	case s.Unrotated != nil && len(s.Unrotated) != s.Layers:
		return fmt.Errorf("rotation pattern of %d layers, want %d", len(s.Unrotated), s.Layers)
	case s.Window < 0 || s.Window > MaxContext*2:
		return fmt.Errorf("bad sliding window %d", s.Window)
	case s.Deep < 0 || s.Deep > 0 && s.Deep >= s.Layers:
		return fmt.Errorf("vectors for %d layers of %d, want fewer", s.Deep, s.Layers)
	case s.Windowed != nil && s.Window == 0:
		return errors.New("zero sliding window in windowed layers")
	}
	return nil
}

// checkFactors validates factors.
func (s Shape) checkFactors() error {
	for _, f := range []struct {
		name string
		v    float32
		sign bool // may be negative
	}{
		{"the embedding scale", s.EmbeddingScale, true}, {"the residual scale", s.ResidualScale, true},
		{"attention scale", s.AttentionScale, true}, {"logit scale", s.LogitDivisor, true},
		{"the factor of late queries", s.Cooling, false}, {"scale of experts", s.ExpertScale, false},
		{"soft cap of attention", s.AttentionCap, false}, {"soft cap of logits", s.LogitCap, false},
	} {
		if math.IsNaN(float64(f.v)) || math.IsInf(float64(f.v), 0) || f.v < 0 && !f.sign {
			return fmt.Errorf("bad %s: %v", f.name, f.v)
		}
	}
	if err := s.checkCurves(); err != nil {
		return err
	}
	if !s.activation().valid() {
		return fmt.Errorf("unsupported activation %q, want silu, clamped_silu, relu, relu2, gelu or its tanh forms", s.Activation)
	}
	return nil
}

// Plain reports whether layers are described by their sizes and rotation alone:
// no windows, experts, scales, caps, or other activation.
func (s Shape) Plain() bool {
	return s.Windowed == nil && s.Unrotated == nil && s.Latent == nil && s.Mixer == nil && s.Altup == nil && s.Curves == nil && s.Deep == 0 && s.Rope.Sections == [3]int{} && s.Local == nil && s.Experts == 0 && !s.Parallel && s.Activation == "" &&
		s.Cooling == 0 && s.EmbeddingScale == 0 && s.ResidualScale == 0 && s.AttentionScale == 0 && s.LogitDivisor == 0 && s.AttentionCap == 0 && s.LogitCap == 0
}

// HeadDimOf returns the dimensions of a head of layer i.
func (s Shape) HeadDimOf(i int) int {
	if s.LocalHeadDim > 0 && s.WindowOf(i) > 0 {
		return s.LocalHeadDim
	}
	return s.HeadDim
}

// KVHeadsOf returns the number of key/value heads of layer i.
func (s Shape) KVHeadsOf(i int) int {
	if s.LocalHeadDim > 0 && s.WindowOf(i) > 0 {
		return s.LocalKVHeads
	}
	return s.KVHeads
}

// HiddenOf returns the width of the feed-forward layer of layer i.
func (s Shape) HiddenOf(i int) int {
	if s.WideShared && s.Altup != nil && i >= s.Layers-s.Altup.Shared {
		return 2 * s.Hidden
	}
	return s.Hidden
}

// feeding returns the width of the feed-forward half of layer i, 0 if a model has
// layers of one half and this is another.
func (s Shape) feeding(i int) int {
	if s.Feeding != nil && !s.Feeding[i] {
		return 0
	}
	return s.HiddenOf(i)
}

// WindowOf returns the number of visible positions of layer i; 0 means all.
func (s Shape) WindowOf(i int) int {
	if s.Windowed == nil || !s.Windowed[i] {
		return 0
	}
	return s.Window
}

// Rotated reports whether layer i rotates queries and keys.
func (s Shape) Rotated(i int) bool {
	return s.Style().rotates() && (s.Unrotated == nil || !s.Unrotated[i])
}

// activation returns the activation of the feed-forward layer.
func (s Shape) activation() Activation {
	if s.Activation == "" {
		return s.Style().Activation
	}
	return s.Activation
}

// Act returns the activation of the feed-forward layer by one of its names.
func (s Shape) Act() Activation { return s.activation().plain() }
