package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/worker"
)

// Options configures [Install].
type Options struct {
	Home string // mm's home folder
	Name string // LiteRT, LlamaCPP, ONNXRuntime, OpenVINO or QNN; QNN may have @VERSION, that of its package
	// From is a folder, an archive or a wheel with the libraries. If empty, the
	// user's npm or pip fetches the package pinned by this release of mm.
	From string
	Say  func(string) // reports progress; may be nil
	// AcceptLicense accepts the engine's license, if it has one that must be
	// accepted ([LicenseError]).
	AcceptLicense bool

	// Set for a verified artifact whose files are in From:
	Source   string   // its reference and digest
	Upstream string   // package of origin, as the artifact declares it
	Version  string   // version that the library must report
	SignedBy []string // keys that signed it
}

// versionName restricts the version of a library, which becomes a folder name.
var versionName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9][0-9A-Za-z.+-]{0,63}$`) })

// Install installs an engine below the home folder. It extracts the files, loads
// them once with mm-native, which reports the version and refuses unknown ones, and
// publishes them atomically. An installed engine of that version is replaced.
func Install(ctx context.Context, opt Options) (Record, error) {
	name, version, versioned := strings.Cut(opt.Name, "@")
	opt.Name = Canonical(name)
	p, err := packageOf(opt.Name, runtime.GOOS, runtime.GOARCH)
	if err == nil && versioned {
		if opt.Name != QNN {
			return Record{}, fmt.Errorf("%s: the version is pinned by this release of mm and cannot be chosen", opt.Name)
		}
		p, err = qnnPackage(runtime.GOOS, runtime.GOARCH, version)
	}
	if err != nil {
		return Record{}, err
	}
	if opt.Source != "" {
		if err := Portable(opt.Name); err != nil {
			return Record{}, err
		}
	}
	if p.bound && !opt.AcceptLicense {
		return Record{}, &LicenseError{Engine: opt.Name, Text: p.terms}
	}
	program, err := Program()
	if err != nil {
		return Record{}, err
	}
	if opt.Say == nil {
		opt.Say = func(string) {}
	}
	top, err := fsx.Create(filepath.Join(opt.Home, "engines", opt.Name), 0o700, fsx.Options{})
	if err != nil {
		return Record{}, err
	}
	defer top.Close()
	if err := top.MkdirAll(".new", 0o700); err != nil {
		return Record{}, err
	}
	news, err := fsx.Open(filepath.Join(top.Path(), ".new"), fsx.Options{})
	if err != nil {
		return Record{}, err
	}
	defer news.Close()
	stage, done, err := news.Scratch(ctx)
	if err != nil {
		return Record{}, err
	}
	r, err := fill(ctx, opt, p, stage)
	if err == nil {
		err = prove(ctx, opt, program, stage, &r)
	}
	if sdk := setOf(p.version).sdk; err == nil && versioned && !Begins(r.Version, sdk) {
		err = fmt.Errorf("%s@%s is the package of QAIRT %s, but the libraries in %s have version %s: omit @%s, or choose another source", opt.Name, p.version, sdk, r.Source, r.Version, p.version)
	}
	if err == nil {
		err = publish(ctx, top, stage, &r)
	}
	return r, errors.Join(err, done())
}

// fill extracts the files of the source into stage/engine.
func fill(ctx context.Context, opt Options, p pinned, stage *fsx.Dir) (Record, error) {
	r := Record{Name: opt.Name, License: p.license, Source: opt.From, Upstream: opt.Upstream, SignedBy: opt.SignedBy, Files: make(map[string]string)}
	from := opt.From
	if from == "" {
		r.Source = p.spec()
		if len(p.wheels) > 0 {
			return pulled(ctx, opt, p, stage, r)
		}
		opt.Say("fetching " + r.Source + " with npm")
		var err error
		if from, err = pack(ctx, p, stage.Path()); err != nil {
			return r, err
		}
	} else if abs, err := filepath.Abs(from); err == nil {
		r.Source = abs
	}
	if opt.Source != "" {
		r.Source = opt.Source
	}
	var err error
	r.Pinned, err = take(ctx, from, p, stage, r.Files)
	if err == nil && opt.From == "" && !r.Pinned {
		err = fmt.Errorf("%s: digest mismatch, want %s", r.Source, p.integrity)
	}
	if err != nil {
		return r, fmt.Errorf("installing %s from %s: %w", opt.Name, r.Source, err)
	}
	if r.Pinned {
		r.Upstream = p.integrity
	}
	return r, nil
}

// pulled extracts files from wheels that pip fetches.
func pulled(ctx context.Context, opt Options, p pinned, stage *fsx.Dir, r Record) (Record, error) {
	opt.Say("fetching " + r.Source + " with pip")
	var err error
	if r.Pinned, err = fetchWheels(ctx, p, stage, r.Files); err != nil {
		return r, fmt.Errorf("installing %s from %s: %w", opt.Name, r.Source, err)
	}
	return r, nil
}

// take copies the files of a folder or an archive, and the license, into
// stage/engine, and reports whether it is the pinned archive.
func take(ctx context.Context, from string, p pinned, stage *fsx.Dir, files map[string]string) (same bool, err error) {
	info, err := os.Stat(from)
	if err != nil {
		return false, err
	}
	if err := stage.MkdirAll("engine", 0o700); err != nil {
		return false, err
	}
	if list := wheelsIn(from); len(p.wheels) > 0 && len(list) > 0 {
		same, err = fromWheels(ctx, list, p, stage, files)
	} else if info.IsDir() {
		err = fromFolder(from, p, stage, files)
	} else {
		same, err = fromArchive(ctx, from, p, stage, files)
	}
	if err == nil {
		err = license(p, stage, files)
	}
	return same, err
}

// Files extracts an engine's files for another system from a folder or an archive
// into dir/engine, which it creates, and returns their digests. It does not load
// them: no machine loads another's libraries.
func Files(ctx context.Context, name, system, machine, from, dir string) (map[string]string, error) {
	p, err := packageOf(name, system, machine)
	if err != nil {
		return nil, err
	}
	stage, err := fsx.Create(dir, 0o700, fsx.Options{})
	if err != nil {
		return nil, err
	}
	defer stage.Close()
	files := make(map[string]string)
	if _, err := take(ctx, from, p, stage, files); err != nil {
		return nil, fmt.Errorf("extracting %s for %s/%s from %s: %w", name, system, machine, from, err)
	}
	return files, nil
}

// pack fetches the package of an engine with npm.
func pack(ctx context.Context, p pinned, dir string) (string, error) {
	if p.integrity == "" {
		return "", &runtimes.Unavailable{What: p.name, Why: "no known package for this machine", Hint: "use --from FOLDER"}
	}
	return Pack(ctx, p.spec(), dir)
}

// Pack fetches a package, NAME@VERSION, into dir with the user's npm, and returns the
// path of its archive. It runs nothing of the package and verifies nothing.
func Pack(ctx context.Context, spec, dir string) (string, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", &runtimes.Unavailable{What: "npm", Why: "not in PATH", Hint: "install npm, or fetch " + spec + " elsewhere and use --from FILE"}
	}
	cmd := exec.CommandContext(ctx, npm, "pack", "--silent", "--ignore-scripts", "--pack-destination", dir, spec)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &limited{to: &stderr, left: 4096}
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("npm pack %s: %w\n%s", spec, err, strings.TrimSpace(stderr.String()))
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(found) != 1 {
		return "", errors.Join(err, fmt.Errorf("npm pack %s: got %d archives, want 1", spec, len(found)))
	}
	return found[0], nil
}

// limited is a writer that discards what exceeds its limit.
type limited struct {
	to   io.Writer
	left int
}

func (l *limited) Write(b []byte) (int, error) {
	n := min(len(b), l.left)
	l.left -= n
	if _, err := l.to.Write(b[:n]); err != nil {
		return 0, err
	}
	return len(b), nil
}

// prove loads the engine and records its version.
func prove(ctx context.Context, opt Options, program string, stage *fsx.Dir, r *Record) error {
	info, err := worker.Probe(ctx, options(program, r.Name, filepath.Join(stage.Path(), "engine"), 0))
	if err != nil {
		return fmt.Errorf("loading %s: %w", r.Name, err)
	}
	if r.Name == QNN {
		if err := proveCompiler(ctx, program, filepath.Join(stage.Path(), "engine"), r.Files); err != nil {
			return err
		}
	}
	if !versionName().MatchString(info.Version) {
		return fmt.Errorf("loading %s: bad version %q", r.Name, info.Version)
	}
	if r.Version = info.Version; opt.Version != "" && opt.Version != r.Version {
		return fmt.Errorf("loading %s: got version %s, want %s", r.Name, r.Version, opt.Version)
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return stage.WriteFile("engine/"+recordName, append(data, '\n'), 0o600)
}

// publish moves the engine into place and replaces an existing one.
func publish(ctx context.Context, top, stage *fsx.Dir, r *Record) (err error) {
	lock, err := top.Lock(ctx, ".lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	r.Dir = filepath.Join(top.Path(), r.Version)
	from, err := filepath.Rel(top.Path(), filepath.Join(stage.Path(), "engine"))
	if err != nil {
		return err
	}
	from = filepath.ToSlash(from)
	old := filepath.ToSlash(filepath.Join(filepath.Dir(from), "old"))
	if _, err := os.Lstat(r.Dir); err == nil {
		if err := top.Rename(r.Version, old); err != nil {
			return err
		}
	}
	if err := top.Rename(from, r.Version); err != nil {
		return errors.Join(err, top.Rename(old, r.Version))
	}
	return top.SyncDir(".")
}
