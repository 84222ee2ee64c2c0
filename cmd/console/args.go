package console

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
)

// arity returns how many arguments the usage of a command, such as REF or PROMPT,
// allows; most is -1 if there is no limit.
func arity(usage string) (least, most int) {
	for _, word := range strings.Fields(usage) {
		if word[0] != '[' {
			least++
		}
		if strings.Contains(word, "…") {
			return least, -1
		}
		most++
	}
	return least, most
}

// counted wraps the action of a command in a check of the number of its arguments.
func counted(c *cli.Command, path string) cli.ActionFunc {
	least, most := arity(c.ArgsUsage)
	want := fmt.Sprint(least)
	switch {
	case most < 0:
		want += " or more"
	case most > least:
		want += fmt.Sprintf(" to %d", most)
	}
	action := c.Action
	return func(ctx *cli.Context) error {
		if n := ctx.NArg(); n < least || most >= 0 && n > most {
			return diag.Usage(diag.Hinted(fmt.Errorf("wrong number of arguments: got %d, want %s", n, want), strings.TrimSpace("usage: "+path+" "+ctx.Command.ArgsUsage)))
		}
		return action(ctx)
	}
}

// Permute moves flags before arguments, so that `mm assemble GRAPH --out DIR`
// works: urfave/cli stops parsing flags at the first argument. Everything after a
// lone -- is left unchanged.
func Permute(app *cli.App, args []string) []string {
	if len(args) < 2 || args[len(args)-1] == "--"+cli.BashCompletionFlag.Names()[0] {
		return args
	}
	out := []string{args[0]}
	rest := args[1:]
	commands, flags, usage := app.Commands, app.Flags, ""
	for len(rest) > 0 {
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(rest[0]) })
		if i < 0 {
			break
		}
		out = append(out, rest[0])
		rest = rest[1:]
		flags, commands, usage = commands[i].Flags, commands[i].Subcommands, commands[i].ArgsUsage
	}
	if len(commands) > 0 && usage == "" { // a group without its command: nothing to reorder
		return append(out, rest...)
	}
	front, back := split(rest, flags)
	return append(append(out, front...), back...)
}

// split separates flags with their values from arguments.
func split(args []string, flags []cli.Flag) (front, back []string) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			return append(front, "--"), append(back, args[i+1:]...)
		}
		if len(a) < 2 || a[0] != '-' {
			back = append(back, a)
			continue
		}
		front = append(front, a)
		if !strings.Contains(a, "=") && takesValue(flags, strings.TrimLeft(a, "-")) && i+1 < len(args) {
			i++
			front = append(front, args[i])
		}
	}
	return front, back
}

func takesValue(flags []cli.Flag, name string) bool {
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			_, isBool := f.(*cli.BoolFlag)
			return !isBool
		}
	}
	return false
}
