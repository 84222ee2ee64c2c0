package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/skills/template"
)

func (p *program) skillNewCommand() *cli.Command {
	known := strings.Join(template.Languages(), ", ")
	return &cli.Command{
		Name: "new", Usage: "create a skill from a template that counts words", ArgsUsage: "NAME",
		Description: "The folder contains module.yaml, the source and a README. Go and C are compiled to WebAssembly\n" +
			"with the printed command; Python and Starlark run directly.",
		Flags: []cli.Flag{
			p.jsonFlag(),
			&cli.StringFlag{Name: "lang", Value: "starlark", Usage: known},
			&cli.StringFlag{Name: "dir", Usage: "folder of the module (default: ./NAME)"},
			&cli.StringFlag{Name: "version", Value: "0.1.0", Usage: "SemVer of the module"},
			&cli.StringFlag{Name: "license", Value: "Apache-2.0", Usage: "SPDX expression"},
		},
		Action: func(c *cli.Context) error {
			if !slices.Contains(template.Languages(), c.String("lang")) {
				return usageError{hinted{fmt.Errorf("--lang %q: unknown template", c.String("lang")), "known: " + known}}
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
		},
	}
}
