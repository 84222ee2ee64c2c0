package native

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/internal/fsx"
)

// pinned is the npm package of an engine, or its wheels.
type pinned struct {
	name      string
	version   string
	integrity string   // npm's digest of the archive; "": none for this machine
	license   string   // SPDX
	patterns  []string // base names of the files to extract

	system, machine string // target of the files, as GOOS and GOARCH
	notice          string // text of the license and its notices

	wheels []wheel  // to fetch with pip instead of npm
	bound  bool     // the license must be accepted
	terms  string   // summary of the license
	needs  []string // required libraries; if empty, one library suffices
}

func (p pinned) spec() string {
	if len(p.wheels) > 0 {
		return specs(p.wheels)
	}
	return p.name + "@" + p.version
}

// packageOf returns the package of an engine.
func packageOf(name, system, machine string) (pinned, error) {
	switch name {
	case ONNXRuntime:
		p := pinned{
			name: "onnxruntime-node", version: "1.30.0", license: "MIT", system: system, machine: machine, notice: onnxruntimeNotice,
			patterns: []string{"libonnxruntime.so.1*", "libonnxruntime.1.dylib", "onnxruntime.dll"},
		}
		switch system + "/" + machine {
		case "linux/amd64", "linux/arm64", "darwin/arm64", "windows/amd64", "windows/arm64":
			p.integrity = "sha512-twhs1C2C/BFkz1yc5OY0KIU2GUq6DURO7hD4bx5Q2Qy3nAMJwRXW8xU3NVczE29VA9lolLOYepoD8fjTGOfIqw=="
		}
		return p, nil
	case LlamaCPP:
		p := pinned{
			name: "@node-llama-cpp/linux-x64", version: "3.22.1", license: "MIT", system: system, machine: machine, notice: llamacppNotice,
			patterns: []string{"libggml*.so*", "libllama.*", "libggml*.dylib", "ggml*.dll", "llama.dll"},
		}
		if system == "linux" && machine == "amd64" {
			p.integrity = "sha512-5uCCDNqWCNfaAm8aR/Uzxbo4HBpKgNF91kCHPepKhgMgV2OAmatoefbOlMihsqCiH2Od35E/eUHQCFbfRBJuOg=="
		}
		return p, nil
	case OpenVINO:
		return openvinoPackage(system, machine)
	case LiteRT:
		return litertPackage(system, machine)
	case QNN:
		return qnnPackage(system, machine, "")
	}
	return pinned{}, fmt.Errorf("unknown engine %q: want %s, %s, %s, %s or %s", name, LiteRT, LlamaCPP, ONNXRuntime, OpenVINO, QNN)
}

// Limits of extracted files.
const (
	maxFile    = 1 << 30 // bytes of a file
	maxTotal   = 2 << 30
	maxEntries = 100_000 // of an archive or a folder
	maxLegal   = 4 << 20 // bytes of a license
)

// wants reports whether to extract a file, and whether it is a legal text.
func (p pinned) wants(name string) (take, legal bool) {
	base := path.Base(name)
	for _, pattern := range p.patterns {
		if ok, _ := path.Match(pattern, base); ok {
			return p.fits(name), false
		}
	}
	upper := strings.ToUpper(base)
	for _, begin := range []string{"LICENSE", "LICENCE", "NOTICE", "THIRDPARTYNOTICES", "COPYING", "README", "PACKAGE.JSON", "QUALCOMM_LICENSE"} {
		if strings.HasPrefix(upper, begin) {
			return strings.Count(strings.Trim(name, "/"), "/") <= 1, true
		}
	}
	return false, false
}

// fits reports whether the systems and machines in a path match the target.
func (p pinned) fits(name string) bool {
	systems := map[string]string{"linux": "linux", "darwin": "darwin", "win32": "windows"}
	machines := map[string]string{"x64": "amd64", "arm64": "arm64"}
	parts := strings.Split(path.Dir(name), "/")
	for _, part := range parts {
		if s, ok := systems[part]; ok && s != p.system {
			return false
		}
		if m, ok := machines[part]; ok && m != p.machine {
			return false
		}
		if p.bound && foreignPart(part) {
			return false
		}
	}
	return true
}

// taking extracts files into a stage.
type taking struct {
	p     pinned
	stage *fsx.Dir
	files map[string]string
	total int64
	seen  int
}

// entry extracts a file if it is wanted.
func (t *taking) entry(name string, size int64, r io.Reader) error {
	if t.seen++; t.seen > maxEntries {
		return fmt.Errorf("more than %d entries", maxEntries)
	}
	take, legal := t.p.wants(name)
	base := path.Base(name)
	if !take || base == recordName {
		return nil
	}
	if legal && size > maxLegal {
		return nil
	}
	if t.total += size; size < 0 || size > maxFile || t.total > maxTotal {
		return fmt.Errorf("%s has %d bytes, limit %d for a file and %d in total", name, size, int64(maxFile), int64(maxTotal))
	}
	if _, twice := t.files[base]; twice {
		if legal {
			return nil
		}
		return fmt.Errorf("duplicate file %s: choose a folder with one", base)
	}
	f, err := t.stage.Create("engine/"+base, 0o600)
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(r, size))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("extracting %s: %w", name, err)
	}
	t.files[base] = "sha256:" + hex.EncodeToString(sum.Sum(nil))
	return nil
}

// fromFolder extracts the files of a folder; it follows links to files.
func fromFolder(dir string, p pinned, stage *fsx.Dir, files map[string]string) error {
	t := taking{p: p, stage: stage, files: files}
	err := filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		if take, _ := p.wants(filepath.ToSlash(rel)); !take {
			t.seen++
			return nil
		}
		if e.Type()&fs.ModeSymlink != 0 && alias(at, p) {
			return nil // extracted under its own name
		}
		f, err := os.Open(at)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		return t.entry(filepath.ToSlash(rel), info.Size(), f)
	})
	return errors.Join(err, needed(p, files))
}

// alias reports whether a link leads to a file of its own folder that is extracted
// as well.
func alias(at string, p pinned) bool {
	to, err := filepath.EvalSymlinks(at)
	if err != nil {
		return false
	}
	own, err := filepath.EvalSymlinks(filepath.Dir(at))
	take, _ := p.wants(filepath.Base(to))
	return err == nil && take && filepath.Dir(to) == own
}

// fromArchive extracts a .tgz and reports whether it is the pinned one.
func fromArchive(ctx context.Context, file string, p pinned, stage *fsx.Dir, files map[string]string) (bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if p.integrity == "" && len(p.wheels) > 0 {
		return false, errors.New("want a folder or a .whl file")
	}
	same, err := isPinned(f, p.integrity)
	if err != nil {
		return false, err
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return same, fmt.Errorf("not a .tgz file: %w", err)
	}
	t := taking{p: p, stage: stage, files: files}
	for archive := tar.NewReader(io.LimitReader(z, 2*maxTotal)); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return same, needed(p, files)
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return same, err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if err := t.entry(strings.TrimPrefix(path.Clean("/"+h.Name), "/"), h.Size, archive); err != nil {
			return same, err
		}
	}
}

// needed checks that the required libraries are present.
func needed(p pinned, files map[string]string) error {
	for _, name := range p.needs {
		if files[name] == "" {
			return fmt.Errorf("missing %s for %s/%s", name, p.system, p.machine)
		}
	}
	for name := range files {
		if strings.Contains(name, ".so") || strings.HasSuffix(name, ".dylib") || strings.HasSuffix(name, ".dll") {
			return nil
		}
	}
	return fmt.Errorf("no library for %s/%s", p.system, p.machine)
}

// isPinned compares a file with npm's digest and rewinds it.
func isPinned(f io.ReadSeeker, integrity string) (bool, error) {
	var sum hash.Hash = sha512.New()
	if _, err := io.Copy(sum, f); err != nil {
		return false, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	return integrity == "sha512-"+base64.StdEncoding.EncodeToString(sum.Sum(nil)), nil
}
