package automaton

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// DFA is a regular language. It starts in state 0; without states it is empty.
type DFA struct{ States []DFAState }

// DFAState is a state of a DFA.
type DFAState struct {
	Edges []Edge // ascending, disjoint
	Label int    // of texts that end here; [No] if none
}

// Edge is a range of characters and the next state.
type Edge struct {
	Lo, Hi rune
	To     int
}

// No is the label of a state that does not accept.
const No = -1

// ErrManyStates reports a language with too many states.
var ErrManyStates = errors.New("automaton has more than 4096 states")

const maxDFAStates = 4096

// explore builds the automaton of a language given by its state space: the
// edges and the label of each state.
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

// trim removes the states for which holds is false or that have no path to the
// end, until none is left.
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
		state := DFAState{Label: s.Label}
		for _, e := range s.Edges {
			if live[e.To] {
				state.Edges = append(state.Edges, Edge{e.Lo, e.Hi, ids[e.To]})
			}
		}
		out.States = append(out.States, state)
	}
	return out
}

// Labels returns the labels of the language's texts, in order.
func (d *DFA) Labels() (out []int) {
	for _, s := range d.States {
		if s.Label != No {
			out = append(out, s.Label)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Only returns the language of the texts with a label.
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

// Label returns the label of a text.
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

// Product combines languages: label maps the labels of a text in each to the
// new label.
func Product(of []*DFA, label func([]int) int) (*DFA, error) {
	const out = 1<<32 - 1 // the text is not a prefix of the language
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

// All labels the texts that are in all languages.
func All(labels []int) int {
	if slices.Contains(labels, No) {
		return No
	}
	return 0
}

// The surrogates, which are not characters.
const firstSurrogate, lastSurrogate = 0xD800, 0xDFFF

// every emits edges for all characters.
func every[K any](emit func(lo, hi rune, to K), to K) {
	emit(0, firstSurrogate-1, to)
	emit(lastSurrogate+1, utf8.MaxRune, to)
}

// Length returns the language of texts of min to max characters; max < 0 is
// unlimited.
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

// Words labels each of the words with its index, and all other texts with the
// number of words.
func Words(words []string) (*DFA, error) {
	const other = "\xff" // not a prefix of a word
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

// Finite returns the texts of a language, in order, if there are at most most.
func (d *DFA) Finite(most int) ([]string, bool) {
	var out []string
	var walk func(at int, text []rune) bool
	walk = func(at int, text []rune) bool {
		if len(text) > len(d.States) {
			return false // a cycle
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

// Endless removes the states that only finitely many texts pass through: from
// each remaining state there are arbitrarily many paths to the end.
func (d *DFA) Endless() *DFA {
	// States that reach a cycle. All states reach an end, and so does the
	// cycle.
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
