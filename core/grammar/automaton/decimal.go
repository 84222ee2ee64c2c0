package automaton

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// Bound is an end of a range of numbers; nil is unbounded.
type Bound struct {
	At   *big.Rat
	Open bool // the bound itself is excluded
}

// Digits limits the digits of numbers.
type Digits struct {
	Integer  int // before the point, at most
	Fraction int // after the point, at most
	All      int // together, at most, with a fraction
}

// Decimals returns the language of numbers from lo to hi in JSON without
// exponent, excluding -0. Doubles written with 15 digits are ordered like their
// digits, hence Digits.All.
func Decimals(lo, hi Bound, digits Digits) (*DFA, error) {
	zero := new(big.Rat)
	out := &DFA{States: []DFAState{{Label: No}}}
	var minus, plus *DFA
	var err error
	if lo.At == nil || lo.At.Sign() < 0 {
		// From lo to hi is from -hi to -lo without the sign.
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

// append adds the states of another automaton and returns its start, or 0 if it
// is empty.
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

// track is the state of a number with a fixed number of digits before the
// point.
type track struct {
	integer    uint8 // digits before the point
	at         uint8 // digits so far
	point      bool
	onLo, onHi bool // the digits so far are a prefix of the bound
}

// magnitudes returns the language of numbers from lo ≥ 0 to hi.
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
	for n := 1; n <= digits.Integer; n++ {
		if n < len(l.integer) || hi.At != nil && n > len(h.integer) {
			continue
		}
		start = append(start, track{integer: uint8(n), onLo: n == len(l.integer), onHi: hi.At != nil && n == len(h.integer)})
	}
	return explore(pack(start), w.edges, w.label)
}

// number is the digits of a bound.
type number struct {
	integer, fraction string
	open              bool
}

// maxDigits limits the digits of a bound.
const maxDigits = 40

func decimal(b Bound) (number, error) {
	if b.At == nil {
		return number{integer: "0"}, nil
	}
	places, exact := b.At.FloatPrec()
	if !exact || places > maxDigits || b.At.Num().BitLen() > 8*maxDigits {
		return number{}, fmt.Errorf("bound of more than %d digits", maxDigits)
	}
	integer, fraction, _ := strings.Cut(b.At.FloatString(places), ".")
	return number{integer: integer, fraction: fraction, open: b.Open}, nil
}

// digit returns the digit of a bound at a position.
func (b number) digit(at int) byte {
	switch {
	case at < len(b.integer):
		return b.integer[at]
	case at-len(b.integer) < len(b.fraction):
		return b.fraction[at-len(b.integer)]
	}
	return '0'
}

// rest reports whether a bound has nonzero digits from a position on.
func (b number) rest(at int) bool {
	for ; at < len(b.integer)+len(b.fraction); at++ {
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
		bits := uint32(t.integer)<<16 | uint32(t.at)<<8
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
		out = append(out, track{integer: uint8(bits >> 16), at: uint8(bits >> 8), point: bits&1 != 0, onLo: bits&2 != 0, onHi: bits&4 != 0})
	}
	return out
}

func (w *writer) edges(key string, emit func(lo, hi rune, to string)) {
	set := unpack(key)
	var pointed []track
	for _, t := range set {
		if !t.point && t.at == t.integer {
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

// digit appends a digit.
func (w *writer) digit(t track, d byte) (track, bool) {
	n, at := int(t.integer), int(t.at)
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
		n, at := int(t.integer), int(t.at)
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

// Multiples returns the language of the decimals divisible by m > 0 divided by a power of
// ten.
func Multiples(m, places int) (*DFA, error) {
	// A state is the rest of the digits so far, and the number of them after the point: -1
	// before a point, -2 directly after it.
	type state struct{ rest, after int }
	const start, minus = -2, -1
	integral := func(s state) bool { // with zeros for the missing places
		rest := max(s.rest, 0)
		for range places - max(s.after, 0) {
			rest = rest * 10 % m
		}
		return rest == 0
	}
	return explore(state{start, -1}, func(s state, emit func(lo, hi rune, to state)) {
		if s.rest == start {
			emit('-', '-', state{minus, -1})
		}
		if s.rest >= 0 && s.after == -1 && places > 0 {
			emit('.', '.', state{s.rest, -2})
		}
		after := s.after
		if after != -1 {
			after = max(after, 0) + 1
		}
		for d := range 10 {
			switch {
			case after <= places:
				emit('0'+rune(d), '0'+rune(d), state{(max(s.rest, 0)*10 + d) % m, after})
			case d == 0: // more digits are zeros
				emit('0', '0', s)
			}
		}
	}, func(s state) int {
		if s.rest >= 0 && s.after != -2 && integral(s) {
			return 0
		}
		return No
	})
}
