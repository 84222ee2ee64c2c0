package console

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
)

// groups orders the commands of the help by task.
var groups = []struct {
	title    string
	commands []string
}{
	{"Build and ship", []string{"init", "validate", "lock", "assemble", "module", "sign", "attest", "sbom", "card", "dashboard", "licenses", "verify", "push", "export", "promote", "pull", "inspect", "run", "chat", "embed", "rerank", "ci"}},
	{"Registries and trust", []string{"login", "logout", "registry", "bucket", "keys", "trust", "audit"}},
	{"Store", []string{"ls", "tag", "rm", "gc", "fsck"}},
	{"Serve and extend", []string{"serve", "mcp", "skill", "runtime", "doctor", "demo"}},
	{"Convert models", []string{"quantize", "onnx", "qnn", "tokenizer"}},
	{"Train, measure and experiment", []string{"train", "data", "eval", "gradcheck", "lab", "experiment", "jobs", "track", "device"}},
	{"Shell", []string{"help", "version", "completion", "schema"}},
}

// environment describes the environment variables, the settings and the exit codes.
const environment = `  MM_HOME            store, keys, trust file, audit log (default: ~/.local/share/mm)
  MM_KEY_PASSWORD    password of signing keys; if unset, mm asks on a terminal
  SOURCE_DATE_EPOCH  date in artifacts (default: none) and for chat templates (default: now)
  NO_COLOR           disable colors in messages

Project settings are in mm.yaml, in the folder of the graph or above it: module
folders, registries and trust.

Exit codes: 0 ok, 1 failure, 2 usage, 3 a file has faults, 4 verification
refused, 5 golden output or budget missed, 6 backend unavailable, 130 interrupted.
`

// Manual writes the help of commands and their manual pages.
type Manual struct {
	Examples string // the path of a command in a line, then its lines, indented
}

// Prepare sets the actions of groups, the usage errors of app and of each command, and,
// if args ask for it, the texts of --help: there are many.
func (m Manual) Prepare(app *cli.App, args []string) {
	app.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return flagError(err, nil) }
	app.Action = m.noCommand("", nil)
	must := map[cli.Flag]bool{}
	for _, c := range app.Commands {
		m.prepare(c, app.Name+" "+c.Name, must)
	}
	if slices.ContainsFunc(args, func(a string) bool { return slices.Contains(cli.HelpFlag.Names(), strings.TrimLeft(a, "-")) }) {
		app.CustomAppHelpTemplate = literal(appHelp(app))
		EachCommand(app.Commands, app.Name, func(path string, c *cli.Command) { c.CustomHelpTemplate = literal(m.command(c, path)) })
	}
}

// Find returns the help of the command at a path, or that of app for no words.
func (m Manual) Find(app *cli.App, words []string) (string, error) {
	commands, path := app.Commands, app.Name
	var at *cli.Command
	for _, word := range words {
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(word) })
		if i < 0 {
			return "", unknown(word, path, commands)
		}
		at = commands[i]
		commands, path = at.Subcommands, path+" "+at.Name
	}
	if at == nil {
		return appHelp(app), nil
	}
	return m.command(at, path), nil
}

// examples returns the lines at the end of the help of a command, such as "module new".
func (m Manual) examples(command string) []string { return m.All()[command] }

// All returns the examples by command.
func (m Manual) All() map[string][]string {
	all, command := map[string][]string{}, ""
	for line := range strings.Lines(m.Examples) {
		line = strings.TrimSuffix(line, "\n")
		if text, ok := strings.CutPrefix(line, "\t"); ok {
			all[command] = append(all[command], text)
		} else if line != "" && line[0] != '#' {
			command = line
		}
	}
	return all
}

// Groups returns the names of the commands in the groups of the help.
func Groups() (names []string) {
	for _, g := range groups {
		names = append(names, g.commands...)
	}
	return names
}

// prepare prepares a command and its subcommands; must collects the required
// flags, which several commands may share.
func (m Manual) prepare(c *cli.Command, path string, must map[cli.Flag]bool) {
	c.HideHelpCommand = true
	c.Description = strings.Trim(c.Description, "\n")
	c.OnUsageError = func(ctx *cli.Context, err error, _ bool) error {
		setLater(c.Flags, ctx.Lineage()[1].Args().Slice()) // its own are not set yet
		return flagError(err, c.Flags)
	}
	if len(c.Subcommands) > 0 && c.Action == nil {
		c.Action = m.noCommand(path, c.Subcommands)
	}
	if len(c.Subcommands) == 0 || c.ArgsUsage != "" {
		c.Action = counted(c, path)
	}
	required(c, must)
	for _, sub := range c.Subcommands {
		m.prepare(sub, path+" "+sub.Name, must)
	}
}

// required replaces the library's check of required flags, which would print the
// help and exit with code 1.
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
				return diag.Usage(diag.Hinted(fmt.Errorf("missing flag --%s", name), ctx.Command.HelpName+" --help describes it"))
			}
		}
		return action(ctx)
	}
}

// literal escapes a text for use as a template.
func literal(text string) string { return strings.ReplaceAll(text, "{{", `{{"{{"}}`) }

// noCommand is the action of a group of commands, or of the program if path is
// empty: it shows the help, or reports an unknown command.
func (m Manual) noCommand(path string, commands []*cli.Command) cli.ActionFunc {
	return func(c *cli.Context) error {
		word := c.Args().First()
		switch {
		case word != "" && path == "":
			return unknown(word, c.App.Name, c.App.Commands)
		case word != "":
			return unknown(word, path, commands)
		}
		text := appHelp(c.App)
		if path != "" {
			text = m.command(c.Command, path)
		}
		_, err := fmt.Fprint(c.App.Writer, text)
		return err
	}
}

// synonyms maps the names of commands in other programs to mm's.
var synonyms = map[string]string{
	"delete": "rm", "build": "assemble", "compose": "assemble", "import": "module import", "create": "module new", "new": "init",
	"show": "inspect", "images": "ls", "search": "ls", "prune": "gc", "check": "validate", "lint": "validate",
	"update": "lock", "convert": "module import", "generate-key-pair": "keys generate", "upload": "push", "download": "pull", "install": "runtime install",
}

// subSynonyms maps them within a group of commands, to the first that the group has.
var subSynonyms = map[string][]string{
	"remove": {"rm"}, "delete": {"rm"}, "list": {"ls"}, "copy": {"cp"}, "create": {"new", "generate"}, "init": {"new"},
	"compare": {"diff"}, "show": {"inspect", "ls"}, "install": {"add"},
}

// unknown reports an unknown command, with the nearest name as a hint.
func unknown(word, path string, commands []*cli.Command) error {
	err := fmt.Errorf("unknown command %q of %s", word, path)
	if path == "mm" && synonyms[word] != "" {
		return diag.Usage(diag.Hinted(err, fmt.Sprintf("did you mean mm %s?", synonyms[word])))
	}
	for _, name := range subSynonyms[word] {
		if path != "mm" && slices.Contains(commandNames(commands), name) {
			return diag.Usage(diag.Hinted(err, fmt.Sprintf("did you mean %s %s?", path, name)))
		}
	}
	if near, ok := diag.Nearest(word, commandNames(commands)); ok {
		return diag.Usage(diag.Hinted(err, fmt.Sprintf("did you mean %s %s?", path, near)))
	}
	return diag.Usage(diag.Hinted(err, path+" --help lists them"))
}

// The errors of package flag.
var (
	unknownFlag = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^flag provided but not defined: --?(.*)$`) })
	invalidFlag = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^invalid (?:boolean )?value "(.*)" for (?:flag )?--?([\w-]+): `)
	})
	emptyFlag = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^flag needs an argument: --?(.*)$`) })
)

// setLater sets the booleans among the arguments of a faulty command, which package flag
// did not reach: --json decides how the error is printed.
func setLater(flags []cli.Flag, args []string) {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	for _, f := range flags {
		if b, ok := f.(*cli.BoolFlag); ok && b.Destination != nil && slices.Contains(args, "--"+b.Name) {
			*b.Destination = true
		}
	}
}

// flagError rewrites an error of package flag: it adds the nearest flag, or
// the kind of value that a flag wants.
func flagError(err error, flags []cli.Flag) error {
	if m := unknownFlag().FindStringSubmatch(err.Error()); m != nil {
		err = fmt.Errorf("unknown flag --%s", m[1])
		if near, ok := diag.Nearest(m[1], flagNames(flags)); ok {
			return diag.Usage(diag.Hinted(err, fmt.Sprintf("did you mean --%s?", near)))
		}
		return diag.Usage(err)
	}
	if m := emptyFlag().FindStringSubmatch(err.Error()); m != nil {
		return diag.Usagef("--%s: missing value", m[1])
	}
	m := invalidFlag().FindStringSubmatch(err.Error())
	if m == nil {
		return diag.Usage(err)
	}
	want := "a valid value"
	for _, f := range flags {
		if slices.Contains(f.Names(), m[2]) {
			switch f.(type) {
			case *cli.IntFlag, *cli.Int64Flag:
				want = "an integer"
			case *cli.Uint64Flag:
				want = "an integer of at least 0"
			case *cli.Float64Flag:
				want = "a number"
			case *cli.DurationFlag:
				want = "a duration such as 90s or 10m"
			case *cli.BoolFlag:
				want = "true or false"
			case *cli.GenericFlag: // its error names the wanted form
				return diag.Usage(fmt.Errorf("--%s: %s", m[2], strings.TrimPrefix(err.Error(), m[0])))
			}
		}
	}
	return diag.Usage(fmt.Errorf("--%s: invalid value %q, want %s", m[2], m[1], want))
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

// appHelp returns the text of mm --help.
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
	fmt.Fprintf(&b, "\n%s COMMAND --help describes a command, with examples.\n\n%s", app.Name, environment)
	return b.String()
}

// command returns the text of mm COMMAND --help.
func (m Manual) command(c *cli.Command, path string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\nUsage: %s", path, c.Usage, path)
	if len(c.Subcommands) > 0 && c.ArgsUsage == "" {
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
			if v, ok := f.(cli.VisibleFlag); ok && !v.IsVisible() {
				continue
			}
			flag, usage := flagHelp(f)
			fmt.Fprintf(w, "  %s\t%s\n", flag, usage)
		}
		w.Flush()
	}
	if lines := m.examples(strings.TrimPrefix(path, "mm ")); len(lines) > 0 {
		b.WriteString("\nExamples\n  " + strings.Join(lines, "\n  ") + "\n")
	}
	return b.String()
}

// flagHelp returns a flag with the name of its value, and its usage with the
// default.
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
		if _, ok := f.(*cli.StringSliceFlag); ok && !strings.Contains(usage, "(repeatable") {
			usage += " (repeatable)"
		}
		if d := doc.GetValue(); d != "" && d != "0" && d != "0s" && d != "[]" && !strings.Contains(usage, "(default") {
			usage += " (default: " + d + ")"
		}
	}
	return flag, usage
}
