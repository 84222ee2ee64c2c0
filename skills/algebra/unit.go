package algebra

import (
	"fmt"
	"math/big"
	"strings"
)

// dim is a dimension: the exponents of meter, kilogram, second, ampere, kelvin,
// mole, candela, byte and radian.
type dim [9]int

var baseSymbols = [9]string{"m", "kg", "s", "A", "K", "mol", "cd", "B", "rad"}

// Plus returns the dimension of a product.
func (d dim) Plus(o dim) dim {
	for i := range d {
		d[i] += o[i]
	}
	return d
}

// Times returns the dimension of a power.
func (d dim) Times(n int) dim {
	for i := range d {
		d[i] *= n
	}
	return d
}

// String formats a dimension as kg*m^2/s^2, or "a number" if it has none.
func (d dim) String() string {
	var above, below []string
	for i, n := range d {
		list := &above
		if n < 0 {
			list, n = &below, -n
		}
		switch {
		case n == 1:
			*list = append(*list, baseSymbols[i])
		case n > 1:
			*list = append(*list, fmt.Sprintf("%s^%d", baseSymbols[i], n))
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

// quantity is a value in SI units.
type quantity struct {
	Size *big.Rat
	Dim  dim
}

// findNamed returns the unit with a symbol or an English name, singular or plural,
// with a prefix if the unit takes one.
func findNamed(name string) (quantity, bool) {
	if q, ok := findUnit(name); ok {
		return q, true
	}
	if s, ok := strings.CutSuffix(name, "s"); ok && len(s) > 2 {
		return findUnit(s)
	}
	return quantity{}, false
}

func findUnit(name string) (quantity, bool) {
	if u, ok := unitTable()[name]; ok {
		return u.quantity(big.NewRat(1, 1)), true
	}
	for _, p := range prefixes {
		if rest, ok := strings.CutPrefix(name, p.name); ok && rest != "" {
			if u, ok := unitTable()[rest]; ok && (u.takes == symbolic && len(p.name) <= 2 || u.takes == worded && len(p.name) > 2) {
				return u.quantity(tableRat(p.size)), true
			}
		}
	}
	return quantity{}, false
}

func (u tableUnit) quantity(prefix *big.Rat) quantity {
	return quantity{Size: prefix.Mul(prefix, tableRat(u.size)), Dim: u.dim}
}

// tableRat parses a size of unitTable: a decimal or a quotient of decimals.
func tableRat(s string) *big.Rat {
	above, below, ok := strings.Cut(s, "/")
	r, okA := new(big.Rat).SetString(above)
	if ok {
		d, okB := new(big.Rat).SetString(below)
		if okA && okB {
			return r.Quo(r, d)
		}
	}
	if !okA {
		panic("algebra: bad size in unitTable: " + s)
	}
	return r
}

// scale is a temperature scale.
type scale int

const (
	kelvin scale = iota
	celsius
	fahrenheit
)

// scaleNamed returns the scale with a degree name. If short, C and F are degree
// names too.
func scaleNamed(name string, short bool) (scale, bool) {
	switch name {
	case "K", "kelvin", "kelvins", "Kelvin":
		return kelvin, true
	case "°C", "degC", "celsius", "Celsius", "centigrade":
		return celsius, true
	case "°F", "degF", "fahrenheit", "Fahrenheit":
		return fahrenheit, true
	case "C":
		return celsius, short
	case "F":
		return fahrenheit, short
	}
	return 0, false
}

// convertScale converts a temperature from one scale to another.
func convertScale(v *big.Rat, from, to scale) *big.Rat {
	v = new(big.Rat).Set(v)
	switch from { // to kelvin
	case celsius:
		v.Add(v, tableRat("273.15"))
	case fahrenheit:
		v.Add(v, tableRat("459.67")).Mul(v, big.NewRat(5, 9))
	}
	switch to {
	case celsius:
		v.Sub(v, tableRat("273.15"))
	case fahrenheit:
		v.Mul(v, big.NewRat(9, 5)).Sub(v, tableRat("459.67"))
	}
	return v
}
