// Package qnn is the engine qnn: contexts compiled for the NPUs of Qualcomm's chips, run
// by Qualcomm's libraries in a child process (runtimes/worker, cmd/mm-native).
//
// [Engine.Open] opens a context binary, a LiteRT model compiled ahead of time to one
// context, or an ONNX model around one. It reads the file without any library
// (modules/qnnfile), checks it against the SDK of the available libraries on every axis
// of onnx/htp, verifies the digest of the context, and only then loads those bytes in
// the child. A function has the tensor types that the module declares: floating point if
// the context has integers with a scale (ports.go).
//
// On x86-64 the libraries emulate the HTP. Emulation accepts contexts of any chip and its
// results do not describe a device: the engine and all its results are marked simulated.
// No node ever runs on anything else under this name.
//
// [Engine.Compile] compiles contexts with ONNX Runtime's plugin.
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
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/qnn/ask"
	"mm-abi.org/mm/runtimes/worker"
)

// Engine opens functions.
type Engine struct {
	// Home returns mm's home folder, where engines are installed.
	Home func() (string, error)
	// Library is a folder with the libraries; if empty, the installed ones are used.
	Library string
	// Version is a prefix of the installed version to use; if empty, the newest.
	Version string
	// Time is the time of a call, including a compilation, if the limits have none; if
	// 0, 10 minutes, and an hour for a compilation.
	Time time.Duration
	// Chips is the table of chips; if nil, the one of this release.
	Chips htp.Chips

	mu    sync.Mutex
	build string // of the SDK in Library; "": unknown yet
}

// Name returns "qnn".
func (*Engine) Name() string { return native.QNN }

// At returns the engine at a version of the SDK.
func (e *Engine) At(version string) runtimes.Engine {
	return &Engine{Home: e.Home, Version: version, Time: e.Time, Chips: e.Chips}
}

// Simulates reports whether the libraries compute on the processor, as on every machine
// without an HTP.
func (*Engine) Simulates() bool { return runtime.GOARCH != "arm64" }

// Can requires a file for QNN.
func (*Engine) Can(part builds.Part) error {
	if part.Files.Entry(abi.QNN) == "" && (part.Type == abi.Core || part.Type == abi.DraftCore) {
		return &runtimes.Unavailable{
			What: part.ID(), Why: "the qnn backend runs contexts compiled for an NPU, and the part has none",
			Hint: "assemble with --export qnn=" + part.Name + "@CHIP, or compile a GGUF file: mm qnn compile FILE.gguf --target CHIP --out FILE.CHIP.bin",
		}
	}
	if part.Files.Entry(abi.QNN) == "" {
		return &runtimes.Unavailable{What: part.ID(), Why: "the qnn backend runs contexts compiled for an NPU, and the target ships none of it", Hint: "assemble with --export qnn=" + part.Name}
	}
	return nil
}

// worker returns the options of a child, native.QNN or native.QNNCompiler.
func (e *Engine) worker(ctx context.Context, name string, memory int64) (opt worker.Options, err error) {
	if e.Library != "" {
		opt, err = native.At(name, e.Library, memory)
	} else {
		opt, err = native.Libraries{Name: name, Home: e.Home, Version: e.Version}.Worker(ctx, memory)
	}
	if e.Time != 0 {
		opt.Call = e.Time
	}
	return opt, err
}

// Probe starts the libraries and returns their description.
func (e *Engine) Probe(ctx context.Context) (runtimes.Info, error) {
	opt, err := e.worker(ctx, native.QNN, 0)
	if err != nil {
		return runtimes.Info{}, err
	}
	info, err := worker.Probe(ctx, opt)
	if err == nil && info.Simulated != e.Simulates() {
		err = fmt.Errorf("emulation mismatch: mm-native reports %v, want %v on this machine", info.Simulated, e.Simulates())
	}
	return info, err
}

// Platform returns the libraries' description of themselves and their hardware.
func (e *Engine) Platform(ctx context.Context) (ask.Platform, error) {
	var p ask.Platform
	opt, err := e.worker(ctx, native.QNN, 0)
	if err == nil {
		err = worker.Ask(ctx, opt, ask.Device, nil, &p)
	}
	return p, err
}

// sdk returns the build of the libraries' SDK, v2.51.0.260929181845: of installed ones
// from their record, without loading them.
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

// buildOf converts the version of an installed engine, 2.51.0+260929181845, to the form in
// files and libraries.
func buildOf(version string) string { return "v" + strings.Replace(version, "+", ".", 1) }

// target returns what a context is checked against: the SDK, and the requested chip. If no
// chip is requested, it is the chip that the context names, which emulation accepts; a
// device's libraries refuse contexts of other chips.
func (e *Engine) target(device, build string, of uint32, arch htp.Arch) (htp.Target, error) {
	chips := e.Chips
	if chips == nil {
		chips = htp.KnownChips()
	}
	version, err := htp.ParseVersion(build)
	if err != nil {
		return htp.Target{}, err
	}
	t := htp.Target{Name: "qnn", SDK: &version, Arch: arch, SameArch: true, Chips: chips}
	if device == "" || device == deviceHTP {
		if c, ok := chips.Numbered(of); ok && of != 0 {
			t.Chip, t.Arch = &c, c.Arch
		}
		return t, nil
	}
	named, err := htp.ParseTarget(device, chips)
	if err != nil || named.Chip == nil && named.Arch == 0 {
		return t, &runtimes.Unavailable{What: "device " + device, Why: "neither htp nor a known chip", Hint: "mm qnn soc ls lists them; leave the device out"}
	}
	named.SDK, named.SameArch = &version, named.Chip == nil
	return named, nil
}

// deviceHTP is the only device, emulated or not.
const deviceHTP = "htp"
