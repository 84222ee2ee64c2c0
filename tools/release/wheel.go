package main

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// wheelTags maps a platform to the tag of its Python wheel. The programs are static,
// so that the wheels for Linux run on every libc.
var wheelTags = map[string]string{
	"darwin/amd64":  "macosx_12_0_x86_64",
	"darwin/arm64":  "macosx_12_0_arm64",
	"linux/amd64":   "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
	"linux/arm64":   "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
	"windows/amd64": "win_amd64",
	"windows/arm64": "win_arm64",
}

// pythonClient is the folder of the Python package that the wheels hold.
const pythonClient = "clients/python/src/multimod"

// wheelFile is one entry of a wheel.
type wheelFile struct {
	name string
	data []byte
	mode os.FileMode
}

// wheel writes the Python client together with the programs, which installers put
// next to the interpreter. The first files are the programs.
func (r *release) wheel(platform string, files []string) (string, error) {
	tag, ok := wheelTags[platform]
	if !ok {
		return "", fmt.Errorf("no wheel tag for %s", platform)
	}
	entries, err := r.wheelFiles(tag, files)
	if err != nil {
		return "", err
	}
	path := filepath.Join(r.out, fmt.Sprintf("multimod-%s-py3-none-%s.whl", r.version, tag))
	return path, create(path, func(w io.Writer) error { return r.wheelArchive(w, entries) })
}

// wheelFiles returns the entries of a wheel without its RECORD.
func (r *release) wheelFiles(tag string, files []string) ([]wheelFile, error) {
	sources, err := filepath.Glob(pythonClient + "/*.py")
	if err != nil {
		return nil, err
	}
	sources = append(sources, pythonClient+"/py.typed")
	slices.Sort(sources)
	var entries []wheelFile
	add := func(name, path string, mode os.FileMode) error {
		data, err := os.ReadFile(path)
		entries = append(entries, wheelFile{name, data, mode})
		return err
	}
	for _, path := range sources {
		if err := add("multimod/"+filepath.Base(path), path, 0o644); err != nil {
			return nil, err
		}
	}
	stem := "multimod-" + r.version
	for _, path := range files[:len(programs)] {
		if err := add(stem+".data/scripts/"+filepath.Base(path), path, 0o755); err != nil {
			return nil, err
		}
	}
	for _, path := range []string{"LICENSE", r.notices} {
		if err := add(stem+".dist-info/licenses/"+filepath.Base(path), path, 0o644); err != nil {
			return nil, err
		}
	}
	return append(entries,
		wheelFile{stem + ".dist-info/METADATA", []byte(r.wheelMetadata()), 0o644},
		wheelFile{stem + ".dist-info/WHEEL", []byte(wheelTagFile(tag)), 0o644}), nil
}

// wheelMetadata returns the METADATA of a wheel.
func (r *release) wheelMetadata() string {
	return "Metadata-Version: 2.4\nName: multimod\nVersion: " + r.version +
		"\nSummary: Python client of mm, with the program\nLicense-Expression: Apache-2.0\n" +
		"License-File: LICENSE\nLicense-File: THIRD_PARTY_NOTICES.txt\nRequires-Python: >=3.9\n" +
		"Classifier: Programming Language :: Python :: 3\nClassifier: Typing :: Typed\n"
}

// wheelTagFile returns the WHEEL file for a tag, which may join several platforms.
func wheelTagFile(tag string) string {
	var b strings.Builder
	b.WriteString("Wheel-Version: 1.0\nGenerator: mm-release\nRoot-Is-Purelib: false\n")
	for one := range strings.SplitSeq(tag, ".") {
		fmt.Fprintf(&b, "Tag: py3-none-%s\n", one)
	}
	return b.String()
}

// wheelArchive writes entries and the RECORD of their hashes.
func (r *release) wheelArchive(w io.Writer, entries []wheelFile) error {
	var record strings.Builder
	for _, e := range entries {
		sum := sha256.Sum256(e.data)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", e.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(e.data))
	}
	name := "multimod-" + r.version + ".dist-info/RECORD"
	fmt.Fprintf(&record, "%s,,\n", name)
	z := zip.NewWriter(w)
	for _, e := range append(entries, wheelFile{name, []byte(record.String()), 0o644}) {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: r.date}
		h.SetMode(e.mode)
		f, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := f.Write(e.data); err != nil {
			return err
		}
	}
	return z.Close()
}
