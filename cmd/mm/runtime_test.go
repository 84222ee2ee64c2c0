package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/qnn/ask"
	"mm-abi.org/mm/runtimes/worker"
)

// playNative plays mm-native: its engine is of the version that the library's file
// holds.
func playNative() {
	if err := worker.Serve(context.Background(), played{os.Args[len(os.Args)-1]}, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// playedNative is the path of that program. What is asked of it is named so in
// MM_NATIVE: one that is beside the test's program would come before it, and what
// the environment names before both.
func playedNative(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("mm-native") // testscript's, which is this test program
	if err != nil {
		t.Fatal(err)
	}
	return path
}

type played struct{ dir string }

func (played) Name() string          { return "played" }
func (played) Can(builds.Part) error { return nil }
func (p played) Open(ctx context.Context, _ runtimes.Bundle, _ runtimes.Limits) (runtimes.Model, error) {
	if p.hangs(ctx) {
		return hung{}, nil
	}
	info, err := p.Probe(ctx)
	return nil, errors.Join(err, fmt.Errorf("%s is played", info.Version))
}

// hangs reports whether the library is one that never comes back from its work.
func (p played) hangs(ctx context.Context) bool {
	info, err := p.Probe(ctx)
	return err == nil && strings.HasSuffix(info.Version, "-hangs")
}

// hung is a function that hangs, as a native call does: it hears nothing, and the
// process goes on to say that it is alive.
type hung struct{}

func (hung) Close() error { return nil }
func (hung) Run(context.Context, map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	time.Sleep(time.Minute)
	return nil, nil
}

func (p played) Probe(context.Context) (runtimes.Info, error) {
	name := "libonnxruntime.so.1"
	if strings.HasPrefix(os.Args[len(os.Args)-2], "qnn") {
		name = "libQnnHtp.so"
	}
	text, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil || strings.HasPrefix(string(text), "bad") {
		return runtimes.Info{}, errors.Join(err, errors.New("the library is not for this machine"))
	}
	return runtimes.Info{Version: strings.TrimSpace(string(text)), Simulated: name == "libQnnHtp.so", Devices: []string{"cpu"}, Formats: []string{"onnx"}, License: "MIT"}, nil
}

// Answer plays what mm qnn probe asks.
func (p played) Answer(ctx context.Context, name string, _ []byte) (any, error) {
	if name == ask.Compile && p.hangs(ctx) {
		time.Sleep(time.Minute)
	}
	if _, err := p.Probe(ctx); err != nil || name != ask.Device {
		return nil, errors.Join(err, errors.New("it is played"))
	}
	return ask.Platform{
		Build: "v2.51.0.260929181845", Provider: "HTP_QTI_AISW", Core: ask.Version{2, 40, 0}, Backend: ask.Version{5, 51, 0}, System: ask.Version{1, 15, 0},
		SoC: 30, Arch: 68, VTCM: 4, Devices: 1, Simulated: true, Compiler: "1.31.1",
	}, nil
}
