// Package standard is the table of the built-in skills: functions by the name
// in runtime.builtin of a module.yaml.
package standard

import (
	"sync"

	"mm-abi.org/mm/skills/algebra"
	"mm-abi.org/mm/skills/chart"
	"mm-abi.org/mm/skills/formula"
	"mm-abi.org/mm/skills/glyph"
	"mm-abi.org/mm/skills/guard"
	"mm-abi.org/mm/skills/sandbox/builtin"
)

// Funcs returns the functions for a builtin.Executor. The letters for
// comparison are rendered once, for the first image.
func Funcs() map[string]builtin.Func {
	letters := sync.OnceValues(glyph.New)
	return map[string]builtin.Func{
		"chartqa":    chart.New(letters),
		"ocr-latex":  formula.New(letters),
		"safety":     guard.Tool(),
		"sympy-lite": algebra.Tool,
	}
}
