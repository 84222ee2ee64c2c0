package op

import (
	"maps"
	"sync"

	"mm-abi.org/mm/onnx/engine/arith"
	"mm-abi.org/mm/onnx/engine/image"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/engine/layers"
	"mm-abi.org/mm/onnx/engine/product"
)

// table holds every supported operator of ai.onnx.
var table = sync.OnceValue(func() kernel.Operators {
	t := kernel.Operators{}
	for _, part := range parts() {
		maps.Copy(t, part)
	}
	return t
})

// contributed holds every supported operator of com.microsoft, ONNX Runtime's
// own domain.
var contributed = sync.OnceValue(func() kernel.Operators {
	t := kernel.Operators{}
	for _, name := range microsoft {
		o := table()[name]
		o.Since = 1
		t[name] = o
	}
	for _, part := range []kernel.Operators{arith.Microsoft(), product.Microsoft(), image.Microsoft(), layers.Microsoft()} {
		maps.Copy(t, part)
	}
	return t
})

// parts returns the tables that are merged; their names are disjoint.
func parts() []kernel.Operators {
	return []kernel.Operators{arith.Operators(), product.Operators(), image.Operators(), layers.Operators(), moves()}
}
