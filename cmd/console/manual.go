package console

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/fsx"
)

// WritePages writes a page for mm and one for each of its commands.
func (m Manual) WritePages(app *cli.App, dir string) error {
	out, err := fsx.Create(dir, 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer out.Close()
	pages := map[string]string{"mm.1": pageOf(app)}
	for _, c := range Visible(app.Commands) {
		pages["mm-"+c.Name+".1"] = m.page(c)
	}
	for name, text := range pages {
		if err := out.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Visible returns the commands that help lists.
func Visible(commands []*cli.Command) []*cli.Command {
	return slices.DeleteFunc(slices.Clone(commands), func(c *cli.Command) bool { return c.Hidden })
}

// Markdown renders every command and flag as one Markdown document.
func (m Manual) Markdown(app *cli.App) string {
	var b strings.Builder
	b.WriteString("# Commands\n\nGenerated from the program by `go test ./cmd/mm -run TestReference -update`; do not edit.\n\n")
	b.WriteString("```\n" + appHelp(app) + "```\n")
	var walk func(c *cli.Command, path string)
	walk = func(c *cli.Command, path string) {
		fmt.Fprintf(&b, "\n## %s\n\n```\n%s```\n", path, m.command(c, path))
		for _, s := range Visible(c.Subcommands) {
			walk(s, path+" "+s.Name)
		}
	}
	for _, c := range Visible(app.Commands) {
		walk(c, "mm "+c.Name)
	}
	return b.String()
}

// roff escapes text for a manual page.
func roff(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r > '~':
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	text = b.String()
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}

func pageOf(app *cli.App) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH MM 1\n.SH NAME\nmm \\- %s\n.SH SYNOPSIS\n.B mm\nCOMMAND [FLAGS] [ARGUMENTS]\n", roff(app.Usage))
	b.WriteString(".SH COMMANDS\n")
	for _, g := range groups {
		fmt.Fprintf(&b, ".SS %s\n", g.title)
		for _, name := range g.commands {
			if i := slices.IndexFunc(app.Commands, func(c *cli.Command) bool { return c.Name == name }); i >= 0 {
				fmt.Fprintf(&b, ".TP\n.BR mm\\-%s (1)\n%s\n", roff(name), roff(app.Commands[i].Usage))
			}
		}
	}
	fmt.Fprintf(&b, ".SH ENVIRONMENT AND EXIT CODES\n.nf\n%s.fi\n", roff(environment))
	return b.String()
}

func (m Manual) page(c *cli.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH MM\\-%s 1\n.SH NAME\nmm\\-%s \\- %s\n", roff(strings.ToUpper(c.Name)), roff(c.Name), roff(c.Usage))
	m.sections(&b, c, "mm "+c.Name)
	var walk func(c *cli.Command, path string)
	walk = func(c *cli.Command, path string) {
		for _, s := range Visible(c.Subcommands) {
			fmt.Fprintf(&b, ".SH %s\n%s\n", roff(strings.ToUpper(path+" "+s.Name)), roff(s.Usage))
			m.sections(&b, s, path+" "+s.Name)
			walk(s, path+" "+s.Name)
		}
	}
	walk(c, "mm "+c.Name)
	b.WriteString(".SH SEE ALSO\n.BR mm (1)\n")
	return b.String()
}

// sections writes usage, description, flags and examples of a command.
func (m Manual) sections(b *strings.Builder, c *cli.Command, path string) {
	usage := path
	if len(c.Subcommands) > 0 {
		usage += " COMMAND"
	}
	if len(c.Flags) > 0 {
		usage += " [FLAGS]"
	}
	if c.ArgsUsage != "" {
		usage += " " + c.ArgsUsage
	}
	fmt.Fprintf(b, ".SS Usage\n%s\n", roff(usage))
	if c.Description != "" {
		fmt.Fprintf(b, ".SS Description\n%s\n", roff(c.Description))
	}
	if len(c.Flags) > 0 {
		b.WriteString(".SS Flags\n")
		for _, f := range c.Flags {
			flag, usage := flagHelp(f)
			fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(flag), roff(usage))
		}
	}
	if lines := m.examples(strings.TrimPrefix(path, "mm ")); len(lines) > 0 {
		fmt.Fprintf(b, ".SS Examples\n.nf\n%s\n.fi\n", roff(strings.Join(lines, "\n")))
	}
}
