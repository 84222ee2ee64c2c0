// Package qnn is the engine called qnn: contexts compiled for the NPUs of
// Qualcomm's chips, by Qualcomm's libraries in a child process
// (runtimes/worker, cmd/mm-native).
package qnn

import (
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/worker"
)

// Engine opens functions.
type Engine struct {
	// Home gives mm's home folder, where engines are installed.
	Home func() (string, error)
	// Library is a folder that holds the libraries, in place of those that are
	// installed; "": they are.
	Library string
}

// worker says how to start a child of a name, engines.QNN or engines.QNNCompiler.
func (e *Engine) worker(name string, memory int64) (worker.Options, error) {
	if e.Library != "" {
		return engines.At(name, e.Library, memory)
	}
	return engines.Worker(e.Home, name, memory)
}
