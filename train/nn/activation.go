package nn

import (
	"math"

	"mm-abi.org/mm/core/tensor"
)

// Activation is an element-wise non-linearity.
type Activation string

// The activations.
const (
	GELU    Activation = "gelu" // x·Φ(x), by the error function (Hendrycks and Gimpel, arXiv 1606.08415)
	SiLU    Activation = "silu" // x·σ(x)
	ReLU    Activation = "relu" // max(x, 0)
	Tanh    Activation = "tanh"
	Sigmoid Activation = "sigmoid" // σ(x) = 1/(1 + e^-x)
)

// Activations lists all activations.
func Activations() []Activation { return []Activation{GELU, SiLU, ReLU, Tanh, Sigmoid} }

// Act sets y = a(x). It panics if a is unknown.
func Act[F tensor.Float](a Activation, y, x []F) {
	if xf, ok := any(x).([]float32); ok {
		act32(a, any(y).([]float32), xf)
		return
	}
	f := plainAct(a)
	for i, v := range x {
		value, _ := f(float64(v))
		y[i] = F(value)
	}
}

// ActBackward sets d = dy·a'(x), the gradient of x; d may be dy. s is scratch of
// twice the length of x.
func ActBackward[F tensor.Float](a Activation, d, dy, x, s []F) {
	if xf, ok := any(x).([]float32); ok {
		slope32(a, any(s[:len(x)]).([]float32), any(s[len(x):2*len(x)]).([]float32), xf)
		tensor.Times(any(d).([]float32), any(dy).([]float32), any(s[:len(x)]).([]float32))
		return
	}
	f := plainAct(a)
	for i, v := range x {
		_, slope := f(float64(v))
		d[i] = dy[i] * F(slope)
	}
}

func act32(a Activation, y, x []float32) {
	switch a {
	case GELU:
		tensor.GELU(y, x)
	case SiLU:
		tensor.SiLU(y, x)
	case ReLU:
		tensor.LeakyReLU(y, x, 0)
	case Tanh:
		tensor.Tanh(y, x)
	case Sigmoid:
		tensor.Sigmoid(y, x)
	default:
		panic("nn: unknown activation " + string(a))
	}
}

// slope32 sets s to the derivative at x; u is scratch.
func slope32(a Activation, s, u, x []float32) {
	switch a {
	case GELU: // Φ(x) + x·φ(x)
		tensor.TimesBy(s, x, math.Sqrt2/2)
		tensor.Erf(s, s)
		tensor.Linear(s, s, 0.5, 0.5)
		tensor.Times(u, x, x)
		tensor.TimesBy(u, u, -0.5)
		tensor.Exp(u, u)
		tensor.Times(u, u, x)
		tensor.AddScaled(s, float32(1/math.Sqrt(2*math.Pi)), u)
	case SiLU: // σ·(1 + x·(1-σ))
		tensor.Sigmoid(s, x)
		tensor.DifferenceFrom(u, s, 1)
		tensor.Times(u, u, x)
		tensor.SumWith(u, u, 1)
		tensor.Times(s, s, u)
	case ReLU:
		for i, v := range x {
			s[i] = 0
			if v > 0 {
				s[i] = 1
			}
		}
	case Tanh: // 1 - tanh²
		tensor.Tanh(s, x)
		tensor.Times(s, s, s)
		tensor.DifferenceFrom(s, s, 1)
	case Sigmoid: // σ·(1-σ)
		tensor.Sigmoid(s, x)
		tensor.DifferenceFrom(u, s, 1)
		tensor.Times(s, s, u)
	default:
		panic("nn: unknown activation " + string(a))
	}
}

// plainAct returns a function for the value and the derivative of an
// activation.
func plainAct(a Activation) func(float64) (value, slope float64) {
	sigma := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	switch a {
	case GELU:
		return func(x float64) (float64, float64) {
			below := 0.5 * (1 + math.Erf(x/math.Sqrt2))
			return x * below, below + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
		}
	case SiLU:
		return func(x float64) (float64, float64) {
			s := sigma(x)
			return x * s, s * (1 + x*(1-s))
		}
	case ReLU:
		return func(x float64) (float64, float64) {
			if x > 0 {
				return x, 1
			}
			return 0, 0
		}
	case Tanh:
		return func(x float64) (float64, float64) {
			t := math.Tanh(x)
			return t, 1 - t*t
		}
	case Sigmoid:
		return func(x float64) (float64, float64) {
			s := sigma(x)
			return s, s * (1 - s)
		}
	}
	panic("nn: unknown activation " + string(a))
}
