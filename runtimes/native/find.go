// Package engines finds native engines and installs them: the program
// mm-native, which comes with mm, and the libraries that it loads, which do
// not.
//
// An engine lies in HOME/engines/NAME/VERSION, its libraries and licences with
// a record of where they came from ([Record]). [Install] puts it there, out of
// an npm package at a pinned version and digest, which the user's own npm
// fetches, or out of a folder or archive; nothing is fetched unasked.
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

// The engines that are known.
const (
	LlamaCPP    = "llamacpp"
	ONNXRuntime = "onnxruntime"
	QNN         = "qnn"
	// QNNCompiler is what compiles for QNN, of the same libraries.
	QNNCompiler = "qnn-compiler"
)

// Canonical is the name of an engine that its own project calls otherwise:
// llamacpp for llama.cpp.
func Canonical(name string) string {
	if name == "llama.cpp" {
		return LlamaCPP
	}
	return name
}

// programName is the executable that loads engines.
func programName() string {
	if runtime.GOOS == "windows" {
		return "mm-native.exe"
	}
	return "mm-native"
}

// Program is the path of mm-native: what MM_NATIVE says, the one beside mm's
// own executable, or the first in PATH.
func Program() (string, error) {
	if path := os.Getenv("MM_NATIVE"); path != "" {
		info, err := os.Stat(path)
		if err == nil && !info.Mode().IsRegular() {
			err = errors.New("it is no file")
		}
		if err != nil {
			return "", &runtimes.Unavailable{What: "mm-native", Why: fmt.Sprintf("MM_NATIVE says %s: %v", path, err), Hint: "set MM_NATIVE to the program mm-native, or unset it"}
		}
		return filepath.Abs(path)
	}
	if own, err := os.Executable(); err == nil {
		if own, err = filepath.EvalSymlinks(own); err == nil {
			path := filepath.Join(filepath.Dir(own), programName())
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				return path, nil
			}
		}
	}
	path, err := exec.LookPath(programName())
	if err != nil {
		return "", &runtimes.Unavailable{
			What: "mm-native", Why: "the program is neither beside mm nor in PATH",
			Hint: "put mm-native of the same release beside mm, or build it: go build mm-abi.org/mm/cmd/mm-native (MM_NATIVE names it)",
		}
	}
	return filepath.Abs(path)
}

// Record is what is known of an installed engine; engine.json beside it.
type Record struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	License string `json:"license"`
	Source  string `json:"source"`           // the package, or the folder or archive that it was taken from
	Pinned  bool   `json:"pinned,omitempty"` // the bytes are those that this mm was released with
	// Upstream is the digest of the package that the files came in, where one
	// is pinned, or where the artifact that they came in says so.
	Upstream string            `json:"upstream,omitempty"`
	SignedBy []string          `json:"signed_by,omitempty"` // keys that released the artifact that the files came in
	Files    map[string]string `json:"files"`               // name → sha256:…
	Dir      string            `json:"dir,omitempty"`       // where it lies; not in the record itself
}

const (
	recordName = "engine.json"
	maxRecord  = 1 << 20 // bytes
)

// List gives what is installed below home: by name, and the newest version
// first. A folder without a sound record is none.
func List(home string) ([]Record, error) {
	var all []Record
	for _, name := range []string{LlamaCPP, ONNXRuntime, QNN} {
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

// newer orders versions, the newest first.
func newer(a, b string) int {
	x, errX := semver.NewVersion(a)
	y, errY := semver.NewVersion(b)
	if errX != nil || errY != nil {
		return strings.Compare(b, a)
	}
	return y.Compare(x)
}

// Begins reports whether a version is prefix, or one of it: 2.47.0+260601114230
// is one of 2.47.
func Begins(version, prefix string) bool {
	rest, ok := strings.CutPrefix(version, prefix)
	return ok && (rest == "" || strings.ContainsAny(rest[:1], ".+-"))
}

// Find is the newest installed version of an engine below home that begins with
// a version ([Begins]); "": the newest.
func Find(home, name, version string) (Record, error) {
	all, err := List(home)
	if err != nil {
		return Record{}, err
	}
	var there []string
	for _, r := range all {
		if r.Name != name {
			continue
		}
		if version == "" || Begins(r.Version, version) {
			return r, nil
		}
		there = append(there, r.Version)
	}
	if len(there) > 0 {
		return Record{}, &runtimes.Unavailable{What: "backend " + name + "@" + version, Why: "installed are the versions " + strings.Join(there, ", "), Hint: "name one by what it begins with; mm runtime ls lists them"}
	}
	return Record{}, &runtimes.Unavailable{What: "backend " + name, Why: "its library is not installed", Hint: "mm runtime install " + name}
}

// Libraries are an engine's, as they are installed.
type Libraries struct {
	Name    string
	Home    func() (string, error) // gives mm's home folder
	Version string                 // what it begins with; "": the newest
}

// Worker says how to start an engine: the program, its libraries, and the bytes
// of memory that it may take; 0 is no limit.
func (l Libraries) Worker(memory int64) (worker.Options, error) {
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
	return options(program, l.Name, r.Dir, memory), nil
}

// At says how to start an engine with the libraries of a folder that is not
// installed.
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

// How long a call may take where nobody says: generous, for it is there to end
// what hangs.
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
		// ONNX's newest opset is there before a release of the library says that
		// it knows it; operators that it lacks are refused by name all the same.
		opt.Env = []string{"ALLOW_RELEASED_ONNX_OPSET_ONLY=0"}
		// From 1.29 on the library sends what it runs, and on what, to its
		// makers; the two names are those of its versions.
		opt.Env = append(opt.Env, "ORT_DISABLE_TELEMETRY=1", "ORT_TELEMETRY_DISABLED=1")
	}
	return opt
}

// Probe starts an engine and gives what it says of itself.
func (l Libraries) Probe(ctx context.Context) (runtimes.Info, error) {
	opt, err := l.Worker(0)
	if err != nil {
		return runtimes.Info{}, err
	}
	return worker.Probe(ctx, opt)
}
