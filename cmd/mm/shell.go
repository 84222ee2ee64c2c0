package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/fsx"
)

// helpCommand is mm help [COMMAND…].
func (p *program) helpCommand() *cli.Command {
	return &cli.Command{
		Name: "help", Usage: "show the help of a command", ArgsUsage: "[COMMAND…]",
		Action: func(c *cli.Context) error {
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
		},
	}
}

// versionCommand is mm version.
func (p *program) versionCommand() *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "print the version, and what it was built from",
		Flags: []cli.Flag{p.jsonFlag()},
		Action: func(*cli.Context) error {
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
		},
	}
}

// jsonVersion is the version of what --json prints (docs/JSON.md): it rises
// when a key goes away or changes its meaning.
const jsonVersion = 1

// builtFrom is what mm version prints.
type builtFrom struct {
	JSON     int    `json:"json"`
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// built reads the build information that the linker and the go command left. A
// program from go install knows its version by its module.
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

// revision tells this program from others that may compute otherwise: by its
// version where that is a release, and by its own bytes where it was built of
// anything else.
func (v builtFrom) revision(executable string) (string, error) {
	if !v.Modified && !strings.ContainsAny(v.Version, "-+") {
		return fmt.Sprintf("%+v", v), nil
	}
	_, digest, err := fsx.Digest(executable)
	if err != nil {
		return "", fmt.Errorf("telling this program from others: %w", err)
	}
	return digest, nil
}

// revision is that of this program, which is read when it is first asked for.
func revision() func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		executable, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("finding this program: %w", err)
		}
		if runtime.GOOS == "linux" {
			executable = "/proc/self/exe" // what runs, whatever lies at its path by now
		}
		return built().revision(executable)
	})
}

// completions are the shells' scripts; each asks mm itself what may follow.
var completions = map[string]string{
	"bash": `_mm() {
  local cur="${COMP_WORDS[COMP_CWORD]}" words=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
  [[ "$cur" == -* ]] && words+=("$cur")
  COMPREPLY=($(compgen -W "$(mm "${words[@]}" --generate-bash-completion 2>/dev/null | cut -d: -f1)" -- "$cur"))
}
complete -o bashdefault -o default -F _mm mm
`,
	"zsh": `#compdef mm
_mm() {
  local -a words_so_far options
  words_so_far=("${(@)words[2,CURRENT-1]}")
  [[ "${words[CURRENT]}" == -* ]] && words_so_far+=("${words[CURRENT]}")
  options=("${(@f)$(mm "${words_so_far[@]}" --generate-bash-completion 2>/dev/null | cut -d: -f1)}")
  [[ -n "${options[1]}" ]] && compadd -a options
  _files
}
compdef _mm mm
`,
	"fish": `function __mm_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  string match -q -- '-*' $current; and set -a words $current
  command mm $words[2..-1] --generate-bash-completion 2>/dev/null | string replace -r ':.*' ''
end
complete -c mm -a '(__mm_complete)'
`,
}

// completionCommand is mm completion SHELL.
func (p *program) completionCommand() *cli.Command {
	return &cli.Command{
		Name: "completion", Usage: "print a script that completes commands and flags in a shell", ArgsUsage: "bash|zsh|fish",
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 1, 1); err != nil {
				return err
			}
			script, ok := completions[c.Args().First()]
			if !ok {
				return usageError{fmt.Errorf("no completion for %q: known are bash, fish, zsh", c.Args().First())}
			}
			_, err := fmt.Fprint(p.stdout, script)
			return err
		},
	}
}
