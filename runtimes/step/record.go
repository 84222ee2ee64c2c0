package step

import "mm-abi.org/mm/onnx/window"

// Record describes the origin of passes. It is part of the record of a context compiled
// from a language model.
type Record struct {
	Model       string `json:"model"`     // digest of the GGUF file: sha256:…
	Vocab       int    `json:"vocab"`     // V, the number of tokens
	Window      int    `json:"window"`    // W
	Positions   int    `json:"positions"` // n
	window.Span        // the layers of the context; the zero value is all
}
