package console

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
)

// Declarations holds what a text of declared commands refers to.
type Declarations struct {
	Actions map[string]cli.ActionFunc                 // by path, such as "module new"
	Words   *strings.Replacer                         // of words such as $(recipes)
	Bools   map[string]*bool                          // destinations of flags, by name
	Values  map[string]func(value string) cli.Generic // further types of flags
}

// Commands returns the commands of a text, whose form cmd/mm/commands.txt describes. An
// invalid declaration panics: the text is part of the program.
func (d Declarations) Commands(text string) []*cli.Command {
	root, groups, group := &cli.Command{}, map[string][]string{}, ""
	at := root
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.Contains(line, "$(") {
			line = d.Words.Replace(line)
		}
		rest, indented := strings.CutPrefix(line, "\t")
		flag, deeper := strings.CutPrefix(rest, "\t")
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "@"):
			group = line
		case deeper && at == root:
			groups[group] = append(groups[group], flag)
		case deeper:
			at.Flags = append(at.Flags, d.flags(flag, groups)...)
		case indented && at.Usage == "":
			at.Usage = rest
		case indented, line == "" && at.Description != "" && len(at.Flags) == 0:
			at.Description += rest + "\n"
		case line != "":
			at = declare(root, line, d.Actions)
		}
	}
	return root.Subcommands
}

// declare adds the command of a heading of a declaration.
func declare(root *cli.Command, heading string, actions map[string]cli.ActionFunc) *cli.Command {
	heading, hidden := strings.CutPrefix(heading, ".")
	path, args, _ := strings.Cut(heading, "  ")
	path, aliases, _ := strings.Cut(path, ",")
	words := strings.Fields(path)
	parent := root
	for _, word := range words[:len(words)-1] {
		parent = parent.Subcommands[slices.IndexFunc(parent.Subcommands, func(c *cli.Command) bool { return c.Name == word })]
	}
	c := &cli.Command{Name: words[len(words)-1], ArgsUsage: args, Hidden: hidden, Action: actions[path]}
	if aliases != "" {
		c.Aliases = strings.Split(aliases, ",")
	}
	parent.Subcommands = append(parent.Subcommands, c)
	return c
}

// EachCommand calls visit with the path of each command, such as "module new".
func EachCommand(commands []*cli.Command, above string, visit func(path string, c *cli.Command)) {
	for _, c := range commands {
		path := strings.TrimSpace(above + " " + c.Name)
		visit(path, c)
		EachCommand(c.Subcommands, path, visit)
	}
}

// flags returns the flags of a line: one, or those of groups.
func (d Declarations) flags(line string, groups map[string][]string) (list []cli.Flag) {
	if !strings.HasPrefix(line, "@") {
		return []cli.Flag{d.flag(line)}
	}
	for _, name := range strings.Fields(line) {
		for _, l := range groups[name] {
			list = append(list, d.flags(l, groups)...)
		}
	}
	return list
}

// flag returns the flag of a line: NAME[,ALIAS] TYPE[!][=DEFAULT] [(SHOWN)] [$VARIABLE]  USAGE.
func (d Declarations) flag(line string) cli.Flag {
	head, usage, _ := strings.Cut(line, "  ")
	head, hidden := strings.CutPrefix(head, ".")
	name, head, _ := strings.Cut(head, " ")
	name, alias, _ := strings.Cut(name, ",")
	head, variable, _ := strings.Cut(head, " $")
	head, shown, _ := strings.Cut(strings.TrimSuffix(head, ")"), " (")
	kind, value, _ := strings.Cut(head, "=")
	kind, required := strings.CutSuffix(kind, "!")
	kind, least, _ := strings.Cut(kind, ":")
	var aliases, variables []string
	if alias != "" {
		aliases = []string{alias}
	}
	if variable != "" {
		variables = []string{variable}
	}
	switch kind {
	case "bool":
		return &cli.BoolFlag{Name: name, Aliases: aliases, Usage: usage, Hidden: hidden, Destination: d.Bools[name]}
	case "string":
		return &cli.StringFlag{Name: name, Aliases: aliases, Usage: usage, Required: required, Value: value, DefaultText: shown, EnvVars: variables, Action: notEmpty(name, usage)}
	case "strings":
		empty := notEmpty(name, usage)
		return &cli.StringSliceFlag{Name: name, Aliases: aliases, Usage: usage, Required: required, Action: func(c *cli.Context, all []string) error {
			for _, v := range all {
				if err := empty(c, v); err != nil {
					return err
				}
			}
			return nil
		}}
	case "int":
		return &cli.IntFlag{Name: name, Aliases: aliases, Usage: usage, Value: parsed[int](value), DefaultText: shown, Action: atLeast[int](name, least)}
	case "int64":
		return &cli.Int64Flag{Name: name, Aliases: aliases, Usage: usage, Value: parsed[int64](value), Action: atLeast[int64](name, least)}
	case "uint":
		return &cli.UintFlag{Name: name, Aliases: aliases, Usage: usage, Value: parsed[uint](value)}
	case "uint64":
		return &cli.Uint64Flag{Name: name, Aliases: aliases, Usage: usage, Value: parsed[uint64](value)}
	case "float":
		return &cli.Float64Flag{Name: name, Aliases: aliases, Usage: usage, Required: required, Value: parsed[float64](value), DefaultText: shown, Action: atLeast[float64](name, least)}
	case "duration":
		return &cli.DurationFlag{Name: name, Aliases: aliases, Usage: usage, Value: parsed[time.Duration](value), DefaultText: shown, Action: atLeast[time.Duration](name, least)}
	}
	if of := d.Values[kind]; of != nil {
		return &cli.GenericFlag{Name: name, Usage: usage, Hidden: hidden, Value: of(value)}
	}
	panic("unknown type of a flag: " + line)
}

// number is a number of a flag.
type number interface {
	int | int64 | uint | uint64 | float64 | time.Duration
}

// parsed returns a number of a declaration, 0 if it is empty.
func parsed[T number](text string) (v T) {
	if text == "" {
		return v
	}
	var err error
	if d, ok := any(&v).(*time.Duration); ok {
		*d, err = time.ParseDuration(text)
	} else {
		_, err = fmt.Sscan(text, &v)
	}
	if err != nil {
		panic(fmt.Sprintf("number %q: %v", text, err))
	}
	return v
}

// notEmpty refuses an empty value of a flag that names something, as from an unset
// variable of a shell: --out "" would write nothing, --trust "" trust the default.
func notEmpty(name, usage string) func(*cli.Context, string) error {
	_, word, _ := strings.Cut(usage, "`")
	word, _, _ = strings.Cut(word, "`")
	return func(_ *cli.Context, value string) error {
		if value != "" || word == "" || word == "TEXT" {
			return nil
		}
		return diag.Usagef("--%s: empty value, want %s", name, word)
	}
}

// atLeast returns a check that refuses a number of a flag below least, or none without
// least.
func atLeast[T number](name, least string) func(*cli.Context, T) error {
	if least == "" {
		return nil
	}
	return func(_ *cli.Context, v T) error {
		switch {
		case v >= parsed[T](least):
			return nil
		case parsed[T](least) == 0:
			return diag.Usagef("--%s %v: must not be negative", name, v)
		case least == "1ns":
			return diag.Usagef("--%s %v: want more than 0", name, v)
		}
		return diag.Usagef("--%s %v: want at least %s", name, v, least)
	}
}
