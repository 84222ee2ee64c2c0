// Package qnn drives Qualcomm's libraries for the HTP, the NPU of their chips,
// through QNN's C interface and without its headers: context binaries in,
// tensors out. On x86-64 libQnnHtp emulates the HTP on the processor.
//
// [Open] loads libQnnHtp and libQnnSystem of a folder and holds their versions
// to the layouts that are known here (layout.go). A context is read and hashed,
// described by QnnSystem, held to what mm read of the same file, and only then
// given to the HTP (load.go); a function is one of its graphs. Tensors are those
// of the context, integers and all: what they stand for is mm's to say.
// [Engine.Answer] answers what only this engine can be asked, a compilation by
// ONNX Runtime and its plugin among it (compile.go).
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
	"mm-abi.org/mm/core/htp"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/qnn/ask"
)

// Engine is the libraries of one folder.
type Engine struct {
	dir         string
	htp, system *table
	build       string

	thread thread     // that calls the libraries, and has what is below
	last   ask.Events // of the last run that gathered any
}

// Open loads the libraries of a folder.
func Open(dir string) (*Engine, error) {
	if dir == "" {
		return nil, errors.New("no folder of libraries is named")
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
	id, err := e.htp.made("backendGetBuildId", backendBuildID)
	if err != nil {
		return err
	}
	e.build = dynlib.String(id)
	if _, err := htp.ParseVersion(e.build); err != nil {
		return fmt.Errorf("libQnnHtp gives its build as %q", e.build)
	}
	return nil
}

// Name is "qnn".
func (*Engine) Name() string { return "qnn" }

// simulated says whether the library computes on the processor: it does on
// every machine but those that have an HTP.
func simulated() bool { return runtime.GOARCH != "arm64" }

// device is what Info calls where it computes.
func device() string {
	if simulated() {
		return "htp (emulated)"
	}
	return "htp"
}

// Probe gives the SDK's version.
func (e *Engine) Probe(context.Context) (runtimes.Info, error) {
	// As a semantic version, with the build behind a plus: 2.51.0+260929181845.
	v, err := htp.ParseVersion(e.build)
	text := v.String()
	if build, ok := strings.CutPrefix(e.build, "v"+text+"."); ok {
		text += "+" + build
	}
	return runtimes.Info{Version: text, Devices: []string{device()}, Formats: []string{string(abi.QNN)}, License: "LicenseRef-Qualcomm-AI-Stack", Simulated: simulated()}, err
}

// Can wants a file for QNN.
func (*Engine) Can(p builds.Part) error {
	if p.Files.Entry(abi.QNN) == "" {
		return &runtimes.Unavailable{What: p.ID(), Why: "QNN runs compiled contexts"}
	}
	return nil
}

// Open is for callers that do not say where in a file a context lies, of whom
// there are none.
func (*Engine) Open(context.Context, runtimes.Bundle, runtimes.Limits) (runtimes.Model, error) {
	return nil, errors.New("qnn: which graph of which bytes is not said")
}

// OpenOwn loads a context and finds one of its graphs.
func (e *Engine) OpenOwn(ctx context.Context, b runtimes.Bundle, l runtimes.Limits, own []byte) (runtimes.Model, error) {
	var o ask.Open
	if err := json.Unmarshal(own, &o); err != nil {
		return nil, fmt.Errorf("qnn: how to open a context: %w", err)
	}
	if err := errors.Join(l.Check(), ctx.Err()); err != nil {
		return nil, err
	}
	if l.Memory != 0 && o.Size > l.Memory {
		return nil, fmt.Errorf("qnn: the context has %d bytes, the limit is %d", o.Size, l.Memory)
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

// Answer answers questions of this engine's own.
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
	return nil, fmt.Errorf("qnn: %q is no question", name)
}

// platform asks the libraries about themselves and where they run.
func (e *Engine) platform() (ask.Platform, error) {
	p := ask.Platform{Build: e.build, Provider: e.htp.name, Core: e.htp.core, Backend: e.htp.own, System: e.system.own, Simulated: simulated(), Compiler: e.compiler()}
	info, err := e.htp.made("deviceGetPlatformInfo", platformInfo, 0)
	if err != nil {
		return p, err
	}
	defer e.htp.call("deviceFreePlatformInfo", platformFree, 0, info) // what it answers helps nobody
	// QnnDevice_PlatformInfo_t: version, then (version 1) the number of devices
	// and their list; a device ends with a pointer to what the HTP adds.
	p.Devices = int(u32(info + 8))
	if list := pointer(info + 16); p.Devices > 0 && list != 0 {
		if own := pointer(list + 32); own != 0 {
			p.VTCM, p.SoC, p.Arch = u32(own+8), u32(own+16), u32(own+24)
		}
	}
	return p, nil
}

// logs has the library print what goes wrong on standard error, whose last
// lines mm tells when this process dies. 0 is no log.
func (e *Engine) logs() uintptr {
	const errorsOnly = 1
	callback := logCallback()
	if callback == 0 {
		return 0
	}
	h, err := e.htp.made("logCreate", logCreate, callback, errorsOnly)
	if err != nil {
		return 0
	}
	return h
}
