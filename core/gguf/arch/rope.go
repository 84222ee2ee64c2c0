package arch

import (
	"fmt"
	"math"
)

// LongRope is the scaling method with factors for each dimension.
const LongRope = "longrope"

// Rope is rotary position embedding (Su et al., arXiv 2104.09864): dimension
// pair i of a head is rotated by position · θ_i with θ_i = Base^(-2i/Dims),
// modified by a method for longer contexts.
type Rope struct {
	// Dims is the number of rotated dimensions of a head, the first ones.
	Dims int
	// Base of the frequencies.
	Base float32
	// Halves pairs dimension i with i+Dims/2, not 2i with 2i+1.
	Halves bool
	// Sections are the numbers of pairs that rotate by the frame, the row and
	// the column of a position (M-RoPE, arXiv 2409.12191), in this order, or in
	// turns if Interleaved. If zero, all rotate by the position.
	Sections    [3]int `json:",omitzero"`
	Interleaved bool   `json:",omitempty"`

	// Scaling is the method:
	//
	//	"", "none", "linear"  θ/Factor (position interpolation, arXiv 2306.15595);
	//	                      "none" ignores the factor
	//	"ntk"                 Base · Factor^(Dims/(Dims-2))
	//	"yarn"                arXiv 2309.00071
	//	"longrope"            per-dimension factors (arXiv 2402.13753), which
	//	                      the file holds for short and for long contexts
	Scaling string
	// Factor is the extension factor of the context. If zero, it is 1.
	Factor float32
	// OriginalContext is the context before extension, for yarn and longrope.
	OriginalContext int
	// AttentionFactor multiplies the rotated vectors. If zero, it is 1.
	AttentionFactor float32
	// ExtFactor is yarn's share of extrapolation. If negative, it is 1 for yarn
	// and 0 otherwise.
	ExtFactor float32
	// YarnAttention is yarn's factor of the rotated vectors. If zero, it is 1 +
	// ln(Factor)/10.
	YarnAttention float32 `json:",omitempty"`
	// YarnLog is the factor of the logarithm by which latent attention scales
	// q·k, mscale_all_dim. If zero, it is 1.
	YarnLog float32 `json:",omitempty"`
	// BetaFast and BetaSlow bound yarn's ramp, in rotations over the original
	// context. If zero, they are 32 and 1.
	BetaFast, BetaSlow float32
	// Smooth does not round the bounds of yarn's ramp to whole pairs.
	Smooth bool `json:",omitempty"`
}

func (r Rope) check(headDim int) error {
	bad := func(v float32) bool { return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) }
	switch {
	case r.Dims < 2 || r.Dims%2 != 0 || r.Dims > headDim:
		return fmt.Errorf("bad rotary dimensions %d of a head of %d", r.Dims, headDim)
	case !(r.Base > 0) || bad(r.Base):
		return fmt.Errorf("bad base of rotary embedding: %v", r.Base)
	case r.Factor < 0 || bad(r.Factor):
		return fmt.Errorf("bad scaling factor of rotary embedding: %v", r.Factor)
	case bad(r.AttentionFactor) || bad(r.YarnAttention) || bad(r.YarnLog) || bad(r.ExtFactor) || bad(r.BetaFast) || bad(r.BetaSlow):
		return fmt.Errorf("factor of rotary embedding is not finite")
	case r.OriginalContext < 0:
		return fmt.Errorf("bad original context length %d", r.OriginalContext)
	}
	if r.Sections != [3]int{} {
		sum := 0
		for _, n := range r.Sections {
			if n < 0 || n > r.Dims/2 {
				return fmt.Errorf("bad sections of rotary embedding: got %v for %d pairs", r.Sections, r.Dims/2)
			}
			sum += n
		}
		if sum != r.Dims/2 {
			return fmt.Errorf("bad sections of rotary embedding: got %v for %d pairs", r.Sections, r.Dims/2)
		}
	}
	switch r.Scaling {
	case "", "none", "linear", "ntk", "yarn", "longrope":
		return nil
	}
	return fmt.Errorf("unsupported scaling %q of rotary embedding, want none, linear, ntk, yarn or longrope", r.Scaling)
}

// Axes returns which of frame, row and column rotates each pair, or nil if the
// position rotates all.
func (r Rope) Axes() []int {
	if r.Sections == [3]int{} {
		return nil
	}
	axes := make([]int, r.Dims/2)
	for i := range axes {
		switch {
		case r.Interleaved:
			if a := i % 3; i < 3*r.Sections[a] {
				axes[i] = a
			}
		case i >= r.Sections[0]+r.Sections[1]:
			axes[i] = 2
		case i >= r.Sections[0]:
			axes[i] = 1
		}
	}
	return axes
}

// Frequencies returns θ of each pair and the factor of cosines and sines.
// divisors, one for each pair or nil, divide θ.
func (r Rope) Frequencies(divisors []float32) (theta []float64, scale float64) {
	factor := orOne(r.Factor)
	base := float64(r.Base)
	switch r.Scaling {
	case "none":
		factor = 1
	case "ntk":
		base *= math.Pow(factor, float64(r.Dims)/max(float64(r.Dims-2), 1))
		factor = 1
	}
	ext := float64(r.ExtFactor)
	if ext < 0 {
		ext = 0
		if r.Scaling == "yarn" {
			ext = 1
		}
	}
	theta = make([]float64, r.Dims/2)
	for i := range theta {
		extrapolated := math.Pow(base, -2*float64(i)/float64(r.Dims))
		if len(divisors) > 0 {
			extrapolated /= float64(divisors[i])
		}
		interpolated := extrapolated / factor
		mix := ext * r.yarnRamp(i, base)
		theta[i] = interpolated*(1-mix) + extrapolated*mix
	}
	scale = orOne(r.AttentionFactor)
	switch {
	case ext != 0 && r.YarnAttention != 0:
		scale *= float64(r.YarnAttention)
	case ext != 0 && factor > 1:
		scale *= 1 + 0.1*math.Log(factor)
	}
	return theta, scale
}

// yarnRamp is 1 for pairs that rotate often within the original context, which
// keep their frequency, and 0 for those that hardly rotate.
func (r Rope) yarnRamp(i int, base float64) float64 {
	fast, slow := float64(r.BetaFast), float64(r.BetaSlow)
	if fast == 0 {
		fast = 32
	}
	if slow == 0 {
		slow = 1
	}
	// pair returns the pair with that many rotations.
	pair := func(rotations float64) float64 {
		return float64(r.Dims) * math.Log(float64(r.OriginalContext)/(rotations*2*math.Pi)) / (2 * math.Log(base))
	}
	low, high := pair(fast), pair(slow)
	if !r.Smooth {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(0, low), min(float64(r.Dims-1), high)
	return 1 - min(1, max(0, (float64(i)-low)/max(0.001, high-low)))
}

func orOne(v float32) float64 {
	if v == 0 {
		return 1
	}
	return float64(v)
}
