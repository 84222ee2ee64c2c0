// Package standard is the table of the skills that are part of mm: functions
// by the name that runtime.builtin of a module.yaml gives.
package standard

import (
	"mm-abi.org/mm/skills/algebra"
	"mm-abi.org/mm/skills/chart"
	"mm-abi.org/mm/skills/formula"
	"mm-abi.org/mm/skills/guard"
	"mm-abi.org/mm/skills/sandbox/builtin"
)

// Funcs are the functions, for a builtin.Executor.
func Funcs() map[string]builtin.Func {
	return map[string]builtin.Func{
		"chartqa":    chart.New(),
		"ocr-latex":  formula.New(),
		"safety":     guard.Tool(),
		"sympy-lite": algebra.Tool,
	}
}
