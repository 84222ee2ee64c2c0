package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/schemas"
)

func (p *program) schemaAction(c *cli.Context) error {
	if c.NArg() == 0 {
		_, err := fmt.Fprintln(p.stdout, strings.ReplaceAll(joined(schemas.Kinds()), ", ", "\n"))
		return err
	}
	data, err := schemas.Bundle(schemas.Kind(c.Args().First()))
	if err != nil {
		hint := "mm schema lists the names"
		if near, ok := diag.Nearest(c.Args().First(), strings.Split(joined(schemas.Kinds()), ", ")); ok {
			hint = "did you mean " + near + "?"
		}
		return usageError{hinted{err, hint}}
	}
	_, err = fmt.Fprintf(p.stdout, "%s", data)
	return err
}
