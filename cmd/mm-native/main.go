// Command mm-native runs a native engine for mm: LiteRT, llama.cpp, ONNX Runtime, OpenVINO or QNN. mm starts it
// and communicates over its standard input and output (runtimes/worker); it is not for
// interactive use.
//
//	mm-native [-memory BYTES] ENGINE FOLDER
//
// mm also pushes it to devices (lab/device/protocol, docs/DEVICES.md), where it runs a context:
//
//	mm-native run --context FILE --inputs DIR --outputs DIR --nonce HEX [--libs DIR] [--graph NAME] [--repeat N] --json
//
// FOLDER contains the engine's shared libraries. The program is separate because a Go program
// that loads shared libraries is not static, and because a fault in a native library ends the
// process. It leaves no core dump. With -memory the process may use this many bytes, and
// [overhead] in addition; the system refuses the library more, on Linux and Windows, which
// support such limits.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/cmd/mm-native/litertlib"
	"mm-abi.org/mm/cmd/mm-native/llamalib"
	"mm-abi.org/mm/cmd/mm-native/ortlib"
	"mm-abi.org/mm/cmd/mm-native/ovlib"
	"mm-abi.org/mm/cmd/mm-native/qnnlib"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/worker"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "run" {
		os.Exit(onDevice())
	}
	memory := flag.Int64("memory", 0, "bytes that the engine may take; 0: no limit")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: mm-native [-memory BYTES] litert|llamacpp|onnxruntime|openvino|qnn|qnn-compiler FOLDER (mm starts it)")
	}
	flag.Parse()
	if flag.NArg() != 2 || *memory < 0 {
		flag.Usage()
		os.Exit(2)
	}
	// Ctrl-C reaches the whole process group; mm decides how to end.
	signal.Ignore(os.Interrupt)
	err := bound(*memory)
	if err == nil {
		err = answer(flag.Arg(0), flag.Arg(1))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mm-native:", err)
		os.Exit(1)
	}
}

// onDevice runs a context on a device. Libraries print on standard output, which must contain
// only the result.
func onDevice() int {
	err := bound(0)
	var out *os.File
	if err == nil {
		out, err = keepOutput()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mm-device:", err)
		return 3
	}
	return runOnDevice(context.Background(), os.Args[1:], out, os.Stderr)
}

// overhead is the memory of a process in addition to a model's weights and sequences: the
// libraries' data, the stacks of their threads, frames in transit.
const overhead = 512 << 20

func answer(engine, dir string) error {
	out, err := keepOutput()
	if err != nil {
		return err
	}
	return worker.Serve(context.Background(), open(engine, dir), os.Stdin, io.Writer(out))
}

// open loads an engine. mm asks for the error later.
func open(name, dir string) runtimes.Engine {
	var e runtimes.Engine
	var err error
	switch name {
	case "llamacpp":
		// With more threads, Go's monitor wakes up during calls of milliseconds to
		// look for work: 3 to 8 % of the time of a small model's token. ONNX Runtime's
		// calls may be shorter than the switch of a thread.
		runtime.GOMAXPROCS(1)
		e, err = llamalib.Open(dir)
	case "onnxruntime":
		e, err = ortlib.Open(dir)
	case "litert":
		e, err = litertlib.Open(dir)
	case "openvino":
		e, err = ovlib.Open(dir)
	case "qnn":
		e, err = qnnlib.Open(dir)
	case "qnn-compiler":
		e, err = qnnlib.OpenCompiler(dir)
	default:
		err = fmt.Errorf("unknown engine")
	}
	if err != nil {
		return &refused{name, err}
	}
	return e
}

// refused is an engine whose library cannot be loaded.
type refused struct {
	name string
	err  error
}

func (r *refused) why() error {
	return &runtimes.Unavailable{What: "backend " + r.name, Why: r.err.Error(), Hint: "mm runtime install " + strings.TrimSuffix(r.name, "-compiler")}
}

func (r *refused) Name() string                                 { return r.name }
func (r *refused) Can(builds.Part) error                        { return r.why() }
func (r *refused) Probe(context.Context) (runtimes.Info, error) { return runtimes.Info{}, r.why() }
func (r *refused) Open(context.Context, runtimes.Bundle, runtimes.Limits) (runtimes.Model, error) {
	return nil, r.why()
}
