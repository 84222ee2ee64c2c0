// Package unit knows units of measurement: how large each is in those of the
// SI, and of which dimension. Sizes are exact but for those of angles, in which
// pi has forty digits.
package unit

import (
	"fmt"
	"math/big"
	"strings"
)

// Dim is a dimension: the exponents of metre, kilogram, second, ampere, kelvin,
// mole, candela, byte and radian.
type Dim [9]int

var symbols = [9]string{"m", "kg", "s", "A", "K", "mol", "cd", "B", "rad"}

// Plus is the dimension of a product.
func (d Dim) Plus(o Dim) Dim {
	for i := range d {
		d[i] += o[i]
	}
	return d
}

// Times is the dimension of a power.
func (d Dim) Times(n int) Dim {
	for i := range d {
		d[i] *= n
	}
	return d
}

// String writes a dimension as kg*m^2/s^2 does, "a number" where it has none.
func (d Dim) String() string {
	var above, below []string
	for i, n := range d {
		list := &above
		if n < 0 {
			list, n = &below, -n
		}
		switch {
		case n == 1:
			*list = append(*list, symbols[i])
		case n > 1:
			*list = append(*list, fmt.Sprintf("%s^%d", symbols[i], n))
		}
	}
	switch {
	case len(above)+len(below) == 0:
		return "a number"
	case len(above) == 0:
		above = []string{"1"}
	}
	s := strings.Join(above, "*")
	if len(below) == 1 {
		return s + "/" + below[0]
	}
	if len(below) > 1 {
		return s + "/(" + strings.Join(below, "*") + ")"
	}
	return s
}

// Quantity is a size in units of the SI.
type Quantity struct {
	Size *big.Rat
	Dim  Dim
}

// Named finds a unit by its symbol or its English name, in the singular or the
// plural, with a prefix where it takes one.
func Named(name string) (Quantity, bool) {
	if q, ok := find(name); ok {
		return q, true
	}
	if s, ok := strings.CutSuffix(name, "s"); ok && len(s) > 2 {
		return find(s)
	}
	return Quantity{}, false
}

func find(name string) (Quantity, bool) {
	if u, ok := table[name]; ok {
		return u.quantity(big.NewRat(1, 1)), true
	}
	for _, p := range prefixes {
		if rest, ok := strings.CutPrefix(name, p.name); ok && rest != "" {
			if u, ok := table[rest]; ok && (u.takes == symbolic && len(p.name) <= 2 || u.takes == worded && len(p.name) > 2) {
				return u.quantity(ratio(p.size)), true
			}
		}
	}
	return Quantity{}, false
}

func (u known) quantity(prefix *big.Rat) Quantity {
	return Quantity{Size: prefix.Mul(prefix, ratio(u.size)), Dim: u.dim}
}

// ratio reads a size of a table: a decimal or a fraction of decimals.
func ratio(s string) *big.Rat {
	above, below, ok := strings.Cut(s, "/")
	r, okA := new(big.Rat).SetString(above)
	if ok {
		d, okB := new(big.Rat).SetString(below)
		if okA && okB {
			return r.Quo(r, d)
		}
	}
	if !okA {
		panic("unit: the table has " + s)
	}
	return r
}

// Scale is a scale of temperature.
type Scale int

// The scales.
const (
	Kelvin Scale = iota
	Celsius
	Fahrenheit
)

// Degree finds a scale by the name of its degree; with short, C and F are such
// names.
func Degree(name string, short bool) (Scale, bool) {
	switch name {
	case "K", "kelvin", "kelvins", "Kelvin":
		return Kelvin, true
	case "°C", "degC", "celsius", "Celsius", "centigrade":
		return Celsius, true
	case "°F", "degF", "fahrenheit", "Fahrenheit":
		return Fahrenheit, true
	case "C":
		return Celsius, short
	case "F":
		return Fahrenheit, short
	}
	return 0, false
}

// Degrees carries a temperature from one scale to another.
func Degrees(v *big.Rat, from, to Scale) *big.Rat {
	v = new(big.Rat).Set(v)
	switch from { // to kelvin
	case Celsius:
		v.Add(v, ratio("273.15"))
	case Fahrenheit:
		v.Add(v, ratio("459.67")).Mul(v, big.NewRat(5, 9))
	}
	switch to {
	case Celsius:
		v.Sub(v, ratio("273.15"))
	case Fahrenheit:
		v.Mul(v, big.NewRat(9, 5)).Sub(v, ratio("459.67"))
	}
	return v
}
