package automaton

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// Bound is an end of a range of numbers; nil is none.
type Bound struct {
	At   *big.Rat
	Open bool // the bound itself is not in the range
}

// Digits bound the numbers that are written.
type Digits struct {
	Whole    int // before the point, at most
	Fraction int // behind the point, at most
	All      int // together, at most, where there is a fraction
}

// Decimals is the language of numbers from lo to hi, as JSON writes them
// without an exponent; none is written -0. Numbers of a double that are written
// with 15 digits are in the order of their digits, which is what Digits.All is
// for.
func Decimals(lo, hi Bound, digits Digits) (*DFA, error) {
	zero := new(big.Rat)
	out := &DFA{States: []DFAState{{Label: No}}}
	var minus, plus *DFA
	var err error
	if lo.At == nil || lo.At.Sign() < 0 {
		// From lo to hi is from -hi to -lo without its sign.
		from := Bound{At: zero, Open: true}
		if hi.At != nil && hi.At.Sign() < 0 {
			from = Bound{At: new(big.Rat).Neg(hi.At), Open: hi.Open}
		}
		to := Bound{}
		if lo.At != nil {
			to = Bound{At: new(big.Rat).Neg(lo.At), Open: lo.Open}
		}
		if minus, err = magnitudes(from, to, digits); err != nil {
			return nil, err
		}
	}
	if hi.At == nil || hi.At.Sign() >= 0 {
		from := Bound{At: zero}
		if lo.At != nil && lo.At.Sign() >= 0 {
			from = lo
		}
		if plus, err = magnitudes(from, hi, digits); err != nil {
			return nil, err
		}
	}
	if at := out.append(minus); at > 0 {
		out.States[0].Edges = append(out.States[0].Edges, Edge{'-', '-', at})
	}
	if at := out.append(plus); at > 0 {
		out.States[0].Edges = append(out.States[0].Edges, out.States[at].Edges...)
	}
	return out.trim(func(int) bool { return true }), nil
}

// append adds the states of another automaton and gives where it begins; 0
// where it is empty.
func (d *DFA) append(of *DFA) int {
	if of == nil || of.Empty() {
		return 0
	}
	base := len(d.States)
	for _, s := range of.States {
		moved := DFAState{Label: s.Label}
		for _, e := range s.Edges {
			moved.Edges = append(moved.Edges, Edge{e.Lo, e.Hi, e.To + base})
		}
		d.States = append(d.States, moved)
	}
	return base
}

// track is a number that is being written with a known number of digits
// before the point.
type track struct {
	whole      uint8 // digits before the point
	at         uint8 // digits that were written
	point      bool
	onLo, onHi bool // what was written is the beginning of the bound
}

// magnitudes is the language of numbers from lo ≥ 0 to hi.
func magnitudes(lo, hi Bound, digits Digits) (*DFA, error) {
	l, err := decimal(lo)
	if err != nil {
		return nil, err
	}
	h, err := decimal(hi)
	if err != nil {
		return nil, err
	}
	w := writer{lo: l, hi: h, digits: digits}
	var start []track
	for n := 1; n <= digits.Whole; n++ {
		if n < len(l.whole) || hi.At != nil && n > len(h.whole) {
			continue
		}
		start = append(start, track{whole: uint8(n), onLo: n == len(l.whole), onHi: hi.At != nil && n == len(h.whole)})
	}
	return explore(pack(start), w.edges, w.label)
}

// number is a bound in digits.
type number struct {
	whole, fraction string
	open            bool
}

// maxDigits bounds the digits of a bound.
const maxDigits = 40

func decimal(b Bound) (number, error) {
	if b.At == nil {
		return number{whole: "0"}, nil
	}
	places, exact := b.At.FloatPrec()
	if !exact || places > maxDigits || b.At.Num().BitLen() > 8*maxDigits {
		return number{}, fmt.Errorf("a bound of more than %d digits", maxDigits)
	}
	whole, fraction, _ := strings.Cut(b.At.FloatString(places), ".")
	return number{whole: whole, fraction: fraction, open: b.Open}, nil
}

// digit is that of a bound at a place.
func (b number) digit(at int) byte {
	switch {
	case at < len(b.whole):
		return b.whole[at]
	case at-len(b.whole) < len(b.fraction):
		return b.fraction[at-len(b.whole)]
	}
	return '0'
}

// rest reports whether a bound has digits but zeros from a place on.
func (b number) rest(at int) bool {
	for ; at < len(b.whole)+len(b.fraction); at++ {
		if b.digit(at) != '0' {
			return true
		}
	}
	return false
}

type writer struct {
	lo, hi number
	digits Digits
}

func pack(set []track) string {
	var out []byte
	for _, t := range set {
		bits := uint32(t.whole)<<16 | uint32(t.at)<<8
		for i, b := range []bool{t.point, t.onLo, t.onHi} {
			if b {
				bits |= 1 << i
			}
		}
		out = binary.BigEndian.AppendUint32(out, bits)
	}
	return string(out)
}

func unpack(key string) []track {
	var out []track
	for set := []byte(key); len(set) > 0; set = set[4:] {
		bits := binary.BigEndian.Uint32(set)
		out = append(out, track{whole: uint8(bits >> 16), at: uint8(bits >> 8), point: bits&1 != 0, onLo: bits&2 != 0, onHi: bits&4 != 0})
	}
	return out
}

func (w *writer) edges(key string, emit func(lo, hi rune, to string)) {
	set := unpack(key)
	var pointed []track
	for _, t := range set {
		if !t.point && t.at == t.whole {
			t.point = true
			pointed = append(pointed, t)
		}
	}
	if len(pointed) > 0 {
		emit('.', '.', pack(pointed))
	}
	for d := byte('0'); d <= '9'; d++ {
		var next []track
		for _, t := range set {
			if t, ok := w.digit(t, d); ok {
				next = append(next, t)
			}
		}
		if len(next) > 0 {
			emit(rune(d), rune(d), pack(slices.Compact(next)))
		}
	}
}

// digit writes one.
func (w *writer) digit(t track, d byte) (track, bool) {
	n, at := int(t.whole), int(t.at)
	switch {
	case !t.point && (at == n || at == 0 && n > 1 && d == '0'):
		return t, false
	case t.point && (at-n >= w.digits.Fraction || at >= w.digits.All):
		return t, false
	}
	if t.onLo {
		l := w.lo.digit(at)
		if d < l {
			return t, false
		}
		t.onLo = d == l
	}
	if t.onHi {
		h := w.hi.digit(at)
		if d > h {
			return t, false
		}
		t.onHi = d == h
	}
	t.at++
	return t, true
}

func (w *writer) label(key string) int {
	for _, t := range unpack(key) {
		n, at := int(t.whole), int(t.at)
		if at < n || t.point && at == n {
			continue
		}
		if t.onLo && (w.lo.rest(at) || w.lo.open) {
			continue
		}
		if t.onHi && !w.hi.rest(at) && w.hi.open {
			continue
		}
		return 0
	}
	return No
}

// Multiples is the language of whole numbers, in digits, that m > 0 divides.
func Multiples(m int) (*DFA, error) {
	return explore(-2, func(rest int, emit func(lo, hi rune, to int)) {
		if rest == -2 {
			emit('-', '-', -1)
		}
		for d := range 10 {
			emit('0'+rune(d), '0'+rune(d), (max(rest, 0)*10+d)%m)
		}
	}, func(rest int) int {
		if rest == 0 {
			return 0
		}
		return No
	})
}
