package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/skills/template"
)

func (p *program) skillNewAction(c *cli.Context) error {
	if !slices.Contains(template.Languages(), c.String("lang")) {
		return usageError{hinted{fmt.Errorf("--lang %q: unknown template", c.String("lang")), "known: " + strings.Join(template.Languages(), ", ")}}
	}
	opt := template.Options{Name: c.Args().First(), Language: c.String("lang"), Version: c.String("version"), License: c.String("license")}
	if err := checkIdentity(opt.Name, opt.Version); err != nil {
		return err
	}
	dir := cmp.Or(c.String("dir"), opt.Name)
	if err := template.Write(dir, opt); err != nil {
		return err
	}
	if p.json {
		return p.printJSON(struct {
			Dir   string `json:"dir"`
			Build string `json:"build,omitempty"`
		}{dir, opt.Command()})
	}
	p.line("%s", dir)
	if build := opt.Command(); build != "" {
		p.line("build with: (cd %s && %s)", dir, build)
	}
	return nil
}
