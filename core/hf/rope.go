package hf

import (
	"cmp"
	"math"

	"mm-abi.org/mm/core/gguf/arch"
)

// rope reads rotary embedding: rope_parameters of transformers 5, or rope_theta
// and rope_scaling of older versions.
func (r *shapeReader) rope() {
	s := &r.s
	base := r.float("rope_theta", r.float("rotary_emb_base", cmp.Or(r.family.base, r.base())))
	part := r.float("partial_rotary_factor", r.float("rotary_pct", r.part()))
	local := r.float("rope_local_base_freq", cmp.Or(r.family.base, 10000))
	o := r.object("rope_parameters")
	if o == nil {
		o = r.object("rope_scaling")
	} else {
		r.has("rope_scaling") // the same in the older spelling
	}
	if o != nil && o.has("full_attention") {
		if inner := o.object("sliding_attention"); inner != nil {
			local = inner.float("rope_theta", local)
			inner.must("rope_type", "default")
			r.take(inner, "rope_parameters.sliding_attention.")
		}
		r.take(o, "rope_parameters.")
		o = o.object("full_attention")
	}
	if o == nil {
		o = &config{heeded: map[string]bool{}}
	}
	base = o.float("rope_theta", base)
	part = o.float("partial_rotary_factor", part)
	s.Rope = arch.Rope{Dims: int(float64(s.HeadDim) * part), Base: float32(base), Halves: r.style.Halves, OriginalContext: s.Context, ExtFactor: -1}
	if part != 1 && s.Reordered() && !r.family.part {
		r.fail("key partial_rotary_factor: got %v, but architecture %s rotates full heads", part, s.Arch)
	}
	r.sections(o)
	r.stretch(o)
	r.take(o, "rope_parameters.")
	if r.family.local {
		s.Local = &arch.Rope{Dims: s.Rope.Dims, Base: float32(local), Halves: true, OriginalContext: s.Rope.OriginalContext, ExtFactor: -1}
	}
}

// base and part are the defaults of the architecture's classes in transformers, unless
// [defaults] has them.
func (r *shapeReader) base() float64 {
	if r.s.Arch == "gemma3" || r.s.Arch == "gemma3n" {
		return 1e6
	}
	return 10000
}

func (r *shapeReader) part() float64 {
	switch r.s.Arch {
	case "stablelm", "gptneox", "qwen3next", "qwen35", "qwen35moe":
		return 0.25
	case "phi2", "glm4", "chatglm", "glm4moe", "nemotron":
		return 0.5
	case "minimax-m2":
		if dims := r.countOr("rotary_dim", 0); dims > 0 && r.s.HeadDim > 0 {
			return float64(dims) / float64(r.s.HeadDim)
		}
	}
	return 1
}

// take refuses unused keys of a nested object.
func (r *shapeReader) take(o *config, what string) {
	o.rest(what, r.ignore)
	r.errs, r.notes = append(r.errs, o.errs...), append(r.notes, o.notes...)
}

// sections reads the pairs that rotate by frame, row and column, of an
// architecture that has them.
func (r *shapeReader) sections(o *config) {
	var v []int
	switch r.s.Arch {
	case "qwen2vl":
		v = []int{16, 24, 24}
	case "qwen3vl", "qwen3vlmoe":
		v = []int{24, 20, 20}
	case "qwen35", "qwen35moe":
		v = []int{11, 11, 10}
	default:
		return
	}
	o.get("mrope_section", &v)
	if len(v) != 3 {
		r.fail("key mrope_section: got %d numbers, want 3", len(v))
		return
	}
	r.s.Rope.Sections = [3]int(v)
	r.s.Rope.Interleaved = r.s.Arch != "qwen2vl"
	o.must("mrope_interleaved", r.s.Rope.Interleaved)
}

// stretch reads the method of context extension.
func (r *shapeReader) stretch(o *config) {
	s := &r.s
	kind := o.text("rope_type", o.text("type", "default"))
	o.has("type")
	original := o.countOr("original_max_position_embeddings", r.countOr("original_max_position_embeddings", s.Context))
	if original < 1 {
		r.fail("key original_max_position_embeddings: bad value %d", original)
		return
	}
	factor := o.float("factor", 0)
	if (kind == "linear" || kind == "yarn" || kind == "llama3") && !(factor >= 1) {
		r.fail("rotary embedding %s: bad factor %v", kind, factor)
		return
	}
	if kind == "dynamic" && r.ntk(o) {
		return
	}
	switch kind {
	case "default":
	case "mrope": // as default, with sections
		if s.Rope.Sections == [3]int{} {
			r.fail("key rope_type: mrope is not supported for architecture %s", s.Arch)
		}
	case "proportional":
		if s.Arch != "gemma4" {
			r.fail("key rope_type: proportional is not supported for architecture %s", s.Arch)
		}
	case "linear":
		s.Rope.Scaling, s.Rope.Factor = "linear", float32(factor)
	case "yarn":
		r.yarn(o, original, factor)
	case "llama3":
		r.llama3(o, original, factor)
	case "longrope", "su":
		r.longRope(o, original, factor)
	default:
		r.fail("key rope_type: unsupported %q, want default, linear, yarn, llama3 or longrope", kind)
	}
}

func (r *shapeReader) yarn(o *config, original int, factor float64) {
	rope := &r.s.Rope
	rope.Scaling, rope.Factor, rope.OriginalContext = "yarn", float32(factor), original
	rope.BetaFast, rope.BetaSlow = float32(o.float("beta_fast", 0)), float32(o.float("beta_slow", 0))
	rope.Smooth = r.style.Smooth
	if o.must("truncate", !rope.Smooth); rope.Smooth && !o.has("truncate") {
		r.fail("missing key truncate, want false for architecture %s", r.s.Arch)
	}
	if r.s.Arch == "mistral3" {
		r.s.Cooling = float32(o.float("llama_4_scaling_beta", 0))
		o.has("max_position_embeddings")
	}
	mscale, all := o.float("mscale", 0), o.float("mscale_all_dim", 0)
	grow := func(m float64) float64 { return 0.1*m*math.Log(factor) + 1 }
	if r.style.Latent() {
		if rope.YarnLog = float32(all); all != 0 && mscale == 0 {
			rope.YarnAttention = float32(grow(1))
		}
	}
	if mscale != 0 && all != 0 {
		rope.YarnAttention = float32(grow(mscale) / grow(all))
	}
	if v := o.float("attention_factor", 0); v != 0 {
		rope.YarnAttention = float32(v)
	}
}

// llama3 converts the smooth step between long and short waves to divisors of
// the frequencies.
func (r *shapeReader) llama3(o *config, original int, factor float64) {
	rope := &r.s.Rope
	low, high := o.float("low_freq_factor", 1), o.float("high_freq_factor", 4)
	if !(low > 0) || !(high > low) || rope.Dims < 2 || rope.Dims > 1<<16 {
		r.fail("rotary embedding llama3 of %d dimensions: bad factors %v and %v", rope.Dims, low, high)
		return
	}
	divisors := make([]float32, rope.Dims/2)
	for i := range divisors {
		turns := float64(original) * math.Pow(float64(rope.Base), -2*float64(i)/float64(rope.Dims)) / (2 * math.Pi)
		smooth := min(1, max(0, (turns-low)/(high-low)))
		divisors[i] = float32(1 / ((1-smooth)/factor + smooth))
	}
	r.extra = append(r.extra, extra{arch.RopeFreqs, divisors})
}

func (r *shapeReader) longRope(o *config, original int, factor float64) {
	rope := &r.s.Rope
	if factor == 0 {
		factor = float64(r.s.Context) / float64(original)
	}
	attention := 1.0
	if factor > 1 && original > 1 {
		attention = math.Sqrt(1 + math.Log(factor)/math.Log(float64(original)))
	}
	attention = o.float("attention_factor", attention)
	rope.Scaling, rope.OriginalContext, rope.AttentionFactor = arch.LongRope, original, float32(attention)
	for _, f := range []struct{ key, name string }{{"short_factor", arch.RopeShort}, {"long_factor", arch.RopeLong}} {
		var divisors []float32
		o.get(f.key, &divisors)
		if len(divisors) != rope.Dims/2 {
			r.fail("key %s: got %d entries, want %d", f.key, len(divisors), rope.Dims/2)
			return
		}
		r.extra = append(r.extra, extra{f.name, divisors})
	}
}
