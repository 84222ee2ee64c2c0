package native

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes/worker"
)

// LicenseError says that an engine comes under a licence that has to be accepted
// first.
type LicenseError struct {
	Engine string
	Text   string // what the licence says, in short, and where it is
}

// Error names the engine.
func (l *LicenseError) Error() string {
	return l.Engine + " comes under its maker's own licence, which has to be accepted"
}

// Hint is the way on.
func (*LicenseError) Hint() string { return "read the licence, and say --accept-licence" }

// ErrBound says that an engine's licence lets nobody pass it on.
var ErrBound = errors.New("its licence lets nobody pass it on")

// Portable says whether an engine may be sent to others; ErrBound where not.
func Portable(name string) error {
	if Canonical(name) == QNN {
		return fmt.Errorf("qnn: %w: everybody installs it from its maker", ErrBound)
	}
	return nil
}

// qnnPackage is what QNN's libraries are installed from. They emulate the HTP on
// Linux on x86-64; nothing else was tried.
func qnnPackage(system, machine, version string) (pinned, error) {
	if system+"/"+machine != "linux/amd64" {
		return pinned{}, fmt.Errorf("qnn is installed on linux/amd64, and this is %s/%s", system, machine)
	}
	if version == "" {
		version = qnnVersions()[0]
	}
	list := setOf(version).wheels
	if list == nil {
		return pinned{}, fmt.Errorf("qnn %s is not known: known are the packages %s", version, strings.Join(qnnVersions(), " and "))
	}
	return pinned{
		name: list[0].name, version: list[0].version, license: "LicenseRef-Qualcomm-AI-Stack", system: system, machine: machine,
		notice: qnnNotice + onnxruntimeNotice, wheels: list, bound: true, terms: qnnNotice[:strings.LastIndex(qnnNotice, "\n\nlibonnx")], needs: []string{"libQnnHtp.so", "libQnnSystem.so"},
		patterns: []string{"libQnnHtp.so", "libQnnSystem.so", "libc++*.so*", "libunwind*.so*", "libonnxruntime_providers_qnn.so", "libonnxruntime.so.1.*"},
	}, nil
}

// fetchWheels has pip fetch the packages of an engine and takes what is wanted.
func fetchWheels(ctx context.Context, p pinned, stage *fsx.Dir, files map[string]string) (bool, error) {
	if err := stage.MkdirAll("wheels", 0o700); err != nil {
		return false, err
	}
	dir := filepath.Join(stage.Path(), "wheels")
	if err := download(ctx, p.wheels, dir); err != nil {
		return false, err
	}
	same, err := take(ctx, dir, p, stage, files)
	if err == nil && !same {
		err = errors.New("the packages do not have the digests that they were released with")
	}
	return same, err
}

// foreignPart reports whether a folder of an SDK is of another system than
// Linux on x86-64.
func foreignPart(part string) bool {
	for _, s := range []string{"aarch64", "arm64", "hexagon", "windows", "msvc", "android"} {
		if strings.Contains(part, s) {
			return true
		}
	}
	return false
}

// proveCompiler has what compiles loaded as well, where all of it is there. The
// plugin alone, as its package has it, is what runs contexts and compiles none.
func proveCompiler(ctx context.Context, program, dir string, files map[string]string) error {
	whole := false
	for name := range files {
		whole = whole || strings.HasPrefix(name, "libonnxruntime.so.")
	}
	if !whole || files["libonnxruntime_providers_qnn.so"] == "" {
		return nil
	}
	if _, err := worker.Probe(ctx, options(program, QNNCompiler, dir, 0)); err != nil {
		return fmt.Errorf("trying the compiler of qnn: %w", err)
	}
	return nil
}
