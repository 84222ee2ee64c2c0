package infer

import (
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
)

// Config is the shape of a model, as its GGUF file describes it.
type Config = arch.Shape

// Rope is rotary position embedding.
type Rope = arch.Rope

// ReadConfig takes the shape of a model from GGUF metadata and checks it.
// Counts that may differ from layer to layer must be the same in all; a key
// that the engine does not heed is refused where it would change the result.
func ReadConfig(f *gguf.File) (Config, error) { return arch.Read(f) }
