// Package modal trains the parts of a multimodal build that are no language
// models, and a core to use them: encoders and projectors, by what the core says
// of a picture or a sound.
//
// The way of a run: a [Recipe] says everything; [New], or [Resume], opens the
// core, the networks and the sources that it names and builds the trainer of the
// [Perception] that follows from them. One example is one document of the
// core, with the projector's vectors between the modality's markers:
//
//	<image> v1 … vN </image>How many bars? 4<eos>
//
// and the loss is that of the answers alone, so that it reaches the projector,
// and the encoder behind it, through the core. What trains and what is sealed
// follows from the recipe's [Stage]; the trainer's hashes prove it.
//
// An example is a pure function of the recipe's seed and its number, so a run is
// the same bit for bit on any number of threads and through interruptions.
package modal

import (
	"fmt"
	"path/filepath"

	"mm-abi.org/mm/core/train"
)

// at says where in a recipe err is; what knows its own place keeps it.
func at(path string, err error) error {
	if err == nil {
		return nil
	}
	return train.Fault{Path: path, Err: err}
}

// atf is a fault in words.
func atf(path, format string, args ...any) error { return at(path, fmt.Errorf(format, args...)) }

// resolve is a path of a recipe in the folder dir.
func resolve(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
