package arch

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Activation is the function of the feed-forward layer, by Hugging Face's
// names.
type Activation string

// The activations.
const (
	SiLU     Activation = "silu"
	GELU     Activation = "gelu"              // x·Φ(x)
	GELUTanh Activation = "gelu_pytorch_tanh" // the same with a tanh
	// ClampedSiLU is (u+1)·g·σ(αg) of a gate g and a product u, both clamped, with
	// the constants of gpt-oss.
	ClampedSiLU Activation = "clamped_silu"
	ReLU        Activation = "relu"
	ReLU2       Activation = "relu2" // max(x, 0)²
	// XIELU is a parabola above 0 and an exponential below, with numbers of each layer,
	// in Shape.Curves (arXiv 2411.13010).
	XIELU Activation = "xielu"
)

// plain maps aliases to one name.
func (a Activation) plain() Activation {
	switch a {
	case "swish":
		return SiLU
	case "gelu_new", "gelu_fast":
		return GELUTanh
	}
	return a
}

func (a Activation) valid() bool {
	switch a.plain() {
	case SiLU, GELU, GELUTanh, ClampedSiLU, ReLU, ReLU2, XIELU:
		return true
	}
	return false
}

// HeadNorm is the normalization of queries and keys.
type HeadNorm uint8

// The norms of queries and keys.
const (
	NoHeadNorm    HeadNorm = iota
	SharedNorm             // each head, all with the same D gains
	SeparateNorm           // each head with its D gains, if present
	WholeHeadNorm          // all heads as one vector
)

// Style describes the layers of an architecture.
type Style struct {
	// Halves rotates x[i] with x[i+D/2] instead of x[2i] with x[2i+1].
	Halves bool
	// Neighbors is set if transformers rotates neighbors too: rows of queries and
	// keys have the same order there.
	Neighbors bool
	// QueryGates is set if each head's query is followed by a gate, by whose σ the
	// head's result is multiplied.
	QueryGates bool
	// Learned adds a learned vector for each position instead of rotating.
	Learned bool
	// LayerNorm subtracts the mean and adds a bias; otherwise norms are
	// RMSNorm.
	LayerNorm bool
	// NoNormBias omits the biases of LayerNorm.
	NoNormBias bool
	// PostNorm normalizes the outputs of a layer's halves; NoPreNorm omits the
	// norms of their inputs.
	PostNorm, NoPreNorm bool
	HeadNorm            HeadNorm
	// Turned normalizes queries and keys after their rotation.
	Turned     bool
	Activation Activation
	// Gated multiplies the activation of one product by another product.
	Gated bool
	// FusedQKV and FusedGate store the matrices of one input as one tensor.
	FusedQKV, FusedGate bool
	// RootWidth multiplies embeddings by √C.
	RootWidth bool
	// SharedInput uses one norm for both halves if they read the same residual.
	SharedInput bool
	// Sinks adds the exponential of a learned score for each head to the sum of
	// those of the visible positions.
	Sinks bool
	// ExpertBias adds a bias to the matrices of experts and of the router.
	ExpertBias bool
	// Smooth does not round the bounds of yarn's ramp.
	Smooth bool
	// ValueNorm normalizes the values of each head, without gains.
	ValueNorm bool
	// Unscaled leaves the products of queries and keys as they are.
	Unscaled bool
	// ALiBi subtracts the distance of a position, times a slope of the head, from its
	// score (arXiv 2108.12409) instead of rotating.
	ALiBi bool
	// Unplaced layers of attention have no positions.
	Unplaced bool
	// EmbeddingNorm normalizes the embeddings.
	EmbeddingNorm bool
	// SharedGate multiplies the shared expert by σ(w·x).
	SharedGate bool

	// Joined adds the results of a feed-forward layer and of experts, each normalized,
	// in layers with experts. The router and the experts have norms of the input.
	Joined bool

	parallel bool    // attention and feed-forward may read the same residual
	experts  bool    // experts are supported
	must     bool    // and required
	every    int     // the last of so many layers has no window; 1: all have it; 0: none
	unrotate int     // the last of so many layers is not rotated
	local    bool    // windowed layers have a separate base, by default 10000
	divisor  bool    // logit_scale divides logits
	factor   bool    // logit_scale multiplies logits
	output   bool    // the output has a bias
	two      bool    // the halves may have a norm each, and attention's is attn_norm_2
	shared   bool    // a shared expert
	summed   bool    // weights of experts are not normalized, unless stated
	windowed bool    // only layers with a window are rotated, if there are any
	cooled   bool    // queries grow with the logarithm of their position
	second   bool    // ffn_norm is called post_attention_norm
	caps     bool    // soft caps
	sections bool    // pairs rotate by frame, row and column
	turns    bool    // pairs of the sections alternate
	deep     bool    // further vectors for the first layers
	factors  bool    // rope_factors_{long,short} without a named method
	latent   bool    // latent attention
	counted  bool    // the shared expert's width is a number of experts
	mixer    mixing  // layers with a state
	lead     bool    // first layers without experts
	sharing  bool    // a shared expert, if its width is stated
	switched bool    // rope.scaling.finetuned switches rotation
	groups   bool    // groups of experts, and scores by σ with a bias
	sigmoid  bool    // scores are σ, unless stated
	loosely  bool    // SharedNorm may be absent
	unscaled bool    // layers with a window rotate without scaling
	altup    bool    // several residual streams, or numbers of each token for each layer
	single   bool    // of these, one stream; layers with a window have heads of other sizes
	halved   bool    // a layer is attention, a state space or a feed-forward half
	logits   float32 // soft cap of logits, unless stated
}

// styles maps GGUF's names of architectures to styles.
var styles = map[string]Style{
	"llama":          {Activation: SiLU, Gated: true, experts: true, every: 1},
	"qwen2":          {Halves: true, Activation: SiLU, Gated: true},
	"qwen2vl":        {Halves: true, Activation: SiLU, Gated: true, sections: true},
	"qwen3vl":        {Halves: true, HeadNorm: SharedNorm, Activation: SiLU, Gated: true, sections: true, turns: true, deep: true},
	"qwen3vlmoe":     {Halves: true, HeadNorm: SharedNorm, Activation: SiLU, Gated: true, experts: true, must: true, sections: true, turns: true, deep: true},
	"qwen3":          {Halves: true, HeadNorm: SharedNorm, Activation: SiLU, Gated: true},
	"qwen3moe":       {Halves: true, HeadNorm: SharedNorm, Activation: SiLU, Gated: true, experts: true, must: true},
	"gemma":          {Halves: true, Activation: GELUTanh, Gated: true, RootWidth: true},
	"gemma2":         {Halves: true, PostNorm: true, Activation: GELUTanh, Gated: true, RootWidth: true, every: 2, caps: true},
	"gemma3":         {Halves: true, PostNorm: true, HeadNorm: SharedNorm, Activation: GELUTanh, Gated: true, RootWidth: true, every: 6, local: true, caps: true},
	"gemma3n":        {Halves: true, PostNorm: true, HeadNorm: SharedNorm, ValueNorm: true, Unscaled: true, Activation: GELUTanh, Gated: true, RootWidth: true, every: 5, local: true, caps: true, logits: usualLogits, altup: true},
	"gemma4":         {Halves: true, PostNorm: true, HeadNorm: SharedNorm, ValueNorm: true, Unscaled: true, Activation: GELUTanh, Gated: true, RootWidth: true, every: 6, local: true, caps: true, altup: true, single: true, experts: true, Joined: true},
	"phi3":           {Halves: true, Activation: SiLU, Gated: true, FusedQKV: true, FusedGate: true, every: 1, factors: true},
	"smollm3":        {Activation: SiLU, Gated: true, unrotate: 4},
	"olmo2":          {Halves: true, PostNorm: true, NoPreNorm: true, HeadNorm: WholeHeadNorm, Activation: SiLU, Gated: true, every: 4, unscaled: true},
	"granite":        {Activation: SiLU, Gated: true, divisor: true},
	"stablelm":       {Halves: true, LayerNorm: true, HeadNorm: SeparateNorm, Activation: SiLU, Gated: true, SharedInput: true, parallel: true},
	"gpt2":           {Learned: true, LayerNorm: true, Activation: GELUTanh, FusedQKV: true},
	"qwen2moe":       {Halves: true, Activation: SiLU, Gated: true, experts: true, must: true, shared: true, SharedGate: true, summed: true},
	"olmoe":          {Halves: true, HeadNorm: WholeHeadNorm, Activation: SiLU, Gated: true, experts: true, must: true, summed: true},
	"flexolmo":       {Halves: true, PostNorm: true, NoPreNorm: true, HeadNorm: WholeHeadNorm, Activation: SiLU, Gated: true, experts: true, must: true, summed: true},
	"gpt-oss":        {Halves: true, Activation: ClampedSiLU, Gated: true, Sinks: true, ExpertBias: true, experts: true, must: true, every: 2, Smooth: true, second: true},
	"granitemoe":     {Activation: SiLU, Gated: true, divisor: true, experts: true, must: true, sharing: true},
	"deepseek":       {Activation: SiLU, Gated: true, experts: true, must: true, shared: true, counted: true, summed: true},
	"deepseek2":      {Neighbors: true, Activation: SiLU, Gated: true, experts: true, shared: true, counted: true, summed: true, latent: true, groups: true},
	"lfm2":           {Halves: true, HeadNorm: SharedNorm, Activation: SiLU, Gated: true, mixer: shortMixer},
	"granitehybrid":  {Activation: SiLU, Gated: true, divisor: true, experts: true, sharing: true, switched: true, mixer: scanMixer},
	"lfm2moe":        {Halves: true, HeadNorm: SharedNorm, Activation: SiLU, Gated: true, experts: true, must: true, lead: true, groups: true, mixer: shortMixer},
	"qwen3next":      {Halves: true, HeadNorm: SharedNorm, Activation: SiLU, Gated: true, experts: true, must: true, shared: true, SharedGate: true, second: true, QueryGates: true, mixer: deltaMixer},
	"qwen35":         {Halves: true, HeadNorm: SharedNorm, Activation: SiLU, Gated: true, second: true, QueryGates: true, mixer: tiledMixer, sections: true, turns: true},
	"qwen35moe":      {Halves: true, HeadNorm: SharedNorm, Activation: SiLU, Gated: true, experts: true, must: true, shared: true, SharedGate: true, second: true, QueryGates: true, mixer: tiledMixer, sections: true, turns: true},
	"nemotron_h":     {Unplaced: true, Activation: ReLU2, mixer: scanMixer, halved: true},
	"nemotron_h_moe": {Unplaced: true, Activation: ReLU2, experts: true, must: true, sharing: true, summed: true, groups: true, sigmoid: true, mixer: scanMixer, halved: true},
	"mamba2":         {Learned: true, Activation: SiLU, Gated: true, mixer: scanOnly},
	"glm4":           {Neighbors: true, PostNorm: true, Activation: SiLU, Gated: true, FusedGate: true},
	"mistral3":       {Activation: SiLU, Gated: true, cooled: true},
	"phi2":           {Halves: true, LayerNorm: true, Activation: GELUTanh, SharedInput: true, parallel: true, output: true},
	"falcon":         {Halves: true, LayerNorm: true, Activation: GELU, FusedQKV: true, SharedInput: true, parallel: true, two: true},
	"command-r":      {Neighbors: true, LayerNorm: true, NoNormBias: true, HeadNorm: SeparateNorm, Activation: SiLU, Gated: true, SharedInput: true, parallel: true, factor: true},
	"cohere2":        {Neighbors: true, LayerNorm: true, NoNormBias: true, Activation: SiLU, Gated: true, SharedInput: true, parallel: true, factor: true, every: 4, windowed: true},
	"starcoder2":     {Halves: true, LayerNorm: true, Activation: GELUTanh},
	"exaone4":        {Halves: true, PostNorm: true, NoPreNorm: true, HeadNorm: SharedNorm, Activation: SiLU, Gated: true, every: 4, windowed: true},
	"ernie4_5":       {Neighbors: true, Activation: SiLU, Gated: true},
	"seed_oss":       {Halves: true, Activation: SiLU, Gated: true, second: true},
	"glm4moe":        {Halves: true, HeadNorm: SharedNorm, Activation: SiLU, Gated: true, experts: true, must: true, shared: true, counted: true, summed: true, groups: true, second: true, sigmoid: true, loosely: true},
	"dots1":          {Halves: true, HeadNorm: SharedNorm, Activation: SiLU, Gated: true, experts: true, must: true, shared: true, counted: true, summed: true, groups: true},
	"ernie4_5-moe":   {Neighbors: true, Activation: SiLU, Gated: true, experts: true, must: true, lead: true, sharing: true, groups: true},
	"hunyuan-dense":  {Halves: true, HeadNorm: SharedNorm, Turned: true, Activation: SiLU, Gated: true},
	"hunyuan-moe":    {Halves: true, HeadNorm: SharedNorm, Turned: true, Activation: SiLU, Gated: true, experts: true, must: true, shared: true},
	"minimax-m2":     {Halves: true, HeadNorm: WholeHeadNorm, Activation: SiLU, Gated: true, experts: true, must: true, groups: true},
	"chatglm":        {Neighbors: true, Activation: SiLU, Gated: true, FusedGate: true},
	"apertus":        {Halves: true, HeadNorm: SharedNorm, Activation: XIELU},
	"arcee":          {Activation: ReLU2},
	"starcoder":      {Learned: true, LayerNorm: true, Activation: GELUTanh, FusedQKV: true},
	"nemotron":       {Halves: true, LayerNorm: true, Activation: ReLU2},
	"gptj":           {Neighbors: true, LayerNorm: true, Activation: GELUTanh, SharedInput: true, parallel: true, output: true},
	"opt":            {Learned: true, LayerNorm: true, Activation: ReLU},
	"gptneo":         {Learned: true, LayerNorm: true, Unscaled: true, Activation: GELUTanh, every: 2},
	"bloom":          {ALiBi: true, EmbeddingNorm: true, LayerNorm: true, Activation: GELUTanh, FusedQKV: true},
	"mpt":            {ALiBi: true, LayerNorm: true, NoNormBias: true, Activation: GELU, FusedQKV: true},
	"gptneox":        {Halves: true, LayerNorm: true, Activation: GELU, FusedQKV: true, parallel: true},
}

// Reordered reports whether the rows of queries and keys have another order than
// in transformers, which rotates halves where GGUF rotates neighbors.
func (s Shape) Reordered() bool {
	y := s.Style()
	return !s.Rope.Halves && !y.Neighbors && y.rotates()
}

// rotates reports whether positions rotate queries and keys.
func (y Style) rotates() bool { return !y.Learned && !y.ALiBi && !y.Unplaced }

// Slopes returns the slope of each of n heads (ALiBi): powers of 2 from 2^(-8/p) to
// 2^-8 for the p heads of the largest power of 2, and those between for others.
func Slopes(n int) []float32 {
	p := 1
	for 2*p <= n {
		p *= 2
	}
	out := make([]float32, n)
	for h := range out {
		if out[h] = float32(math.Exp2(-alibiBias * float64(h+1) / float64(p))); h >= p {
			out[h] = float32(math.Exp2(-alibiBias * (float64(h-p) + 0.5) / float64(p)))
		}
	}
	return out
}

// alibiBias is the exponent of the last slope.
const alibiBias = 8

// Style returns the style of the shape's architecture.
func (s Shape) Style() Style { return styles[s.Arch] }

// Known returns the names of the architectures.
func Known() []string { return slices.Sorted(maps.Keys(styles)) }

// ErrUnknown reports an architecture outside of [Known]. Other engines may run it.
var ErrUnknown = errors.New("unsupported architecture")

func checkArch(arch string) error {
	if _, ok := styles[arch]; !ok {
		return fmt.Errorf("%w %q, want one of %s", ErrUnknown, arch, strings.Join(Known(), ", "))
	}
	return nil
}

// lastOf marks, in each run of n layers, all but the last (or only the last,
// with last): an architecture's default pattern.
func lastOf(layers, n int, last bool) []bool {
	out := make([]bool, layers)
	for i := range out {
		out[i] = ((i+1)%max(n, 1) == 0 && n > 1) == last
	}
	return out
}

// unwindowed marks the layers that windowed does not.
func unwindowed(windowed []bool) []bool {
	out := make([]bool, len(windowed))
	for i, has := range windowed {
		out[i] = !has
	}
	return out
}
