package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/compile"
	"mm-abi.org/mm/assemble/quantize"
	"mm-abi.org/mm/builds/servers"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/eval/suite"
	"mm-abi.org/mm/lab/corpus/pii"
	"mm-abi.org/mm/lab/device"
	"mm-abi.org/mm/lab/farm"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/runtimes/hosted"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/train/dataset/scene"
)

// commandText declares the commands; its head describes the form.
//
//go:embed commands.txt
var commandText string

// commands returns the commands of commands.txt with their actions.
func (p *program) commands() []*cli.Command {
	root, groups, group := &cli.Command{}, map[string][]string{}, ""
	actions, at := p.actions(), root
	words := vocabulary()
	for line := range strings.Lines(commandText) {
		line = strings.TrimSuffix(line, "\n")
		if strings.Contains(line, "$(") {
			line = words.Replace(line)
		}
		text, indented := strings.CutPrefix(line, "\t")
		flag, deeper := strings.CutPrefix(text, "\t")
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "@"):
			group = line
		case deeper && at == root:
			groups[group] = append(groups[group], flag)
		case deeper:
			at.Flags = append(at.Flags, p.flags(flag, groups)...)
		case indented && at.Usage == "":
			at.Usage = text
		case indented, line == "" && at.Description != "" && len(at.Flags) == 0:
			at.Description += text + "\n"
		case line != "":
			at = declare(root, line, actions)
		}
	}
	return root.Subcommands
}

// declare adds the command of a heading of commands.txt.
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

// eachCommand calls visit with the path of each command, such as "module new".
func eachCommand(commands []*cli.Command, above string, visit func(path string, c *cli.Command)) {
	for _, c := range commands {
		path := strings.TrimSpace(above + " " + c.Name)
		visit(path, c)
		eachCommand(c.Subcommands, path, visit)
	}
}

// flags returns the flags of a line: one, or those of groups.
func (p *program) flags(line string, groups map[string][]string) (list []cli.Flag) {
	if !strings.HasPrefix(line, "@") {
		return []cli.Flag{p.flag(line)}
	}
	for _, name := range strings.Fields(line) {
		for _, l := range groups[name] {
			list = append(list, p.flags(l, groups)...)
		}
	}
	return list
}

// flag returns the flag of a line: NAME[,ALIAS] TYPE[!][=DEFAULT] [(SHOWN)] [$VARIABLE]  USAGE.
func (p *program) flag(line string) cli.Flag {
	head, usage, _ := strings.Cut(line, "  ")
	head, hidden := strings.CutPrefix(head, ".")
	name, head, _ := strings.Cut(head, " ")
	name, alias, _ := strings.Cut(name, ",")
	head, variable, _ := strings.Cut(head, " $")
	head, shown, _ := strings.Cut(strings.TrimSuffix(head, ")"), " (")
	kind, value, _ := strings.Cut(head, "=")
	kind, required := strings.CutSuffix(kind, "!")
	var aliases, variables []string
	if alias != "" {
		aliases = []string{alias}
	}
	if variable != "" {
		variables = []string{variable}
	}
	switch kind {
	case "bool":
		into := map[string]*bool{"json": &p.json, "quiet": &p.quiet}[name]
		return &cli.BoolFlag{Name: name, Aliases: aliases, Usage: usage, Hidden: hidden, Destination: into}
	case "string":
		return &cli.StringFlag{Name: name, Aliases: aliases, Usage: usage, Required: required, Value: value, DefaultText: shown, EnvVars: variables}
	case "strings":
		return &cli.StringSliceFlag{Name: name, Aliases: aliases, Usage: usage, Required: required}
	case "int":
		return &cli.IntFlag{Name: name, Aliases: aliases, Usage: usage, Value: parsed[int](value), DefaultText: shown}
	case "int64":
		return &cli.Int64Flag{Name: name, Aliases: aliases, Usage: usage, Value: parsed[int64](value)}
	case "uint":
		return &cli.UintFlag{Name: name, Aliases: aliases, Usage: usage, Value: parsed[uint](value)}
	case "uint64":
		return &cli.Uint64Flag{Name: name, Aliases: aliases, Usage: usage, Value: parsed[uint64](value)}
	case "float":
		return &cli.Float64Flag{Name: name, Aliases: aliases, Usage: usage, Required: required, Value: parsed[float64](value), DefaultText: shown}
	case "duration":
		d, err := time.ParseDuration(cmp.Or(value, "0s"))
		if err != nil {
			panic(fmt.Sprintf("commands.txt: %s: %v", line, err))
		}
		return &cli.DurationFlag{Name: name, Aliases: aliases, Usage: usage, Value: d, DefaultText: shown}
	case "input":
		in := abi.Modality(value)
		return &cli.GenericFlag{Name: name, Usage: usage, Hidden: hidden, Value: saying{p, in}}
	case "grant":
		return &cli.GenericFlag{Name: name, Usage: usage, Value: &granting{&p.skills.Grants}}
	}
	panic("commands.txt: unknown type of a flag: " + line)
}

// parsed returns a number of commands.txt, 0 if it is empty.
func parsed[T int | int64 | uint | uint64 | float64](text string) (v T) {
	if text != "" {
		if _, err := fmt.Sscan(text, &v); err != nil {
			panic(fmt.Sprintf("commands.txt: number %q: %v", text, err))
		}
	}
	return v
}

// vocabulary replaces the words of commands.txt that the program knows: lists of what its
// libraries support, and their defaults.
func vocabulary() *strings.Replacer {
	return strings.NewReplacer(
		"$(argument)", argumentMeaning,
		"$(axes)", strings.Join(htp.Axes(), ", "),
		"$(battery)", fmt.Sprint(device.MinBattery),
		"$(fewshot-seed)", fmt.Sprint(suite.DefaultSeed),
		"$(findings)", joined(pii.Kinds()),
		"$(forms)", strings.Join(hosted.Forms(), ", "),
		"$(methods)", strings.Join(quantize.Methods(), ", "),
		"$(precisions)", strings.Join(compile.Precisions(), ", "),
		"$(presets)", likes(),
		"$(queue)", farm.DefaultServer,
		"$(queue-age)", farm.DefaultAge.String(),
		"$(recipes)", strings.Join(quant.RecipeNames(), ", "),
		"$(scenes)", strings.Join(scene.AllKinds(), ", "),
		"$(schemas)", joined(schemas.Kinds()),
		"$(score)", fmt.Sprint(pii.DefaultScore),
		"$(servers)", joined(servers.Kinds()),
	)
}

// joined lists names.
func joined[T ~string](names []T) string {
	var all []string
	for _, n := range names {
		all = append(all, string(n))
	}
	return strings.Join(all, ", ")
}

//go:embed examples.txt
var exampleText string

// examples returns the lines at the end of the help of a command, such as
// "module new".
func examples(command string) []string { return readExamples()[command] }

// readExamples parses examples.txt: the path of a command, then its lines, which
// are indented.
var readExamples = sync.OnceValue(func() map[string][]string {
	all, command := map[string][]string{}, ""
	for line := range strings.Lines(exampleText) {
		line = strings.TrimSuffix(line, "\n")
		if text, ok := strings.CutPrefix(line, "\t"); ok {
			all[command] = append(all[command], text)
		} else if line != "" && line[0] != '#' {
			command = line
		}
	}
	return all
})
