package tensor

// fmaSink keeps the scalar loop from being optimized away.
var fmaSink float32

// fmaScalar is the peak loop if there is no assembly.
func fmaScalar(n int) float64 {
	var a, b, c, d float32
	for i := range n {
		v := float32(i)
		a += v * 0.5
		b += v * 0.5
		c += v * 0.5
		d += v * 0.5
	}
	fmaSink = a + b + c + d
	return float64(n) * 8
}
