package step

import "mm-abi.org/mm/core/gguf/window"

// Record says what passes were made of: part of the record of a context that
// is compiled of a language model.
type Record struct {
	Model       string `json:"model"`     // digest of the GGUF file: sha256:…
	Vocab       int    `json:"vocab"`     // V, its tokens
	Window      int    `json:"window"`    // W
	Positions   int    `json:"positions"` // n
	window.Span        // the layers that the context has; nothing: all
}
