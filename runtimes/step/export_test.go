package step

import "mm-abi.org/mm/runtimes"

// PassesOf are a model's.
func PassesOf(m runtimes.Model) []Pass { return m.(*Model).passes }
