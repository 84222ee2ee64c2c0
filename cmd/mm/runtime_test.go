package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/worker/serve"
)

// playNative plays mm-native: its engine is of the version that the library's file
// holds.
func playNative() {
	if err := serve.Serve(context.Background(), played{os.Args[len(os.Args)-1]}, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type played struct{ dir string }

func (played) Name() string          { return "played" }
func (played) Can(builds.Part) error { return nil }
func (played) Open(context.Context, runtimes.Bundle, runtimes.Limits) (runtimes.Model, error) {
	return nil, errors.New("it is played")
}

func (p played) Probe(context.Context) (runtimes.Info, error) {
	text, err := os.ReadFile(filepath.Join(p.dir, "libonnxruntime.so.1"))
	if err != nil || strings.HasPrefix(string(text), "bad") {
		return runtimes.Info{}, errors.Join(err, errors.New("the library is not for this machine"))
	}
	return runtimes.Info{Version: strings.TrimSpace(string(text)), Devices: []string{"cpu"}, Formats: []string{"onnx"}, License: "MIT"}, nil
}
