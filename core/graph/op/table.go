package op

import (
	"maps"

	"mm-abi.org/mm/core/graph/arith"
	"mm-abi.org/mm/core/graph/control"
	"mm-abi.org/mm/core/graph/image"
	"mm-abi.org/mm/core/graph/kernel"
	"mm-abi.org/mm/core/graph/move"
	"mm-abi.org/mm/core/graph/norm"
	"mm-abi.org/mm/core/graph/product"
	"mm-abi.org/mm/core/graph/quantize"
	"mm-abi.org/mm/core/graph/recur"
)

// table holds every operator of ai.onnx that is claimed.
var table = func() kernel.Operators {
	t := kernel.Operators{}
	for _, part := range parts() {
		maps.Copy(t, part)
	}
	return t
}()

// parts are the tables that are put together; each has names of its own.
func parts() []kernel.Operators {
	return []kernel.Operators{arith.Operators(), product.Operators(), image.Operators(), norm.Operators(), recur.Operators(), quantize.Operators(), control.Operators(), move.Operators()}
}
