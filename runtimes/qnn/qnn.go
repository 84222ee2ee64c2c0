// Package qnn is the engine called qnn: contexts compiled for the NPUs of
// Qualcomm's chips, by Qualcomm's libraries in a child process
// (runtimes/worker, cmd/mm-native).
//
// [Engine.Open] takes a context binary, a LiteRT model compiled ahead of time
// that is one context, or an ONNX model around one. It reads the file without
// any library (modules/qnnfile), holds it to the SDK of the libraries that are
// there on every axis of core/htp/fit, hashes the context, and only then has the
// child load those very bytes. A function takes and gives tensors as the module
// declares them: numbers where the context has integers with a scale
// (ports.go).
//
// On x86-64 the libraries emulate the HTP. They take any context there, whatever
// its chip, and what they compute says nothing about a device: the engine calls
// itself simulated and so does everything that came of it. No node ever runs on
// anything else under this name.
//
// [Engine.Compile] makes contexts, by ONNX Runtime's plugin.
package qnn

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/htp"
	"mm-abi.org/mm/core/htp/fit"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/qnn/ask"
	"mm-abi.org/mm/runtimes/worker"
)

// Engine opens functions.
type Engine struct {
	// Home gives mm's home folder, where engines are installed.
	Home func() (string, error)
	// Library is a folder that holds the libraries, in place of those that are
	// installed; "": they are.
	Library string
	// Version is what the installed version that computes begins with; "": the
	// newest.
	Version string
	// Time is how long a call may take, a compilation too, where the limits say
	// nothing; 0: 10 minutes, and an hour of a compilation.
	Time time.Duration
	// Chips is the table of chips; nil: that of this release.
	Chips fit.Chips

	mu    sync.Mutex
	build string // of the SDK in Library; "": not asked yet
}

// Name is "qnn".
func (*Engine) Name() string { return native.QNN }

// At is the engine at a version of the SDK.
func (e *Engine) At(version string) runtimes.Engine {
	return &Engine{Home: e.Home, Version: version, Time: e.Time, Chips: e.Chips}
}

// Simulates reports whether the libraries compute on the processor: they do on
// every machine but those with an HTP.
func (*Engine) Simulates() bool { return runtime.GOARCH != "arm64" }

// Can wants a file for QNN.
func (*Engine) Can(part builds.Part) error {
	if part.Files.Entry(abi.QNN) == "" && (part.Type == abi.Core || part.Type == abi.DraftCore) {
		return &runtimes.Unavailable{
			What: part.ID(), Why: "the qnn backend runs contexts compiled for an NPU, and there is none of it",
			Hint: "assemble with --export qnn=" + part.Name + "@CHIP; beside a GGUF file mm qnn compile FILE.gguf --target CHIP --out FILE.CHIP.bin puts one",
		}
	}
	if part.Files.Entry(abi.QNN) == "" {
		return &runtimes.Unavailable{What: part.ID(), Why: "the qnn backend runs contexts compiled for an NPU, and the target ships none of it", Hint: "assemble with --export qnn=" + part.Name}
	}
	return nil
}

// worker says how to start a child of a name, engines.QNN or engines.QNNCompiler.
func (e *Engine) worker(name string, memory int64) (opt worker.Options, err error) {
	if e.Library != "" {
		opt, err = native.At(name, e.Library, memory)
	} else {
		opt, err = native.Libraries{Name: name, Home: e.Home, Version: e.Version}.Worker(memory)
	}
	if e.Time != 0 {
		opt.Call = e.Time
	}
	return opt, err
}

// Probe starts the libraries and asks them.
func (e *Engine) Probe(ctx context.Context) (runtimes.Info, error) {
	opt, err := e.worker(native.QNN, 0)
	if err != nil {
		return runtimes.Info{}, err
	}
	info, err := worker.Probe(ctx, opt)
	if err == nil && info.Simulated != e.Simulates() {
		err = fmt.Errorf("mm-native says that the libraries emulate the HTP: %v, and on this machine it is %v", info.Simulated, e.Simulates())
	}
	return info, err
}

// Platform asks the libraries about themselves and where they run.
func (e *Engine) Platform(ctx context.Context) (ask.Platform, error) {
	var p ask.Platform
	opt, err := e.worker(native.QNN, 0)
	if err == nil {
		err = worker.Ask(ctx, opt, ask.Device, nil, &p)
	}
	return p, err
}

// sdk is the build of the SDK that the libraries are of, v2.51.0.260929181845:
// of installed ones by their record, so that nothing is loaded for it.
func (e *Engine) sdk(ctx context.Context) (string, error) {
	if e.Library == "" {
		home, err := e.Home()
		if err != nil {
			return "", err
		}
		r, err := native.Find(home, native.QNN, e.Version)
		return buildOf(r.Version), err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.build == "" {
		info, err := e.Probe(ctx)
		if err != nil {
			return "", err
		}
		e.build = buildOf(info.Version)
	}
	return e.build, nil
}

// buildOf writes the version of an installed engine, 2.51.0+260929181845, as
// files and libraries do.
func buildOf(version string) string { return "v" + strings.Replace(version, "+", ".", 1) }

// target is what a context is held to: the SDK, and the chip where one is asked
// for. A context is else taken for the chip that it names, as an emulation takes
// it; on a device the libraries refuse another's.
func (e *Engine) target(device, build string, of uint32, arch htp.Arch) (fit.Target, error) {
	chips := e.Chips
	if chips == nil {
		chips = fit.KnownChips()
	}
	version, err := htp.ParseVersion(build)
	if err != nil {
		return fit.Target{}, err
	}
	t := fit.Target{Name: "qnn", SDK: &version, Arch: arch, SameArch: true, Chips: chips}
	if device == "" || device == deviceHTP {
		if c, ok := chips.Numbered(of); ok && of != 0 {
			t.Chip, t.Arch = &c, c.Arch
		}
		return t, nil
	}
	named, err := fit.ParseTarget(device, chips)
	if err != nil || named.Chip == nil && named.Arch == 0 {
		return t, &runtimes.Unavailable{What: "device " + device, Why: "it is neither htp nor a chip that the table has", Hint: "mm qnn soc ls lists them; leave the device out"}
	}
	named.SDK, named.SameArch = &version, named.Chip == nil
	return named, nil
}

// deviceHTP is the device that there is, emulated or not.
const deviceHTP = "htp"
