// Package standard holds the built-in skills: a table of functions by the name
// in runtime.builtin of a module.yaml, and the skill safety. [WriteTemplate] writes
// the folder of a new skill, which counts words.
//
// Safety finds words of a list (list.go), in one pass of an Aho-Corasick
// automaton over a normalized text; personal data (person.go), by form and
// checksum; and marks of prompts that pretend to be more than a user's text
// (prompt.go). It is a filter with known gaps; docs/SKILLS.md describes what it
// was measured on.
package standard

import (
	"sync"

	"mm-abi.org/mm/skills/algebra"
	"mm-abi.org/mm/skills/figure"
	"mm-abi.org/mm/skills/sandbox/builtin"
)

// Funcs returns the functions for a builtin.Executor. The letters for
// comparison are rendered once, for the first image.
func Funcs() map[string]builtin.Func {
	letters := sync.OnceValues(figure.Letters)
	return map[string]builtin.Func{
		"chartqa":    figure.Chart(letters),
		"ocr-latex":  figure.Formula(letters),
		"safety":     safety(),
		"sympy-lite": algebra.Tool,
	}
}
