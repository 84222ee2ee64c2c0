package step

import "mm-abi.org/mm/runtimes"

// PassesOf returns the passes of a model.
func PassesOf(m runtimes.Model) []Pass { return m.(*Model).passes }
