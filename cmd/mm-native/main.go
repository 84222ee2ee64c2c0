// Command mm-native runs a native engine for mm: llama.cpp or ONNX Runtime. mm
// starts it and speaks with it over its standard input and output
// (runtimes/worker); a person has no use for it.
//
//	mm-native ENGINE FOLDER
//
// FOLDER holds the engine's shared libraries. It is a program of its own
// because a Go program that loads shared libraries is not static, and because
// what goes wrong in a native library ends the process.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/cmd/mm-native/llama"
	"mm-abi.org/mm/cmd/mm-native/ort"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/worker/serve"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: mm-native llamacpp|onnxruntime FOLDER (mm starts it)")
		os.Exit(2)
	}
	// Ctrl-C goes to the whole group: it is mm that decides what ends.
	signal.Ignore(os.Interrupt)
	if err := answer(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "mm-native:", err)
		os.Exit(1)
	}
}

func answer(engine, dir string) error {
	out, err := keepOutput()
	if err != nil {
		return err
	}
	return serve.Serve(context.Background(), open(engine, dir), os.Stdin, io.Writer(out))
}

// open loads an engine; what fails is told when mm asks.
func open(name, dir string) runtimes.Engine {
	var e runtimes.Engine
	var err error
	switch name {
	case "llamacpp":
		e, err = llama.Open(dir)
	case "onnxruntime":
		e, err = ort.Open(dir)
	default:
		err = fmt.Errorf("this mm-native has no engine of that name")
	}
	if err != nil {
		return &refused{name, err}
	}
	return e
}

// refused is an engine whose library cannot be used.
type refused struct {
	name string
	err  error
}

func (r *refused) why() error {
	return &runtimes.Unavailable{What: "backend " + r.name, Why: r.err.Error(), Hint: "mm runtime install " + r.name}
}

func (r *refused) Name() string                                 { return r.name }
func (r *refused) Can(builds.Part) error                        { return r.why() }
func (r *refused) Probe(context.Context) (runtimes.Info, error) { return runtimes.Info{}, r.why() }
func (r *refused) Open(context.Context, runtimes.Bundle, runtimes.Limits) (runtimes.Model, error) {
	return nil, r.why()
}
