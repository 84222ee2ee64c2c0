package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/cmd/console"
)

// Every command has an example, and every example a command and flags that
// exist; every command stands in a group of the help.
func TestExamples(t *testing.T) {
	p := &program{stdin: strings.NewReader(""), Printer: console.Printer{Stdout: io.Discard, Stderr: io.Discard}}
	app := p.app()
	grouped := map[string]bool{}
	for _, name := range console.Groups() {
		grouped[name] = true
	}
	examples := manual().All()
	seen := map[string]bool{}
	var walk func(commands []*cli.Command, path string)
	walk = func(commands []*cli.Command, path string) {
		for _, c := range commands {
			name := strings.TrimSpace(path + " " + c.Name)
			seen[name] = true
			if c.Hidden {
				continue
			}
			if path == "" && !grouped[c.Name] {
				t.Errorf("mm %s is in no group of the help", c.Name)
			}
			if len(examples[name]) == 0 && len(c.Subcommands) == 0 {
				t.Errorf("mm %s has no example", name)
			}
			walk(c.Subcommands, name)
		}
	}
	walk(app.Commands, "")
	for path, lines := range examples {
		if !seen[path] {
			t.Errorf("examples for mm %s, which does not exist", path)
		}
		for _, line := range lines {
			checkExample(t, app, line)
		}
	}
}

func checkExample(t *testing.T, app *cli.App, line string) {
	t.Helper()
	i := strings.Index(line, "mm ")
	words := strings.Fields(strings.NewReplacer(")", "", "|", " ").Replace(line[i:]))[1:]
	commands := app.Commands
	var flags []cli.Flag
	for len(words) > 0 {
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(words[0]) })
		if i < 0 {
			break
		}
		flags, commands, words = commands[i].Flags, commands[i].Subcommands, words[1:]
	}
	if flags == nil && len(commands) > 0 && len(words) > 0 {
		t.Errorf("%q: no such command", line)
	}
	for _, w := range words {
		if name, ok := strings.CutPrefix(w, "--"); ok && name != "" && !slices.ContainsFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) }) {
			t.Errorf("%q: no flag --%s", line, name)
		}
	}
}
