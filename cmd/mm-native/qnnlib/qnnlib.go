// Package qnnlib drives Qualcomm's libraries for the HTP, the NPU of their chips, through QNN's C
// interface and without its headers: it runs context binaries on tensors. On x86-64 libQnnHtp
// emulates the HTP on the processor.
//
// [Open] loads libQnnHtp and libQnnSystem of a folder and checks their versions against the
// supported layouts (layout.go). A context is read, its digest verified, described by QnnSystem
// and compared with mm's own reading, and only then loaded on the HTP (load.go); a function is one
// of its graphs. Tensors have the types of the context; mm converts quantized integers.
// [Engine.Answer] answers engine-specific questions, including compilations by ONNX Runtime and
// its plugin (compile.go).
package qnnlib

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/cmd/mm-native/dynlib"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/qnn/ask"
)

// Engine holds the libraries of one folder.
type Engine struct {
	dir         string
	htp, system *table
	build       string

	thread thread     // that calls the libraries and guards the fields below
	last   ask.Events // of the last run with a profile
}

// Open loads the libraries of a folder.
func Open(dir string) (*Engine, error) {
	if dir == "" {
		return nil, errors.New("missing folder of libraries")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	e := &Engine{dir: dir, thread: newThread()}
	return e, errors.Join(e.thread.do(context.Background(), func() { err = e.open() }), err)
}

// open loads the libraries.
func (e *Engine) open() (err error) {
	giveBack()
	if e.system, err = openSystem(e.dir); err != nil {
		return err
	}
	if e.htp, err = openHTP(e.dir); err != nil {
		return err
	}
	id, err := e.htp.create("backendGetBuildId", backendBuildID)
	if err != nil {
		return err
	}
	e.build = dynlib.String(id)
	if _, err := htp.ParseVersion(e.build); err != nil {
		return fmt.Errorf("libQnnHtp: bad build %q", e.build)
	}
	return nil
}

// Name returns "qnn".
func (*Engine) Name() string { return "qnn" }

// simulated reports whether the library computes on the processor, as on every machine without an
// HTP.
func simulated() bool { return runtime.GOARCH != "arm64" }

// device returns the device for Info.
func device() string {
	if simulated() {
		return "htp (emulated)"
	}
	return "htp"
}

// Probe returns the SDK's version.
func (e *Engine) Probe(context.Context) (runtimes.Info, error) {
	// As a semantic version, with the build after a plus: 2.51.0+260929181845.
	v, err := htp.ParseVersion(e.build)
	text := v.String()
	if build, ok := strings.CutPrefix(e.build, "v"+text+"."); ok {
		text += "+" + build
	}
	return runtimes.Info{Version: text, Devices: []string{device()}, Formats: []string{string(abi.QNN)}, License: "LicenseRef-Qualcomm-AI-Stack", Simulated: simulated()}, err
}

// Can requires a file for QNN.
func (*Engine) Can(p builds.Part) error {
	if p.Files.Entry(abi.QNN) == "" {
		return &runtimes.Unavailable{What: p.ID(), Why: "QNN runs compiled contexts"}
	}
	return nil
}

// Open returns an error: a context needs the options of OpenOwn.
func (*Engine) Open(context.Context, runtimes.Bundle, runtimes.Limits) (runtimes.Model, error) {
	return nil, errors.New("qnn: missing graph and span of the file")
}

// OpenOwn loads a context and opens one of its graphs.
func (e *Engine) OpenOwn(ctx context.Context, b runtimes.Bundle, l runtimes.Limits, own []byte) (runtimes.Model, error) {
	var o ask.Open
	if err := json.Unmarshal(own, &o); err != nil {
		return nil, fmt.Errorf("qnn: decoding the options of a context: %w", err)
	}
	if err := errors.Join(l.Check(), ctx.Err()); err != nil {
		return nil, err
	}
	if l.Memory != 0 && o.Size > l.Memory {
		return nil, fmt.Errorf("qnn: context has %d bytes, limit %d", o.Size, l.Memory)
	}
	var f *function
	var err error
	if queued := e.thread.do(ctx, func() { f, err = e.load(o) }); queued != nil {
		return nil, queued
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Answer answers engine-specific questions.
func (e *Engine) Answer(ctx context.Context, name string, args []byte) (answer any, err error) {
	if queued := e.thread.do(ctx, func() { answer, err = e.answer(name, args) }); queued != nil {
		return nil, queued
	}
	return answer, err
}

func (e *Engine) answer(name string, args []byte) (any, error) {
	switch name {
	case ask.Device:
		return e.platform()
	case ask.Describe:
		var f ask.File
		if err := json.Unmarshal(args, &f); err != nil {
			return nil, err
		}
		data, err := read(f)
		if err != nil {
			return nil, err
		}
		d, err := e.describe(data)
		return d.Description, err
	case ask.Profile:
		return e.last, nil
	}
	return nil, fmt.Errorf("qnn: unknown question %q", name)
}

// platform returns the libraries' description of themselves and their hardware.
func (e *Engine) platform() (ask.Platform, error) {
	p := ask.Platform{Build: e.build, Provider: e.htp.name, Core: e.htp.core, Backend: e.htp.iface, System: e.system.iface, Simulated: simulated(), Compiler: e.compiler()}
	info, err := e.htp.create("deviceGetPlatformInfo", platformInfo, 0)
	if err != nil {
		return p, err
	}
	defer e.htp.call("deviceFreePlatformInfo", platformFree, 0, info) // the result does not matter
	// QnnDevice_PlatformInfo_t: version, then (version 1) the number of devices and
	// their list; a device ends with a pointer to the HTP's extension.
	p.Devices = int(u32(info + 8))
	if list := pointer(info + 16); p.Devices > 0 && list != 0 {
		if own := pointer(list + 32); own != 0 {
			p.VTCM, p.SoC, p.Arch = u32(own+8), u32(own+16), u32(own+24)
		}
	}
	return p, nil
}

// logs makes the library print errors on standard error, whose last lines mm reports if this
// process dies. It returns 0 if there is no log.
func (e *Engine) logs() uintptr {
	const errorsOnly = 1
	callback := logCallback()
	if callback == 0 {
		return 0
	}
	h, err := e.htp.create("logCreate", logCreate, callback, errorsOnly)
	if err != nil {
		return 0
	}
	return h
}
