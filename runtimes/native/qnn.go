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

// LicenseError reports that an engine's license must be accepted first.
type LicenseError struct {
	Engine string
	Text   string // a summary and the location of the license
}

// Error names the engine.
func (l *LicenseError) Error() string {
	return l.Engine + " has a license that must be accepted"
}

// Hint is the flag that accepts the license.
func (*LicenseError) Hint() string { return "read the license, then pass --accept-license" }

// ErrBound reports that an engine's license forbids redistribution.
var ErrBound = errors.New("the license forbids redistribution")

// Portable returns ErrBound if an engine must not be redistributed.
func Portable(name string) error {
	if Canonical(name) == QNN {
		return fmt.Errorf("qnn: %w: install it from its maker", ErrBound)
	}
	return nil
}

// qnnPackage returns the packages of QNN's libraries. They emulate the HTP on Linux
// on x86-64; other systems are untested.
func qnnPackage(system, machine, version string) (pinned, error) {
	if system+"/"+machine != "linux/amd64" {
		return pinned{}, fmt.Errorf("qnn requires linux/amd64, got %s/%s", system, machine)
	}
	if version == "" {
		version = qnnVersions()[0]
	}
	list := setOf(version).wheels
	if list == nil {
		return pinned{}, fmt.Errorf("unknown version %s of qnn: the known packages are %s", version, strings.Join(qnnVersions(), " and "))
	}
	return pinned{
		name: list[0].name, version: list[0].version, license: "LicenseRef-Qualcomm-AI-Stack", system: system, machine: machine,
		notice: qnnNotice + onnxruntimeNotice, wheels: list, bound: true, terms: qnnNotice[:strings.LastIndex(qnnNotice, "\n\nlibonnx")], needs: []string{"libQnnHtp.so", "libQnnSystem.so"},
		patterns: []string{"libQnnHtp.so", "libQnnSystem.so", "libc++*.so*", "libunwind*.so*", "libonnxruntime_providers_qnn.so", "libonnxruntime.so.1.*"},
	}, nil
}

// fetchWheels fetches the packages of an engine with pip and extracts their files.
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
		err = errors.New("digest mismatch of the packages")
	}
	return same, err
}

// foreignPart reports whether a folder of an SDK is for a system other than Linux on
// x86-64.
func foreignPart(part string) bool {
	for _, s := range []string{"aarch64", "arm64", "hexagon", "windows", "msvc", "android"} {
		if strings.Contains(part, s) {
			return true
		}
	}
	return false
}

// proveCompiler also loads the compiler, if all of it is present. The plugin alone,
// as its package has it, runs contexts but does not compile.
func proveCompiler(ctx context.Context, program, dir string, files map[string]string) error {
	complete := false
	for name := range files {
		complete = complete || strings.HasPrefix(name, "libonnxruntime.so.")
	}
	if !complete || files["libonnxruntime_providers_qnn.so"] == "" {
		return nil
	}
	if _, err := worker.Probe(ctx, options(program, QNNCompiler, dir, 0)); err != nil {
		return fmt.Errorf("loading the compiler of qnn: %w", err)
	}
	return nil
}
