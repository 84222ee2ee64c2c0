package part

import "math"

// Noise returns n numbers of the standard normal distribution, which depend on the
// seed alone: SplitMix64 (Steele, Lea and Flood 2014) yields pairs of 64-bit
// numbers; their upper 53 bits are u and v in [0, 1), and sqrt(−2 ln(1−u)) times
// cos 2πv and sin 2πv are two numbers (Box and Muller 1958), rounded to 32 bits.
func Noise(seed uint64, n int) []float32 {
	next := func() float64 {
		seed += 0x9e3779b97f4a7c15
		z := (seed ^ seed>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return float64((z^z>>31)>>11) / (1 << 53)
	}
	out := make([]float32, 0, n+1)
	for len(out) < n {
		r, angle := math.Sqrt(-2*math.Log(1-next())), 2*math.Pi*next()
		out = append(out, float32(r*math.Cos(angle)), float32(r*math.Sin(angle)))
	}
	return out[:n]
}
