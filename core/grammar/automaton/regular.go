// Package regular holds languages that a deterministic automaton over
// characters knows: those of patterns, of numbers in a range, of texts of a
// length, and what they have in common.
//
// A [DFA] has no state without a way to the end. [DFA.Build] writes it into a
// grammar of bytes, as characters of JSON's strings or as they are.
package automaton

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// DFA is a language. It begins in state 0; without states it is empty.
type DFA struct{ States []DFAState }

// State is where a text stands.
type DFAState struct {
	Edges []Edge // ascending, disjoint
	Label int    // of texts that end here; [No]: none does
}

// Edge is a range of characters and the state behind them.
type Edge struct {
	Lo, Hi rune
	To     int
}

// No is the label where no text ends.
const No = -1

// ErrLarge says that a language has too many states.
var ErrManyStates = errors.New("its automaton has more than 4096 states")

const maxDFAStates = 4096

// explore makes the automaton of a language that is told by what its states
// are: which edges leave one, and its label.
func explore[K comparable](start K, edges func(K, func(lo, hi rune, to K)), label func(K) int) (*DFA, error) {
	ids := map[K]int{start: 0}
	keys := []K{start}
	d := &DFA{}
	for i := 0; i < len(keys); i++ {
		if i >= maxDFAStates {
			return nil, ErrManyStates
		}
		s := DFAState{Label: label(keys[i])}
		edges(keys[i], func(lo, hi rune, to K) {
			id, ok := ids[to]
			if !ok {
				id = len(keys)
				ids[to] = id
				keys = append(keys, to)
			}
			if n := len(s.Edges); n > 0 && s.Edges[n-1].To == id && s.Edges[n-1].Hi+1 == lo {
				s.Edges[n-1].Hi = hi
				return
			}
			s.Edges = append(s.Edges, Edge{lo, hi, id})
		})
		d.States = append(d.States, s)
	}
	return d.trim(func(int) bool { return true }), nil
}

// trim leaves out the states that do not hold or lead to no end, as long as
// there are any.
func (d *DFA) trim(holds func(state int) bool) *DFA {
	live := make([]bool, len(d.States))
	for changed := true; changed; {
		changed = false
		for i := len(d.States) - 1; i >= 0; i-- {
			s := &d.States[i]
			if !live[i] && holds(i) && (s.Label != No || slices.ContainsFunc(s.Edges, func(e Edge) bool { return live[e.To] })) {
				live[i], changed = true, true
			}
		}
	}
	ids, n := make([]int, len(d.States)), 0
	for i, l := range live {
		ids[i] = n
		if l {
			n++
		}
	}
	out := &DFA{}
	if len(live) == 0 || !live[0] {
		return out
	}
	for i, s := range d.States {
		if !live[i] {
			continue
		}
		kept := DFAState{Label: s.Label}
		for _, e := range s.Edges {
			if live[e.To] {
				kept.Edges = append(kept.Edges, Edge{e.Lo, e.Hi, ids[e.To]})
			}
		}
		out.States = append(out.States, kept)
	}
	return out
}

// Labels are those of the language's texts, in order.
func (d *DFA) Labels() (out []int) {
	for _, s := range d.States {
		if s.Label != No {
			out = append(out, s.Label)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Only is the language of those texts that have a label.
func (d *DFA) Only(label int) *DFA {
	out := &DFA{States: slices.Clone(d.States)}
	for i := range out.States {
		if out.States[i].Label != label {
			out.States[i].Label = No
		}
	}
	return out.trim(func(int) bool { return true })
}

// Empty reports whether no text is in the language.
func (d *DFA) Empty() bool { return len(d.States) == 0 }

// Label is what the language says of a text.
func (d *DFA) Label(text string) int {
	if d.Empty() || !utf8.ValidString(text) {
		return No
	}
	at := 0
	for _, r := range text {
		if at = d.next(at, r); at < 0 {
			return No
		}
	}
	return d.States[at].Label
}

func (d *DFA) next(at int, r rune) int {
	for _, e := range d.States[at].Edges {
		if e.Lo <= r && r <= e.Hi {
			return e.To
		}
	}
	return -1
}

// Product is the language of texts by what several say of them: label is
// given the label of each.
func Product(of []*DFA, label func([]int) int) (*DFA, error) {
	const out = 1<<32 - 1 // of a language: the text is not the beginning of one of its
	at := func(key string, i int) uint32 { return binary.LittleEndian.Uint32([]byte(key[4*i:])) }
	var start []byte
	for _, d := range of {
		first := uint32(0)
		if d.Empty() {
			first = out
		}
		start = binary.LittleEndian.AppendUint32(start, first)
	}
	labels := make([]int, len(of))
	return explore(string(start), func(key string, emit func(lo, hi rune, to string)) {
		cuts := []rune{0, firstSurrogate, lastSurrogate + 1, utf8.MaxRune + 1}
		for i, d := range of {
			if s := at(key, i); s != out {
				for _, e := range d.States[s].Edges {
					cuts = append(cuts, e.Lo, e.Hi+1)
				}
			}
		}
		slices.Sort(cuts)
		cuts = slices.Compact(cuts)
		for c := range len(cuts) - 1 {
			if cuts[c] == firstSurrogate {
				continue
			}
			var to []byte
			alive := false
			for i, d := range of {
				s := at(key, i)
				if s != out {
					if n := d.next(int(s), cuts[c]); n >= 0 {
						s, alive = uint32(n), true
					} else {
						s = out
					}
				}
				to = binary.LittleEndian.AppendUint32(to, s)
			}
			if alive {
				emit(cuts[c], cuts[c+1]-1, string(to))
			}
		}
	}, func(key string) int {
		for i, d := range of {
			labels[i] = No
			if s := at(key, i); s != out {
				labels[i] = d.States[s].Label
			}
		}
		return label(labels)
	})
}

// All is the label of texts that all languages hold.
func All(labels []int) int {
	if slices.Contains(labels, No) {
		return No
	}
	return 0
}

// The characters that are none.
const firstSurrogate, lastSurrogate = 0xD800, 0xDFFF

// every emits edges for all characters.
func every[K any](emit func(lo, hi rune, to K), to K) {
	emit(0, firstSurrogate-1, to)
	emit(lastSurrogate+1, utf8.MaxRune, to)
}

// Length is the language of texts of min to max characters; max < 0 is no
// bound.
func Length(min, max int) (*DFA, error) {
	return explore(0, func(n int, emit func(lo, hi rune, to int)) {
		switch {
		case max < 0 && n == min:
			every(emit, n)
		case max < 0 || n < max:
			every(emit, n+1)
		}
	}, func(n int) int {
		if n < min {
			return No
		}
		return 0
	})
}

// Words labels each of the words with its place among them, and all other
// texts with their number.
func Words(words []string) (*DFA, error) {
	const other = "\xff" // is the beginning of none
	return explore("", func(text string, emit func(lo, hi rune, to string)) {
		if text == other {
			every(emit, other)
			return
		}
		var cuts []rune
		for _, w := range words {
			if rest, ok := strings.CutPrefix(w, text); ok && rest != "" && utf8.ValidString(w) {
				r, _ := utf8.DecodeRuneInString(rest)
				cuts = append(cuts, r)
			}
		}
		slices.Sort(cuts)
		from := rune(0)
		for _, r := range append(slices.Compact(cuts), utf8.MaxRune+1) {
			if from < firstSurrogate && r > lastSurrogate {
				emit(from, firstSurrogate-1, other)
				from = lastSurrogate + 1
			}
			if from < r {
				emit(from, r-1, other)
			}
			if r <= utf8.MaxRune {
				emit(r, r, text+string(r))
			}
			from = r + 1
		}
	}, func(text string) int {
		if i := slices.Index(words, text); i >= 0 {
			return i
		}
		return len(words)
	})
}

// Finite lists the texts of a language, in order, if they are most at most.
func (d *DFA) Finite(most int) ([]string, bool) {
	var out []string
	var walk func(at int, text []rune) bool
	walk = func(at int, text []rune) bool {
		if len(text) > len(d.States) {
			return false // a state came twice
		}
		if d.States[at].Label != No {
			if out = append(out, string(text)); len(out) > most {
				return false
			}
		}
		for _, e := range d.States[at].Edges {
			for r := e.Lo; r <= e.Hi; r++ {
				if !walk(e.To, append(text, r)) {
					return false
				}
			}
		}
		return true
	}
	if d.Empty() {
		return nil, true
	}
	if !walk(0, nil) {
		return nil, false
	}
	return out, true
}

// Endless is what is left of a language when the states are left out that only
// a finite number of texts go through: from each of its states there are as
// many ways to the end as one likes.
func (d *DFA) Endless() *DFA {
	// States from which a circle is reached. All states lead to an end, and
	// so does the circle.
	endless := slices.Repeat([]bool{true}, len(d.States))
	for changed := true; changed; {
		changed = false
		for i := range d.States {
			if endless[i] && !slices.ContainsFunc(d.States[i].Edges, func(e Edge) bool { return endless[e.To] }) {
				endless[i], changed = false, true
			}
		}
	}
	return d.trim(func(i int) bool { return endless[i] })
}
