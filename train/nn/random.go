package nn

import (
	"math"
	"math/rand/v2"

	"mm-abi.org/mm/core/tensor"
)

// Random draws normal numbers by the Box-Muller method from a PCG. The weights
// of a seed do not depend on changes in the standard library.
type Random struct {
	pcg   *rand.PCG
	spare float64
	has   bool
}

// NewRandom returns a generator with the given seed.
func NewRandom(seed uint64) *Random { return &Random{pcg: rand.NewPCG(seed, 0x6d6d)} }

// Uniform returns a number in [0, 1) with 53 random bits.
func (r *Random) Uniform() float64 { return float64(r.pcg.Uint64()>>11) / (1 << 53) }

// Normal returns a number from the standard normal distribution.
func (r *Random) Normal() float64 {
	if r.has {
		r.has = false
		return r.spare
	}
	radius := math.Sqrt(-2 * math.Log(1-r.Uniform()))
	sin, cos := math.Sincos(2 * math.Pi * r.Uniform())
	r.spare, r.has = radius*sin, true
	return radius * cos
}

// FillNormal fills x from a normal distribution. It draws even if the deviation
// is zero, so that the start of one tensor does not change the others.
func FillNormal[F tensor.Float](x []F, r *Random, std float64) {
	for i := range x {
		x[i] = F(std * r.Normal())
	}
}

// Mix derives the i-th seed from a seed (SplitMix64), such that neighbors are
// independent.
func Mix(seed, i uint64) uint64 {
	x := seed*0x9e3779b97f4a7c15 ^ (i + 1)
	for range 2 {
		x += 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}
