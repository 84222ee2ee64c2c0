package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/cmd/console"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/corpus"
	"mm-abi.org/mm/lab/corpus/pii"
)

func (p *program) dataScrub(c *cli.Context) error {
	var kinds []pii.Kind
	for _, k := range c.StringSlice("kinds") {
		if !slices.Contains(pii.Kinds(), pii.Kind(k)) {
			return diag.Usagef("unknown kind %q, want one of %s", k, joined(pii.Kinds()))
		}
		kinds = append(kinds, pii.Kind(k))
	}
	in, done, err := p.input().Open(c.Args().First())
	if err != nil {
		return err
	}
	defer done()
	var report *pii.Report
	err = fsx.Replace(c.String("out"), 0o644, func(w io.Writer) error {
		report, err = pii.New(kinds, c.Float64("score")).Lines(w, fsx.Reader{Context: c.Context, R: in}, c.Bool("spans"))
		return err
	})
	if err != nil {
		return err
	}
	return p.printFound(report)
}

func (p *program) printFound(r *pii.Report) error {
	return p.PrintOr(r, func() error {
		var rows [][]string
		for _, k := range pii.Kinds() {
			if n, ok := r.Found[k]; ok {
				rows = append(rows, []string{string(k), fmt.Sprint(n)})
			}
		}
		return p.PrintTable([]string{"KIND", "FOUND"}, rows)
	})
}

func (p *program) exportCroissant(c *cli.Context) error {
	dir, out := c.Args().First(), c.String("out")
	l, err := corpus.OpenLineage(dir)
	if err != nil {
		return err
	}
	if err := l.Verify(dir); err != nil {
		return err
	}
	data, err := corpus.ExportCroissant(l)
	if err != nil {
		return err
	}
	if out == "" {
		out = dir + "/" + corpus.CroissantFile
	}
	if err := fsx.WriteFile(out, data, 0o644); err != nil {
		return err
	}
	return p.PrintLine(map[string]any{"file": out, "record_sets": len(l.Files)}, "%s: %s", out, console.Count(len(l.Files), "record set"))
}

func (p *program) importCroissant(c *cli.Context) error {
	file, out := c.Args().First(), c.String("out")
	data, err := fsx.ReadFile(file, corpus.MaxBytes)
	if err != nil {
		var list diag.List
		list.Add(diag.BadCroissant, diag.Pos{File: file}, err.Error(), "")
		return list.Err()
	}
	manifest, list := corpus.ImportCroissant(file, data, corpus.CroissantOptions{Text: c.String("text"), License: c.String("license")})
	if err := list.Err(); err != nil {
		return err
	}
	if out == "" {
		out = strings.TrimSuffix(file, ".json") + ".data.yaml"
	}
	if err := fsx.WriteFile(out, manifest, 0o644); err != nil {
		return err
	}
	return p.PrintLine(map[string]any{"file": out}, "%s", out)
}
