package op

import (
	"maps"

	"mm-abi.org/mm/onnx/engine/arith"
	"mm-abi.org/mm/onnx/engine/image"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/engine/layers"
	"mm-abi.org/mm/onnx/engine/move"
	"mm-abi.org/mm/onnx/engine/product"
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
	return []kernel.Operators{arith.Operators(), product.Operators(), image.Operators(), layers.Operators(), move.Operators()}
}
