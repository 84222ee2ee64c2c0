package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/spell"
)

// groups orders the commands in the help by what people set out to do.
var groups = []struct {
	title    string
	commands []string
}{
	{"Build", []string{"validate", "lock", "assemble", "module", "skill", "quantize", "onnx", "qnn"}},
	{"Run", []string{"run", "chat", "mcp", "demo", "doctor", "runtime", "device"}},
	{"Ship", []string{"push", "pull", "inspect", "registry", "login", "logout"}},
	{"Trust", []string{"sign", "verify", "keys", "trust", "audit"}},
	{"Store", []string{"ls", "tag", "rm", "gc", "fsck"}},
	{"Train", []string{"train", "eval", "tokenizer", "data", "gradcheck", "lab"}},
	{"Shell", []string{"help", "version", "completion"}},
}

// environment is what the program reads from outside.
const environment = `  MM_HOME            store, keys, trust file, audit log (default: ~/.local/share/mm)
  MM_KEY_PASSWORD    password of signing keys; without it a terminal is asked
  SOURCE_DATE_EPOCH  date written into artifacts (default: none is written)
  NO_COLOR           no colours in messages

Settings are in mm.yaml, in the folder of the graph or above it: where modules
lie, which registries are asked, whom to trust.

Exit codes: 0 ok, 1 failure, 2 usage, 3 a file has faults, 4 verification
refused, 5 golden output or budget missed, 6 backend unavailable, 130 interrupted.
`

// prepare gives every command the program's way with usage errors and its
// help.
func prepare(app *cli.App) {
	app.CustomAppHelpTemplate = literal(appHelp(app))
	must := map[cli.Flag]bool{}
	for _, c := range app.Commands {
		prepareCommand(c, app.Name+" "+c.Name, must)
	}
}

// prepareCommand prepares a command and those below it; must collects the
// flags that have to be set, which several commands may share.
func prepareCommand(c *cli.Command, path string, must map[cli.Flag]bool) {
	c.HideHelpCommand = true
	known := flagNames(c.Flags)
	c.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return usageError{withNearest(err, known)} }
	if len(c.Subcommands) > 0 && c.Action == nil {
		c.Action = noCommand(path, c.Subcommands)
	}
	required(c, must)
	for _, sub := range c.Subcommands {
		prepareCommand(sub, path+" "+sub.Name, must)
	}
	c.CustomHelpTemplate = literal(commandHelp(c, path))
}

// required takes the check for flags that must be set from the library, which
// would print the whole help and end with the code of a failure.
func required(c *cli.Command, must map[cli.Flag]bool) {
	var names []string
	for _, f := range c.Flags {
		if f, ok := f.(*cli.StringFlag); ok && f.Required {
			f.Required = false
			f.Usage += " (required)"
			must[f] = true
		}
		if must[f] {
			names = append(names, f.Names()[0])
		}
	}
	action := c.Action
	if len(names) == 0 || action == nil {
		return
	}
	c.Action = func(ctx *cli.Context) error {
		for _, name := range names {
			if !ctx.IsSet(name) {
				return usageError{hinted{fmt.Errorf("--%s is missing", name), ctx.Command.HelpName + " --help tells more"}}
			}
		}
		return action(ctx)
	}
}

// literal makes a text stand for itself as a template.
func literal(text string) string { return strings.ReplaceAll(text, "{{", `{{"{{"}}`) }

// noCommand is the action of a group of commands, of the program itself where
// path is empty: it shows the help, or says that a word is no command.
func noCommand(path string, commands []*cli.Command) cli.ActionFunc {
	return func(c *cli.Context) error {
		word := c.Args().First()
		switch {
		case word != "" && path == "":
			return unknown(word, c.App.Name, c.App.Commands)
		case word != "":
			return unknown(word, path, commands)
		case path == "":
			return cli.ShowAppHelp(c)
		}
		_, err := fmt.Fprint(c.App.Writer, commandHelp(c.Command, path))
		return err
	}
}

// unknown says that a word is no command, and which one may have been meant.
func unknown(word, path string, commands []*cli.Command) error {
	err := fmt.Errorf("%q is no command of %s", word, path)
	if near, ok := spell.Nearest(word, commandNames(commands)); ok {
		return usageError{hinted{err, fmt.Sprintf("did you mean %s %s?", path, near)}}
	}
	return usageError{hinted{err, path + " --help lists them"}}
}

// undefined is how package flag begins to say that a flag is not known.
const undefined = "flag provided but not defined: -"

// withNearest adds what may have been meant to the flag package's error.
func withNearest(err error, known []string) error {
	name, ok := strings.CutPrefix(err.Error(), undefined)
	if !ok {
		return err
	}
	err = fmt.Errorf("no such flag: --%s", strings.TrimLeft(name, "-"))
	if near, ok := spell.Nearest(strings.TrimLeft(name, "-"), known); ok {
		return hinted{err, fmt.Sprintf("did you mean --%s?", near)}
	}
	return err
}

func commandNames(commands []*cli.Command) []string {
	var names []string
	for _, c := range commands {
		names = append(names, c.Names()...)
	}
	return names
}

func flagNames(flags []cli.Flag) []string {
	var names []string
	for _, f := range flags {
		names = append(names, f.Names()...)
	}
	return names
}

// appHelp is the text of mm --help.
func appHelp(app *cli.App) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\nUsage: %s COMMAND [FLAGS] [ARGUMENTS]\n", app.Name, app.Usage, app.Name)
	for _, g := range groups {
		fmt.Fprintf(&b, "\n%s\n", g.title)
		w := tabwriter.NewWriter(&b, 14, 1, 2, ' ', 0)
		for _, name := range g.commands {
			if i := slices.IndexFunc(app.Commands, func(c *cli.Command) bool { return c.Name == name }); i >= 0 {
				fmt.Fprintf(w, "  %s\t%s\n", name, app.Commands[i].Usage)
			}
		}
		w.Flush()
	}
	fmt.Fprintf(&b, "\n%s COMMAND --help tells more, with examples.\n\n%s", app.Name, environment)
	return b.String()
}

// commandHelp is the text of mm COMMAND --help.
func commandHelp(c *cli.Command, path string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\nUsage: %s", path, c.Usage, path)
	if len(c.Subcommands) > 0 {
		b.WriteString(" COMMAND")
	}
	if len(c.Flags) > 0 {
		b.WriteString(" [FLAGS]")
	}
	if c.ArgsUsage != "" {
		b.WriteString(" " + c.ArgsUsage)
	}
	b.WriteString("\n")
	if c.Description != "" {
		b.WriteString("\n" + c.Description + "\n")
	}
	if len(c.Subcommands) > 0 {
		b.WriteString("\nCommands\n")
		w := tabwriter.NewWriter(&b, 14, 1, 2, ' ', 0)
		for _, s := range c.Subcommands {
			fmt.Fprintf(w, "  %s\t%s\n", s.Name, s.Usage)
		}
		w.Flush()
	}
	if len(c.Flags) > 0 {
		b.WriteString("\nFlags\n")
		w := tabwriter.NewWriter(&b, 14, 1, 2, ' ', 0)
		for _, f := range c.Flags {
			flag, usage := flagHelp(f)
			fmt.Fprintf(w, "  %s\t%s\n", flag, usage)
		}
		w.Flush()
	}
	if lines := examples[strings.TrimPrefix(path, "mm ")]; len(lines) > 0 {
		b.WriteString("\nExamples\n  " + strings.Join(lines, "\n  ") + "\n")
	}
	return b.String()
}

// flagHelp is a flag with the name of its value, and what it does. A default is
// told where it says something.
func flagHelp(f cli.Flag) (flag, usage string) {
	var names []string
	for _, n := range f.Names() {
		names = append(names, strings.Repeat("-", min(2, len(n)))+n)
	}
	flag = strings.Join(names, ", ")
	doc, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return flag, ""
	}
	usage = doc.GetUsage()
	value := ""
	if i := strings.IndexByte(usage, '`'); i >= 0 {
		if j := strings.IndexByte(usage[i+1:], '`'); j >= 0 {
			value = usage[i+1 : i+1+j]
			usage = usage[:i] + value + usage[i+j+2:]
		}
	}
	if doc.TakesValue() {
		if value == "" {
			value = "VALUE"
			switch f.(type) {
			case *cli.IntFlag, *cli.Int64Flag, *cli.Uint64Flag:
				value = "N"
			case *cli.Float64Flag:
				value = "X"
			}
		}
		flag += " " + value
		if _, ok := f.(*cli.StringSliceFlag); ok {
			usage += " (may stand several times)"
		}
		if d := doc.GetValue(); d != "" && d != "0" && d != "0s" && d != "[]" && !strings.Contains(usage, "(default") {
			usage += " (default: " + d + ")"
		}
	}
	return flag, usage
}
