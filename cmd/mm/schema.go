package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/schemas"
)

func (p *program) schemaCommand() *cli.Command {
	var names []string
	for _, k := range schemas.Kinds() {
		names = append(names, string(k))
	}
	return &cli.Command{
		Name: "schema", Usage: "print the JSON Schema of a kind of document, for editors", ArgsUsage: "[NAME]",
		Description: "NAME is " + strings.Join(names, ", ") + ". Without it, the names are listed.\n" +
			"The schema is one document without references to other files.",
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				_, err := fmt.Fprintln(p.stdout, strings.Join(names, "\n"))
				return err
			}
			data, err := schemas.Bundle(schemas.Kind(c.Args().First()))
			if err != nil {
				hint := "mm schema lists the names"
				if near, ok := diag.Nearest(c.Args().First(), names); ok {
					hint = "did you mean " + near + "?"
				}
				return usageError{hinted{err, hint}}
			}
			_, err = fmt.Fprintf(p.stdout, "%s", data)
			return err
		},
	}
}
