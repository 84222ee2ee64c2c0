package infer

import (
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
)

// Config is the shape of a model, read from its GGUF file.
type Config = arch.Shape

// Rope describes rotary position embedding.
type Rope = arch.Rope

// ReadConfig reads the shape of a model from GGUF metadata and validates it.
// Counts that may differ from layer to layer must be the same in all; an
// unsupported key that would change the result is an error.
func ReadConfig(f *gguf.File) (Config, error) { return arch.Read(f) }
