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
		Name: "new", Usage: "write the folder of a skill that counts words, to begin with", ArgsUsage: "NAME",
		Description: "The folder holds module.yaml, the source and a README. Go and C become WebAssembly by the\n" +
			"command that is printed; Python and Starlark run as they are.",
		Flags: []cli.Flag{
			p.jsonFlag(),
			&cli.StringFlag{Name: "lang", Value: "starlark", Usage: known},
			&cli.StringFlag{Name: "dir", Usage: "folder of the module (default: ./NAME)"},
			&cli.StringFlag{Name: "version", Value: "0.1.0", Usage: "SemVer of the module"},
			&cli.StringFlag{Name: "license", Value: "Apache-2.0", Usage: "SPDX expression"},
		},
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 1, 1); err != nil {
				return err
			}
			if !slices.Contains(template.Languages(), c.String("lang")) {
				return usageError{hinted{fmt.Errorf("--lang %q: there is no template of it", c.String("lang")), "known: " + known}}
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
			fmt.Fprintln(p.stdout, dir)
			if build := opt.Command(); build != "" {
				fmt.Fprintf(p.stdout, "build it: (cd %s && %s)\n", dir, build)
			}
			return nil
		},
	}
}
