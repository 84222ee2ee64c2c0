// Package llm is the GPT that mm trains: its configuration, its weights, and
// the forward and backward pass of its blocks, without autograd. The blocks are
// built from train/nn; RWKV's time mixing is here.
//
// Letters used throughout: B sequences in a batch, T positions in a sequence, C
// = Dim, H query heads, G key/value heads, D elements per head, F = Hidden, V
// vocabulary. Shapes are written [rows, columns]; a matrix of activations has
// one row per position.
//
// A [Model] holds named tensors, each with its gradient. A [Pass] holds the
// memory of one batch. [Pass.Train] runs the forward and backward pass of each
// sequence on any free thread, independent of the other sequences. Then the
// weight gradients, which sum over all sequences, are split over threads by
// columns. Both halves are bit-identical for any number of threads. An
// optimizer updates the weights and [Model.Refresh] packs them for the next
// step.
//
// A position attends to, shifts from and keeps the state of its document only,
// see [Batch].
//
// Everything is generic in the element type: float32 runs on the assembly
// kernels of core/tensor, float64 on plain Go, in which [Gradcheck] compares
// every gradient with central differences.
package llm

import (
	"errors"
	"fmt"
	"math"
)

// Mixer selects the layer by which positions exchange information.
type Mixer string

// The mixers.
const (
	Attention Mixer = "attention" // causal softmax attention
	RWKV      Mixer = "rwkv"      // linear attention with per-channel decay
)

// Activation is the non-linearity of the feed-forward network.
type Activation string

// The activations.
const (
	SwiGLU Activation = "swiglu" // silu(gate)·up
	ReLU2  Activation = "relu2"  // max(up, 0)²
)

// Rope is the order of the pairs that rotary position embedding rotates.
type Rope string

// The layouts of rotary position embedding.
const (
	RopeHalf  Rope = "half"        // (x[i], x[i+D/2]): GPT-NeoX, Hugging Face
	RopePairs Rope = "interleaved" // (x[2i], x[2i+1]): the paper, GGUF's llama
)

// Config is the shape of a model. Comments state the default of a zero field.
type Config struct {
	Vocab      int        `json:"vocab_size"`
	Dim        int        `json:"dim"`
	Layers     int        `json:"layers"`
	Heads      int        `json:"heads"`
	KVHeads    int        `json:"kv_heads,omitempty"`   // Heads; fewer is grouped-query attention
	HeadDim    int        `json:"head_dim,omitempty"`   // Dim / Heads
	Hidden     int        `json:"hidden,omitempty"`     // 4·Dim
	Context    int        `json:"context"`              // positions the model supports
	Mixer      Mixer      `json:"mixer,omitempty"`      // attention
	Activation Activation `json:"activation,omitempty"` // swiglu
	Rope       Rope       `json:"rope,omitempty"`       // half
	RopeBase   float64    `json:"rope_base,omitempty"`  // 10000
	NormEps    float64    `json:"norm_eps,omitempty"`   // 1e-6
	QKNorm     bool       `json:"qk_norm,omitempty"`    // RMSNorm on every query and key head
	Tied       bool       `json:"tied,omitempty"`       // the head is the embedding
	EmbedNorm  bool       `json:"embed_norm,omitempty"` // RMSNorm after the embedding
}

// maxExtent bounds every dimension of a configuration and the total width of
// all heads, so that the number of weights cannot overflow.
const maxExtent = 1 << 20

// WithDefaults returns c with the defaults filled in.
func (c Config) WithDefaults() Config {
	if c.KVHeads == 0 {
		c.KVHeads = c.Heads
	}
	if c.HeadDim == 0 && c.Heads > 0 {
		c.HeadDim = c.Dim / c.Heads
	}
	if c.Hidden == 0 {
		c.Hidden = 4 * c.Dim
	}
	if c.Mixer == "" {
		c.Mixer = Attention
	}
	if c.Activation == "" {
		c.Activation = SwiGLU
	}
	if c.Rope == "" {
		c.Rope = RopeHalf
	}
	if c.RopeBase == 0 {
		c.RopeBase = 10000
	}
	if c.NormEps == 0 {
		c.NormEps = 1e-6
	}
	return c
}

// Validate reports all faults of c with the defaults filled in.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for _, d := range []struct {
		name string
		n    int
	}{
		{"vocab_size", c.Vocab}, {"dim", c.Dim}, {"layers", c.Layers}, {"heads", c.Heads},
		{"kv_heads", c.KVHeads}, {"head_dim", c.HeadDim}, {"hidden", c.Hidden}, {"context", c.Context},
	} {
		fault(d.n < 1 || d.n > maxExtent, "%s out of range: got %d, want 1 to %d", d.name, d.n, maxExtent)
	}
	fault(c.Heads > 0 && c.HeadDim > maxExtent/c.Heads, "%d heads of %d: total width exceeds %d", c.Heads, c.HeadDim, maxExtent)
	fault(c.Layers > 1024, "layers out of range: got %d, want at most 1024", c.Layers)
	fault(c.KVHeads > 0 && c.Heads%c.KVHeads != 0, "heads %d is not a multiple of kv_heads %d", c.Heads, c.KVHeads)
	fault(c.HeadDim%2 != 0, "head_dim %d is odd", c.HeadDim)
	fault(c.Mixer != Attention && c.Mixer != RWKV, "unknown mixer %q, want %q or %q", c.Mixer, Attention, RWKV)
	fault(c.Activation != SwiGLU && c.Activation != ReLU2, "unknown activation %q, want %q or %q", c.Activation, SwiGLU, ReLU2)
	fault(c.Rope != RopeHalf && c.Rope != RopePairs, "unknown rope %q, want %q or %q", c.Rope, RopeHalf, RopePairs)
	fault(!(c.RopeBase > 0) || math.IsInf(c.RopeBase, 0), "rope_base %v is not positive", c.RopeBase)
	fault(!(c.NormEps > 0) || c.NormEps >= 1, "norm_eps out of range: got %v, want 0 < norm_eps < 1", c.NormEps)
	if c.Mixer == RWKV {
		fault(c.QKNorm, "qk_norm requires mixer %q", Attention)
		fault(c.KVHeads != c.Heads, "mixer %q has no grouped heads: kv_heads must equal heads", RWKV)
	}
	return errors.Join(errs...)
}

// Parameters returns the number of weights of a model of this shape.
func (c Config) Parameters() int {
	n := 0
	for _, s := range c.WithDefaults().specs() {
		n += s.Size()
	}
	return n
}

// FLOPs returns the floating-point operations of training on one position: six
// per multiplied weight (two forward, four backward) and the causal half of
// attention over sequences of t positions.
func (c Config) FLOPs(t int) int {
	c = c.WithDefaults()
	weights := c.Vocab * c.Dim // the head, which a tied model shares with the embedding
	for _, s := range c.specs() {
		if len(s.Shape) == 2 && s.Layer >= 0 && !s.Vector {
			weights += s.Size()
		}
	}
	mixing := 6 * t * c.Heads * c.HeadDim
	if c.Mixer == RWKV {
		mixing = 18 * c.Heads * c.HeadDim * c.HeadDim
	}
	return 6*weights + c.Layers*mixing
}
