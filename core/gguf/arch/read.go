package arch

import (
	"fmt"
	"math"
	"strings"

	"mm-abi.org/mm/core/gguf"
)

// Keys that package gguf does not define.
const (
	keyLayerNormEps  gguf.ArchKey = "attention.layer_norm_epsilon"
	keyScaleLinear   gguf.ArchKey = "rope.scale_linear" // the factor's older name
	keyRopeLocal     gguf.ArchKey = "rope.freq_base_swa"
	keyYarnAttention gguf.ArchKey = "rope.scaling.yarn_attn_factor"
	keyWindow        gguf.ArchKey = "attention.sliding_window"
	keyPattern       gguf.ArchKey = "attention.sliding_window_pattern"
	keyRopePattern   gguf.ArchKey = "attention.rope_pattern"
	keyExperts       gguf.ArchKey = "expert_count"
	keyExpertsUsed   gguf.ArchKey = "expert_used_count"
	keyExpertHidden  gguf.ArchKey = "expert_feed_forward_length"
	keyExpertNorm    gguf.ArchKey = "expert_weights_norm"
	keySharedHidden  gguf.ArchKey = "expert_shared_feed_forward_length"
	keySharedCount   gguf.ArchKey = "expert_shared_count"
	keyDenseLead     gguf.ArchKey = "leading_dense_block_count"
	keyExpertScale   gguf.ArchKey = "expert_weights_scale"
	keyExpertGate    gguf.ArchKey = "expert_gating_func"
	keyExpertStep    gguf.ArchKey = "interleave_moe_layer_step"
	keyExpertGroups  gguf.ArchKey = "expert_group_count"
	keyGroupsUsed    gguf.ArchKey = "expert_group_used_count"
	keyCooling       gguf.ArchKey = "attention.temperature_scale"
	keyYarnLog       gguf.ArchKey = "rope.scaling.yarn_log_multiplier"
	keyParallel      gguf.ArchKey = "use_parallel_residual"
	keyActivation    gguf.ArchKey = "hidden_activation"
	keyEmbedScale    gguf.ArchKey = "embedding_scale"
	keyResidualScale gguf.ArchKey = "residual_scale"
	keyAttnScale     gguf.ArchKey = "attention.scale"
	keyLogitScale    gguf.ArchKey = "logit_scale"
	keyAttnCap       gguf.ArchKey = "attn_logit_softcapping"
	keySections      gguf.ArchKey = "rope.dimension_sections"
	keyFurther       gguf.ArchKey = "nextn_predict_layers"
	keyDeep          gguf.ArchKey = "n_deepstack_layers"
	keyALiBi         gguf.ArchKey = "attention.max_alibi_bias"
	keyLogitCap      gguf.ArchKey = "final_logit_softcapping"
)

// Read reads the shape of a model from GGUF metadata and validates it.
// Per-layer counts must be the same in all layers. A key with an unsupported
// effect is an error.
func Read(f *gguf.File) (Shape, error) {
	arch, err := gguf.Get[string](f, gguf.KeyArchitecture)
	if err != nil {
		return Shape{}, err
	}
	if err := checkArch(arch); err != nil {
		return Shape{}, err
	}
	r := reader{f: f, arch: arch, style: styles[arch], read: map[string]bool{}}
	epsilon := gguf.KeyRMSEpsilon
	if r.style.LayerNorm {
		epsilon = keyLayerNormEps
	}
	s := Shape{
		Arch:    arch,
		Context: r.count(gguf.KeyContextLength),
		Layers:  r.count(gguf.KeyBlockCount),
		Width:   r.count(gguf.KeyEmbeddingLength),
		Epsilon: r.float(epsilon, float32(math.NaN())),
	}
	if r.err == nil && (s.Layers < 1 || s.Layers > maxLayers) {
		r.fail(fmt.Errorf("bad number of layers: got %d, want 1 to %d", s.Layers, maxLayers))
	}
	if r.style.mixer.delta() {
		if s.Further = r.countOr(keyFurther, 0); s.Further >= s.Layers {
			r.fail(fmt.Errorf("key %s: got %d, want fewer than the %d layers", keyFurther.In(arch), s.Further, s.Layers))
		}
		s.Layers -= s.Further
	}
	if r.err != nil {
		return Shape{}, r.err
	}
	s.Heads = r.perLayer(gguf.KeyHeadCount, s.Layers, -1)
	if r.style.halved {
		r.halves(&s)
	} else if !r.style.single {
		s.Hidden = r.hidden(s.Layers)
	}
	var keys []uint32
	if r.style.mixer == noMixer || r.style.mixer == scanOnly || r.style.mixer.delta() {
		if s.KVHeads = s.Heads; !r.style.single {
			s.KVHeads = r.perLayer(gguf.KeyHeadCountKV, s.Layers, s.Heads)
		}
	} else {
		keys = r.keyHeads(&s)
	}
	r.mixer(&s, keys)
	if !r.style.latent {
		s.HeadDim = r.headDim(s.Width, s.Heads)
	}
	s.Vocab = r.vocabulary()
	r.rotation(&s)
	if r.style.latent {
		r.latent(&s)
	}
	r.window(&s)
	if r.style.altup {
		r.altup(&s)
	}
	r.experts(&s)
	r.factors(&s)
	r.curves(&s)
	if r.style.parallel {
		s.Parallel = r.parallel()
	}
	r.rest()
	if r.err != nil {
		return Shape{}, r.err
	}
	return s, s.Check()
}

// reader reads metadata and keeps the first error.
type reader struct {
	f     *gguf.File
	arch  string
	style Style
	read  map[string]bool // keys that were used
	err   error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// has reports whether a key is present, and marks it as used.
func (r *reader) has(key gguf.ArchKey) bool {
	r.read[key.In(r.arch)] = true
	return r.f.Has(key.In(r.arch))
}

// count reads a required u32.
func (r *reader) count(key gguf.ArchKey) int {
	r.has(key)
	v, err := gguf.Get[uint32](r.f, key.In(r.arch))
	if err != nil {
		r.fail(err)
	}
	return int(v)
}

func (r *reader) countOr(key gguf.ArchKey, absent int) int {
	if !r.has(key) {
		return absent
	}
	return r.count(key)
}

// float reads an f32; absent is the default, or NaN if the key is required.
func (r *reader) float(key gguf.ArchKey, absent float32) float32 {
	r.has(key)
	v, err := gguf.GetOr(r.f, key.In(r.arch), absent)
	if err != nil {
		r.fail(err)
	} else if v != v {
		r.fail(fmt.Errorf("gguf: %s is missing or NaN", key.In(r.arch)))
	}
	return v
}

func (r *reader) text(key gguf.ArchKey) string {
	r.has(key)
	v, err := gguf.GetOr(r.f, key.In(r.arch), "")
	if err != nil {
		r.fail(err)
	}
	return v
}

func (r *reader) flag(key gguf.ArchKey, absent bool) bool {
	r.has(key)
	v, err := gguf.GetOr(r.f, key.In(r.arch), absent)
	if err != nil {
		r.fail(err)
	}
	return v
}

// perLayer reads a count given once or for each layer; absent is the default,
// or negative if the key is required.
func (r *reader) perLayer(key gguf.ArchKey, layers, absent int) int {
	if !r.has(key) && absent >= 0 {
		return absent
	}
	all, err := r.f.PerLayer(key.In(r.arch), layers)
	if err != nil {
		r.fail(err)
		return 0
	}
	for i, v := range all {
		if v != all[0] {
			r.fail(fmt.Errorf("key %s: %d in layer 0, but %d in layer %d: layers of different shapes are not supported", key.In(r.arch), all[0], v, i))
		}
	}
	return int(all[0])
}

// hidden returns the width of layers without experts, which files with experts in
// all layers may omit.
func (r *reader) hidden(layers int) int {
	absent := -1
	if r.style.must && !r.style.lead {
		absent = r.countOr(keyExpertHidden, -1)
	}
	return r.perLayer(gguf.KeyFeedForward, layers, absent)
}

// headDim returns the size of a head, on which keys and values must agree.
func (r *reader) headDim(width, heads int) int {
	dim := 0
	if heads > 0 {
		dim = width / heads
	}
	k, v := r.countOr(gguf.KeyKeyLength, dim), r.countOr(gguf.KeyValueLength, dim)
	if k != v {
		r.fail(fmt.Errorf("unsupported sizes: keys of %d and values of %d dimensions", k, v))
	}
	return k
}

// vocabulary returns the number of tokens: the rows of the embedding.
func (r *reader) vocabulary() int {
	r.has(gguf.KeyVocabSize)
	if t, ok := r.f.Tensor(TokenEmbedding); ok && len(t.Dims) == 2 {
		return t.Dims[1]
	}
	return r.count(gguf.KeyVocabSize)
}

func (r *reader) rotation(s *Shape) {
	if r.style.ALiBi {
		if v := r.float(keyALiBi, alibiBias); v != alibiBias {
			r.fail(fmt.Errorf("key %s: got %v, want %v", keyALiBi.In(r.arch), v, alibiBias))
		}
	}
	if !r.style.rotates() {
		return
	}
	scaling := r.text(gguf.KeyRopeScaling)
	if _, long := r.f.Tensor(RopeLong); long && scaling == "" && r.style.factors {
		scaling = LongRope
	}
	factor := r.float(gguf.KeyRopeFactor, 0)
	if older := r.float(keyScaleLinear, 0); factor == 0 {
		factor = older
	}
	s.Rope = Rope{
		Dims:            r.countOr(gguf.KeyRopeDims, s.HeadDim),
		Base:            r.float(gguf.KeyRopeBase, 10000),
		Halves:          r.style.Halves,
		Scaling:         scaling,
		Factor:          factor,
		OriginalContext: r.countOr(gguf.KeyRopeOriginal, s.Context),
		AttentionFactor: r.float(gguf.KeyRopeAttention, 0),
		ExtFactor:       r.float(gguf.KeyRopeExtFactor, -1),
		YarnAttention:   r.float(keyYarnAttention, 0),
		BetaFast:        r.float(gguf.KeyRopeBetaFast, 0),
		BetaSlow:        r.float(gguf.KeyRopeBetaSlow, 0),
		Smooth:          r.style.Smooth,
	}
	if r.style.cooled && r.float(keyYarnLog, 0) == 1 { // both of yarn's factors cancel
		s.Rope.YarnAttention = 1
	}
	if r.style.latent {
		if s.Rope.YarnLog = r.float(keyYarnLog, 0) * 10; s.Rope.YarnLog != 0 && s.Rope.YarnAttention == 0 {
			s.Rope.YarnAttention = 1
		}
	}
	if r.style.sections {
		r.sections(s)
	}
	if r.style.switched && !r.flag(gguf.KeyRopeFinetuned, true) {
		s.Unrotated = lastOf(s.Layers, 1, false)
	}
	if n := r.style.unrotate; n > 0 {
		s.Unrotated = lastOf(s.Layers, n, true)
	}
	if r.style.unrotate > 0 && r.has(keyRopePattern) {
		s.Unrotated = r.pattern(keyRopePattern, s.Layers)
		for i := range s.Unrotated {
			s.Unrotated[i] = !s.Unrotated[i] // the key lists the rotated ones
		}
	}
}

// sections reads the pairs that rotate by frame, row and column; a fourth number
// is unused.
func (r *reader) sections(s *Shape) {
	stated := r.has(keySections)
	v, err := gguf.GetOr(r.f, keySections.In(r.arch), []int32{0, 0, 0})
	switch {
	case err != nil:
		r.fail(err)
	case len(v) < 3 || len(v) > 4 || len(v) == 4 && v[3] != 0:
		r.fail(fmt.Errorf("gguf: key %s: got %v, want three numbers", keySections.In(r.arch), brief(v)))
	default:
		s.Rope.Sections, s.Rope.Interleaved = [3]int{int(v[0]), int(v[1]), int(v[2])}, stated && r.style.turns
	}
	if r.style.deep {
		s.Deep = r.countOr(keyDeep, 0)
	}
}

// window reads the sliding window of the layers.
func (r *reader) window(s *Shape) {
	n := r.countOr(keyWindow, 0)
	if n >= s.Context && !r.style.local && !r.style.windowed {
		n = 0 // covers the whole context
	}
	stated, local := r.has(keyPattern), r.float(keyRopeLocal, 0)
	switch {
	case n == 0:
		return
	case r.style.every == 0:
		r.fail(fmt.Errorf("key %s: got %d, but architecture %s does not support a sliding window", keyWindow.In(r.arch), n, r.arch))
		return
	case local != 0 && local != s.Rope.Base && !r.style.local && !r.style.unscaled:
		r.fail(fmt.Errorf("key %s: got %v, but architecture %s has one base for all layers", keyRopeLocal.In(r.arch), local, r.arch))
		return
	}
	s.Window = n
	s.Windowed = lastOf(s.Layers, r.style.every, false)
	if r.style.windowed {
		defer func() { s.Unrotated = unwindowed(s.Windowed) }()
	}
	if stated {
		if v, err := gguf.Get[uint32](r.f, keyPattern.In(r.arch)); err == nil {
			s.Windowed = lastOf(s.Layers, int(min(v, maxLayers+1)), false)
		} else {
			s.Windowed = r.pattern(keyPattern, s.Layers)
		}
	}
	if local == 0 && r.style.local {
		local = 10000
	} else if local == 0 {
		local = s.Rope.Base
	}
	if r.style.local || r.style.unscaled {
		s.Local = &Rope{Dims: s.Rope.Dims, Base: local, Halves: s.Rope.Halves, OriginalContext: s.Rope.OriginalContext, ExtFactor: -1}
	}
}

// pattern reads a boolean for each layer.
func (r *reader) pattern(key gguf.ArchKey, layers int) []bool {
	r.has(key)
	v, err := gguf.Get[[]bool](r.f, key.In(r.arch))
	switch {
	case err != nil:
		r.fail(err)
	case len(v) != layers:
		r.fail(fmt.Errorf("gguf: key %s: got %d entries, want %d", key.In(r.arch), len(v), layers))
	}
	return append([]bool(nil), v...)
}

func (r *reader) experts(s *Shape) {
	n := r.countOr(keyExperts, 0)
	switch {
	case n == 0 && r.style.must:
		r.fail(fmt.Errorf("architecture %s requires experts: key %s is missing or 0", r.arch, keyExperts.In(r.arch)))
	case n > 0 && !r.style.experts:
		r.fail(fmt.Errorf("key %s: got %d, but architecture %s does not support experts", keyExperts.In(r.arch), n, r.arch))
	case n == 0:
		if r.style.counted { // keys without an effect
			for _, k := range []gguf.ArchKey{keyDenseLead, keyExpertHidden, keySharedCount, keyExpertScale, keyExpertGate} {
				r.has(k)
			}
		}
		if r.style.sharing {
			r.has(keyExpertsUsed)
			r.has(keySharedHidden)
		}
		return
	}
	if _, dense := r.f.Tensor(Block(0) + "ffn_gate.weight"); dense && !r.style.counted && !r.style.lead && !r.style.Joined {
		r.fail(fmt.Errorf("key %s: got %d, but layer 0 is without experts: mixed layers are not supported", keyExperts.In(r.arch), n))
	}
	s.Experts, s.ExpertsUsed = n, r.count(keyExpertsUsed)
	s.ExpertHidden = r.perLayer(keyExpertHidden, s.Layers, s.Hidden)
	s.ExpertSum = !r.flag(keyExpertNorm, !r.style.summed)
	switch {
	case r.style.counted:
		r.counted(s)
	case r.style.shared:
		s.SharedHidden = r.countOr(keySharedHidden, s.Hidden)
	case r.style.sharing:
		s.SharedHidden = r.countOr(keySharedHidden, 0)
	}
	if r.style.lead {
		r.lead(s)
	}
	if r.style.halved {
		if s.ExpertScale = r.float(keyExpertScale, 0); s.ExpertScale == 1 {
			s.ExpertScale = 0
		}
	}
	if r.style.groups {
		r.groups(s)
	}
}

// counted reads a shared expert that is as wide as some experts, and the number
// of first layers without any.
func (r *reader) counted(s *Shape) {
	n := r.count(keySharedCount)
	if n < 0 || n > maxExperts {
		r.fail(fmt.Errorf("key %s: got %d, want 0 to %d", keySharedCount.In(r.arch), n, maxExperts))
		return
	}
	s.SharedHidden = n * s.ExpertHidden
	r.lead(s)
}

// lead reads the number of first layers without experts and the scale of others.
func (r *reader) lead(s *Shape) {
	s.DenseLead = r.countOr(keyDenseLead, 0)
	if s.ExpertScale = r.float(keyExpertScale, 0); s.ExpertScale == 1 {
		s.ExpertScale = 0
	}
}

// Numbers of expert_gating_func.
const (
	gateSoftmax = 1
	gateSigmoid = 2
)

// groups reads how experts are scored and grouped.
func (r *reader) groups(s *Shape) {
	switch gate := r.countOr(keyExpertGate, 0); gate {
	case 0:
		s.ExpertSigmoid = r.style.sigmoid
	case gateSoftmax:
	case gateSigmoid:
		s.ExpertSigmoid = true
	default:
		r.fail(fmt.Errorf("key %s: got %d, want 1 (softmax) or 2 (sigmoid)", keyExpertGate.In(r.arch), gate))
	}
	if n := r.countOr(keyExpertGroups, 1); n != 1 {
		s.ExpertGroups, s.GroupsUsed = n, r.count(keyGroupsUsed)
	} else {
		r.countOr(keyGroupsUsed, 1)
	}
}

// factors reads scales and caps.
func (r *reader) factors(s *Shape) {
	s.Activation = Activation(r.text(keyActivation))
	if s.Activation.plain() == r.style.Activation {
		s.Activation = "" // the style's default
	}
	// A factor of 1, like an absent one, is stored as 0.
	factor := func(key gguf.ArchKey) float32 {
		if v := r.float(key, 0); v != 1 {
			return v
		}
		return 0
	}
	s.EmbeddingScale, s.ResidualScale = factor(keyEmbedScale), factor(keyResidualScale)
	s.AttentionScale = r.float(keyAttnScale, 0)
	if s.AttentionScale == 0 {
		s.AttentionScale = r.unstated(s)
	}
	if r.style.divisor {
		s.LogitDivisor = factor(keyLogitScale)
	}
	if r.style.factor {
		if s.LogitDivisor = factor(keyLogitScale); s.LogitDivisor != 0 {
			s.LogitDivisor = 1 / s.LogitDivisor
		}
	}
	if r.style.cooled {
		s.Cooling = r.float(keyCooling, 0)
	}
	if r.style.caps {
		s.AttentionCap, s.LogitCap = r.float(keyAttnCap, 0), r.float(keyLogitCap, r.style.logits)
	}
}

// unstated returns the attention scale of the two models whose files omit it,
// Gemma 2 and 3 of 27 billion weights: 1/√(C/H).
func (r *reader) unstated(s *Shape) float32 {
	if (r.arch == "gemma2" && s.Layers == 46 || r.arch == "gemma3" && s.Layers == 62) && s.Heads > 0 {
		return float32(1 / math.Sqrt(float64(s.Width/s.Heads)))
	}
	return 0
}

// parallel reports whether the halves read the same residual. The key is wrong
// in files of StableLM: there the norm of the second half decides.
func (r *reader) parallel() bool {
	flag := r.flag(keyParallel, r.style.Activation == GELU)
	if r.style.SharedInput {
		_, norm := r.f.Tensor(Block(0) + "ffn_norm.weight")
		return !norm
	}
	return flag
}

// rest refuses unused keys of the architecture, unless they match the default
// behavior.
func (r *reader) rest() {
	var unknown faults
	for _, kv := range r.f.KVs {
		key, ours := strings.CutPrefix(kv.Key, r.arch+".")
		if !ours || r.read[kv.Key] || neutral(gguf.ArchKey(key), kv.Value) || unknown.full() {
			continue
		}
		unknown.add("key %s is %v: architecture %s is not supported with it, and the result would be wrong without", kv.Key, brief(kv.Value), r.arch)
	}
	if err := unknown.join(); err != nil {
		r.fail(err)
	}
}

// neutral reports whether a key matches the default behavior.
func neutral(key gguf.ArchKey, value any) bool {
	switch key {
	case "tensor_data_layout", "pooling_type", "rope.scaling.original_context_length":
		return true
	case gguf.KeyRopeFinetuned:
		return value != false // true disables rotation in Granite
	case "attention.causal":
		return value == true
	case keyLogitScale, keyExpertScale:
		return value == float32(1) || value == float32(0)
	case keyExpertStep:
		return value == uint32(1)
	case keyExpertGate:
		return value == uint32(1) || value == uint32(0) // softmax
	}
	switch v := value.(type) {
	case uint32, int32, uint64, int64, float32, float64, uint16, int16, uint8, int8:
		return fmt.Sprint(v) == "0"
	case bool:
		return !v
	case string:
		return v == ""
	}
	return false
}

// brief formats a value for a message.
func brief(v any) string {
	s := fmt.Sprint(v)
	if len(s) > 64 {
		return s[:61] + "..."
	}
	return s
}
