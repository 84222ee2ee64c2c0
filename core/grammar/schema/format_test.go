package schema

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"mm-abi.org/mm/core/grammar/automaton"
	"mm-abi.org/mm/schemas"
)

// Random texts of each format are accepted by both validators with formats checked.
func TestFormats(t *testing.T) {
	for name, expr := range formats {
		d, err := automaton.Pattern(expr)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		shape, err := schemas.NewShape([]byte(fmt.Sprintf(`{"format":%q}`, name)))
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(4, uint64(len(name))))
		for range 500 {
			text := walk(d, rng)
			if err := shape.Check(text); err != nil {
				t.Fatalf("%s: %q: %v", name, text, err)
			}
			if judge := jsonschema.Formats[name]; judge != nil && !judge(text) {
				t.Fatalf("%s: %q is refused by another validator", name, text)
			}
		}
	}
}

// walk returns a random text of a language.
func walk(d *automaton.DFA, rng *rand.Rand) string {
	var text []rune
	for at := 0; ; {
		s := d.States[at]
		if s.Label != automaton.No && (len(s.Edges) == 0 || len(text) > 40 || rng.IntN(6) == 0) {
			return string(text)
		}
		e := s.Edges[rng.IntN(len(s.Edges))]
		r := e.Lo + rune(rng.IntN(int(e.Hi-e.Lo+1)))
		if r >= 0xd800 && r < 0xe000 {
			continue
		}
		text, at = append(text, r), int(e.To)
	}
}
