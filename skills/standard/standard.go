// Package standard is the table of the skills that are part of mm: functions
// by the name that runtime.builtin of a module.yaml gives.
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

// Funcs are the functions, for a builtin.Executor. Letters to compare with are
// drawn once, when the first picture is read.
func Funcs() map[string]builtin.Func {
	letters := sync.OnceValues(glyph.New)
	return map[string]builtin.Func{
		"chartqa":    chart.New(letters),
		"ocr-latex":  formula.New(letters),
		"safety":     guard.Tool(),
		"sympy-lite": algebra.Tool,
	}
}
