package main

import (
	"bytes"
	"embed"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/internal/notices"
	"mm-abi.org/mm/schemas"
)

func (p *program) help(c *cli.Context) error {
	commands, path := c.App.Commands, c.App.Name
	var at *cli.Command
	for _, word := range c.Args().Slice() {
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(word) })
		if i < 0 {
			return unknown(word, path, commands)
		}
		at = commands[i]
		commands, path = at.Subcommands, path+" "+at.Name
	}
	text := appHelp(c.App)
	if at != nil {
		text = commandHelp(at, path)
	}
	_, err := fmt.Fprint(p.stdout, text)
	return err
}

func (p *program) version(c *cli.Context) error {
	if c.Bool("licenses") {
		text, err := notices.Text()
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(p.stdout, text)
		return err
	}
	v := built()
	if p.json {
		return p.printJSON(v)
	}
	line := fmt.Sprintf("mm %s %s/%s %s", v.Version, v.OS, v.Arch, v.Go)
	if v.Revision != "" {
		line += " " + v.Revision[:min(12, len(v.Revision))]
	}
	_, err := fmt.Fprintln(p.stdout, line)
	return err
}

// jsonVersion is the version of the JSON output (docs/JSON.md). It changes when a
// key is removed or changes its meaning.
const jsonVersion = 1

// builtFrom is the output of mm version.
type builtFrom struct {
	JSON     int    `json:"json"`
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// built reads the build information of the linker and the go command. A program
// built by go install has its module's version.
func built() builtFrom {
	v := builtFrom{JSON: jsonVersion, Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if m := info.Main.Version; strings.HasPrefix(m, "v") && version == unreleased {
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

// revision identifies this build, since another one may compute different results:
// by its version if it is a release, otherwise by the build ID of the executable or, without
// one, its digest.
func (v builtFrom) revision(executable string) (string, error) {
	if !v.Modified && !strings.ContainsAny(v.Version, "-+") {
		return fmt.Sprintf("%+v", v), nil
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

// revision returns a function that identifies this program and caches the result.
func revision() func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		executable, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("locating this program: %w", err)
		}
		if runtime.GOOS == "linux" {
			executable = "/proc/self/exe" // the running program, even if its file was replaced
		}
		return built().revision(executable)
	})
}

// completions holds the script of each shell, mm.SHELL; it asks mm for candidates.
//
//go:embed completion
var completions embed.FS

func (p *program) completion(c *cli.Context) error {
	script, err := completions.ReadFile("completion/mm." + c.Args().First())
	if err != nil {
		return usageError{fmt.Errorf("unsupported shell %q, want bash, zsh, fish or powershell", c.Args().First())}
	}
	_, err = p.stdout.Write(script)
	return err
}

func (p *program) schema(c *cli.Context) error {
	if c.NArg() == 0 {
		_, err := fmt.Fprintln(p.stdout, strings.ReplaceAll(joined(schemas.Kinds()), ", ", "\n"))
		return err
	}
	data, err := schemas.Bundle(schemas.Kind(c.Args().First()))
	if err != nil {
		hint := "mm schema lists the names"
		if near, ok := diag.Nearest(c.Args().First(), strings.Split(joined(schemas.Kinds()), ", ")); ok {
			hint = "did you mean " + near + "?"
		}
		return usageError{hinted{err, hint}}
	}
	_, err = fmt.Fprintf(p.stdout, "%s", data)
	return err
}
