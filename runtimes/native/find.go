// Package native finds and installs native engines: the program mm-native, which
// comes with mm, and the libraries that it loads, which do not.
//
// An engine is a folder HOME/engines/NAME/VERSION with its libraries, licenses and a
// [Record] of their origin. [Install] creates it from a package at a pinned version and
// digest, which the user's npm or pip fetches, or from a folder or archive.
// Nothing is fetched without a request.
package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/worker"
)

// The known engines.
const (
	LlamaCPP    = "llamacpp"
	ONNXRuntime = "onnxruntime"
	QNN         = "qnn"
	OpenVINO    = "openvino"
	LiteRT      = "litert"
	// QNNCompiler compiles for QNN with the same libraries.
	QNNCompiler = "qnn-compiler"
)

// Canonical returns mm's name of an engine whose project uses another one: llamacpp
// for llama.cpp.
func Canonical(name string) string {
	if name == "llama.cpp" {
		return LlamaCPP
	}
	return name
}

// Program returns the path of mm-native: MM_NATIVE, the one in the folder of mm's
// executable, or the first in PATH.
func Program() (string, error) { return Companion("mm-native", "MM_NATIVE") }

// Companion returns the path of a program of mm's release: the value of the variable, the
// one in the folder of mm's executable, or the first in PATH.
func Companion(name, variable string) (string, error) {
	if path := os.Getenv(variable); path != "" {
		info, err := os.Stat(path)
		if err == nil && !info.Mode().IsRegular() {
			err = errors.New("not a regular file")
		}
		if err != nil {
			return "", &runtimes.Unavailable{What: name, Why: fmt.Sprintf("%s=%s: %v", variable, path, err), Hint: fmt.Sprintf("set %s to the program %s, or unset it", variable, name)}
		}
		return filepath.Abs(path)
	}
	file := name
	if runtime.GOOS == "windows" {
		file += ".exe"
	}
	if self, err := os.Executable(); err == nil {
		if self, err = filepath.EvalSymlinks(self); err == nil {
			path := filepath.Join(filepath.Dir(self), file)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				return path, nil
			}
		}
	}
	path, err := exec.LookPath(file)
	if err != nil {
		return "", &runtimes.Unavailable{
			What: name, Why: "not found in the folder of mm or in PATH",
			Hint: fmt.Sprintf("put %s of the same release in the folder of mm, or build it: go build mm-abi.org/mm/cmd/%s, and set %s to its path", name, name, variable),
		}
	}
	return filepath.Abs(path)
}

// Record describes an installed engine; it is stored in its folder as engine.json.
type Record struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	License string `json:"license"`
	Source  string `json:"source"`           // the package, folder or archive of origin
	Pinned  bool   `json:"pinned,omitempty"` // the bytes match those pinned by this release of mm
	// Upstream is the digest of the package of origin, if it is pinned or the
	// artifact of origin declares it.
	Upstream string            `json:"upstream,omitempty"`
	SignedBy []string          `json:"signed_by,omitempty"` // keys that signed the artifact of origin
	Files    map[string]string `json:"files"`               // name → sha256:…
	Dir      string            `json:"dir,omitempty"`       // its folder; not stored
}

const (
	recordName = "engine.json"
	maxRecord  = 1 << 20 // bytes
)

// List returns the engines installed below home, by name, newest version first. It
// skips folders without a valid record.
func List(home string) ([]Record, error) {
	var all []Record
	for _, name := range []string{LiteRT, LlamaCPP, ONNXRuntime, OpenVINO, QNN} {
		top := filepath.Join(home, "engines", name)
		entries, err := os.ReadDir(top)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("listing engines: %w", err)
		}
		var found []Record
		for _, e := range entries {
			r, err := read(filepath.Join(top, e.Name()))
			if err == nil && r.Name == name && r.Version == e.Name() && !strings.HasPrefix(e.Name(), ".") {
				found = append(found, r)
			}
		}
		slices.SortFunc(found, func(a, b Record) int { return newer(a.Version, b.Version) })
		all = append(all, found...)
	}
	return all, nil
}

func read(dir string) (Record, error) {
	var r Record
	data, err := fsx.ReadFile(filepath.Join(dir, recordName), maxRecord)
	if err != nil {
		return r, err
	}
	err = json.Unmarshal(data, &r)
	if r.Files == nil {
		r.Files = map[string]string{}
	}
	r.Dir = dir
	return r, err
}

// newer orders versions from newest to oldest.
func newer(a, b string) int {
	x, errX := semver.NewVersion(a)
	y, errY := semver.NewVersion(b)
	if errX != nil || errY != nil {
		return strings.Compare(b, a)
	}
	return y.Compare(x)
}

// Begins reports whether a version equals prefix or extends it: 2.47.0+260601114230
// extends 2.47.
func Begins(version, prefix string) bool {
	rest, ok := strings.CutPrefix(version, prefix)
	return ok && (rest == "" || strings.ContainsAny(rest[:1], ".+-"))
}

// Find returns the newest installed version of an engine below home that begins with
// version ([Begins]); if version is empty, the newest.
func Find(home, name, version string) (Record, error) {
	all, err := List(home)
	if err != nil {
		return Record{}, err
	}
	var versions []string
	for _, r := range all {
		if r.Name != name {
			continue
		}
		if version == "" || Begins(r.Version, version) {
			return r, nil
		}
		versions = append(versions, r.Version)
	}
	if len(versions) > 0 {
		return Record{}, &runtimes.Unavailable{What: "backend " + name + "@" + version, Why: "the installed versions are " + strings.Join(versions, ", "), Hint: "choose one by a prefix; mm runtime ls lists them"}
	}
	return Record{}, &runtimes.Unavailable{What: "backend " + name, Why: "the library is not installed", Hint: "mm runtime install " + name}
}

// Libraries selects the installed libraries of an engine.
type Libraries struct {
	Name    string
	Home    func() (string, error) // returns mm's home folder
	Version string                 // prefix of the version; "": the newest
}

// Worker checks the engine's files ([Record.Check]) and returns the options to start it with a limit of memory in bytes; 0 is
// no limit.
func (l Libraries) Worker(ctx context.Context, memory int64) (worker.Options, error) {
	program, err := Program()
	if err != nil {
		return worker.Options{}, err
	}
	at, err := l.Home()
	if err != nil {
		return worker.Options{}, err
	}
	installed := l.Name
	if l.Name == QNNCompiler {
		installed = QNN
	}
	r, err := Find(at, installed, l.Version)
	if err != nil {
		return worker.Options{}, err
	}
	if err := r.Check(ctx); err != nil {
		return worker.Options{}, err
	}
	return options(program, l.Name, r.Dir, memory), nil
}

// At returns the options to start an engine with the libraries of a folder that is
// not installed.
func At(name, dir string, memory int64) (worker.Options, error) {
	program, err := Program()
	if err != nil {
		return worker.Options{}, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return worker.Options{}, err
	}
	return options(program, name, dir, memory), nil
}

// The default times of a call. They are generous because they exist to end calls that
// hang.
const (
	callTime = 10 * time.Minute
	longTime = time.Hour // a compilation; loading a language model and reading a prompt
)

func options(program, name, dir string, memory int64) worker.Options {
	opt := worker.Options{Program: program, Name: name, Args: []string{"-memory", strconv.FormatInt(memory, 10), name, dir}, Call: callTime}
	if name == LlamaCPP || name == QNNCompiler {
		opt.Call = longTime
	}
	if name == ONNXRuntime || name == QNNCompiler {
		// The library declares support for ONNX's newest opset only after its
		// release; it refuses operators that it lacks by name in any case.
		opt.Env = []string{"ALLOW_RELEASED_ONNX_OPSET_ONLY=0"}
		// From 1.29 on the library sends usage data to its makers; the two names
		// are those of its versions.
		opt.Env = append(opt.Env, "ORT_DISABLE_TELEMETRY=1", "ORT_TELEMETRY_DISABLED=1")
	}
	return opt
}

// Probe starts an engine and returns its description.
func (l Libraries) Probe(ctx context.Context) (runtimes.Info, error) {
	opt, err := l.Worker(ctx, 0)
	if err != nil {
		return runtimes.Info{}, err
	}
	return worker.Probe(ctx, opt)
}
