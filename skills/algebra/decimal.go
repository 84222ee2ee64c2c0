package algebra

import (
	"encoding/json"
	"math"
	"math/big"
	"math/cmplx"
	"strings"
)

// decimal returns the value of an expression in double precision with unknowns
// from at. ok is false if an unknown has no value or the result is not finite.
func decimal(e *expr, at map[string]complex128) (v complex128, ok bool) {
	args := make([]complex128, len(e.args))
	for i, a := range e.args {
		if args[i], ok = decimal(a, at); !ok {
			return 0, false
		}
	}
	switch e.kind {
	case number:
		f, _ := e.num.Float64()
		v = complex(f, 0)
	case symbol:
		switch e.name {
		case euler:
			v = math.E
		case pi:
			v = math.Pi
		case imaginary:
			v = 1i
		default:
			if v, ok = at[e.name]; !ok {
				return 0, false
			}
		}
	case sum:
		for _, a := range args {
			v += a
		}
	case product:
		v = 1
		for _, a := range args {
			v *= a
		}
	case power:
		v = complexPower(args[0], args[1])
	case function:
		v = apply(e.name, args)
	}
	return v, !cmplx.IsNaN(v) && !cmplx.IsInf(v)
}

// complexPower returns a^b and keeps real results exactly real.
func complexPower(a, b complex128) complex128 {
	if imag(a) == 0 && imag(b) == 0 && (real(a) >= 0 || real(b) == math.Trunc(real(b))) {
		return complex(math.Pow(real(a), real(b)), 0)
	}
	return cmplx.Pow(a, b)
}

// apply evaluates a function in double precision.
func apply(name string, a []complex128) complex128 {
	x := a[0]
	if imag(x) == 0 {
		if f, ok := realFunctions[name]; ok {
			if v := f(real(x)); !math.IsNaN(v) {
				return complex(v, 0)
			}
		}
	}
	switch name {
	case "log":
		return cmplx.Log(x)
	case "sin":
		return cmplx.Sin(x)
	case "cos":
		return cmplx.Cos(x)
	case "tan":
		return cmplx.Tan(x)
	case "asin":
		return cmplx.Asin(x)
	case "acos":
		return cmplx.Acos(x)
	case "atan":
		return cmplx.Atan(x)
	case "sinh":
		return cmplx.Sinh(x)
	case "cosh":
		return cmplx.Cosh(x)
	case "tanh":
		return cmplx.Tanh(x)
	case "abs":
		return complex(cmplx.Abs(x), 0)
	}
	for _, v := range a {
		if imag(v) != 0 {
			return cmplx.NaN()
		}
	}
	switch name {
	case "min", "max":
		best := real(x)
		for _, v := range a[1:] {
			if (real(v) < best) == (name == "min") {
				best = real(v)
			}
		}
		return complex(best, 0)
	case "mod":
		y := real(a[1])
		return complex(real(x)-y*math.Floor(real(x)/y), 0)
	}
	return cmplx.NaN()
}

var realFunctions = map[string]func(float64) float64{
	"log": math.Log, "sin": math.Sin, "cos": math.Cos, "tan": math.Tan, "asin": math.Asin, "acos": math.Acos, "atan": math.Atan,
	"sinh": math.Sinh, "cosh": math.Cosh, "tanh": math.Tanh, "abs": math.Abs, "floor": math.Floor, "ceil": math.Ceil, "round": math.Round,
}

// digits is the number of decimal digits in results, those that double
// precision guarantees.
const digits = 15

// formatRat formats a number in decimals.
func formatRat(r *big.Rat) json.Number {
	f := new(big.Float).SetPrec(256).SetRat(r)
	s := f.Text('g', digits)
	mantissa, exponent, e := strings.Cut(s, "e")
	if strings.Contains(mantissa, ".") {
		mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
	}
	if e {
		return json.Number(mantissa + "e" + exponent)
	}
	return json.Number(mantissa)
}

// approximate returns a JSON number, or text if v is complex.
func approximate(v complex128) any {
	re, im := real(v), imag(v)
	size := cmplx.Abs(v) // a part below 1e-13 of it is rounding noise
	if math.Abs(im) <= 1e-13*size {
		im = 0
	}
	if math.Abs(re) <= 1e-13*size {
		re = 0
	}
	part := func(x float64) string { return string(formatRat(new(big.Rat).SetFloat64(x))) }
	switch {
	case im == 0:
		return json.Number(part(re))
	case re == 0:
		return part(im) + "*i"
	case im < 0:
		return part(re) + " - " + part(-im) + "*i"
	}
	return part(re) + " + " + part(im) + "*i"
}
