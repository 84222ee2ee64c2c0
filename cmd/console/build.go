package console

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"mm-abi.org/mm/internal/fsx"
)

// Build describes how a program was built.
type Build struct {
	JSON     int    `json:"json"`
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// Unreleased is the version of a program built outside a release.
const Unreleased = "0.1.0-dev"

// ReadBuild returns the build information of the linker, which sets version, and of the go
// command. A program built by go install has its module's version. JSON is the version of
// its output.
func ReadBuild(version string, json int) Build {
	v := Build{JSON: json, Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if m := info.Main.Version; strings.HasPrefix(m, "v") && version == Unreleased {
		v.Version = strings.TrimPrefix(m, "v")
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

// String returns the build in a line.
func (v Build) String() string {
	line := fmt.Sprintf("mm %s %s/%s %s", v.Version, v.OS, v.Arch, v.Go)
	if v.Revision != "" {
		line += " " + v.Revision[:min(12, len(v.Revision))]
	}
	return line
}

// Identify identifies the running program: see identify.
func (v Build) Identify() (string, error) {
	executable, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("locating this program: %w", err)
	}
	if runtime.GOOS == "linux" {
		executable = "/proc/self/exe" // the running program, even if its file was replaced
	}
	return v.identify(executable)
}

// fields is a Build without methods.
type fields Build

// identify identifies this build, since another one may compute different results:
// by its version if it is a release, otherwise by the build ID of the executable or, without
// one, its digest.
func (v Build) identify(executable string) (string, error) {
	if !v.Modified && !strings.ContainsAny(v.Version, "-+") {
		return fmt.Sprintf("%+v", fields(v)), nil
	}
	if id := buildID(executable); id != "" {
		return "build " + id, nil
	}
	_, digest, err := fsx.Digest(executable)
	if err != nil {
		return "", fmt.Errorf("identifying this program: %w", err)
	}
	return digest, nil
}

// buildHead is the part of an executable in which the go command looks for its build ID.
const buildHead = 32 << 10

// buildID returns the build ID of an executable, or "": that of a note in an ELF file, or the
// one marked at the start of the code of others. Its last part is a hash of the contents.
func buildID(executable string) string {
	f, err := os.Open(executable)
	if err != nil {
		return ""
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, buildHead))
	if err != nil {
		return ""
	}
	id, note := "", []byte("\x04\x00\x00\x00Go\x00\x00") // type and owner
	if i := bytes.Index(head, note); i >= 8 {
		n, text := binary.LittleEndian.Uint32(head[i-4:]), head[i+len(note):]
		id = string(text[:min(int64(n), int64(len(text)))])
	} else if _, text, ok := bytes.Cut(head, []byte("\xff Go build ID: \"")); ok {
		text, _, ok := bytes.Cut(text, []byte("\"\n \xff"))
		if ok {
			id = string(text)
		}
	}
	if !strings.Contains(id, "/") {
		return "" // replaced by a flag of the linker
	}
	return id
}
