package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/corpus"
	"mm-abi.org/mm/lab/corpus/croissant"
	"mm-abi.org/mm/lab/corpus/pii"
)

func (p *program) scrubCommand() *cli.Command {
	var out string
	return &cli.Command{
		Name: "scrub", Usage: "replace personal data in the lines of a text by placeholders", ArgsUsage: "FILE",
		Description: "Finds e-mail addresses, phone numbers, payment cards, IBANs, US social security numbers, IP addresses and\n" +
			"Bitcoin addresses. Names and street addresses are not found. FILE may be -, the standard input.",
		Flags: []cli.Flag{
			p.jsonFlag(),
			&cli.StringFlag{Name: "out", Required: true, Usage: "write to `FILE`", Destination: &out},
			&cli.StringSliceFlag{Name: "kinds", Usage: "`KIND` of " + kindList() + " (repeatable; default: all)"},
			&cli.Float64Flag{Name: "score", Value: pii.DefaultScore, Usage: "least score of a finding"},
			&cli.BoolFlag{Name: "spans", Usage: "write the places of the findings of each line as JSON instead"},
		},
		Action: func(c *cli.Context) error {
			var kinds []pii.Kind
			for _, k := range c.StringSlice("kinds") {
				if !slices.Contains(pii.Kinds(), pii.Kind(k)) {
					return usageError{fmt.Errorf("unknown kind %q, want one of %s", k, kindList())}
				}
				kinds = append(kinds, pii.Kind(k))
			}
			in, done, err := p.openOrStdin(c.Args().First())
			if err != nil {
				return err
			}
			defer done()
			var report *pii.Report
			err = fsx.Replace(out, 0o644, func(w io.Writer) error {
				report, err = pii.New(kinds, c.Float64("score")).Lines(w, fsx.Reader{Context: c.Context, R: in}, c.Bool("spans"))
				return err
			})
			if err != nil {
				return err
			}
			return p.printFound(report)
		},
	}
}

func kindList() string {
	var all []string
	for _, k := range pii.Kinds() {
		all = append(all, string(k))
	}
	return strings.Join(all, ", ")
}

// openOrStdin opens a file, or the standard input for -.
func (p *program) openOrStdin(file string) (io.Reader, func() error, error) {
	if file == "-" {
		return p.stdin, func() error { return nil }, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, err
	}
	return f, f.Close, nil
}

func (p *program) printFound(r *pii.Report) error {
	return p.printOr(r, func() error {
		var rows [][]string
		for _, k := range pii.Kinds() {
			if n, ok := r.Found[k]; ok {
				rows = append(rows, []string{string(k), fmt.Sprint(n)})
			}
		}
		return p.printTable([]string{"KIND", "FOUND"}, rows)
	})
}

func (p *program) croissantCommand() *cli.Command {
	var out string
	var opt croissant.ImportOptions
	outFlag := func(usage string) cli.Flag {
		return &cli.StringFlag{Name: "out", Usage: usage, Destination: &out}
	}
	return &cli.Command{
		Name: "croissant", Usage: "write and read Croissant, the metadata of data sets",
		Subcommands: []*cli.Command{{
			Name: "export", Usage: "describe a data set of mm data build in Croissant 1.1", ArgsUsage: "FOLDER",
			Flags: []cli.Flag{p.jsonFlag(), outFlag("write to `FILE` (default: croissant.json in the folder)")},
			Action: func(c *cli.Context) error {
				return p.exportCroissant(c.Args().First(), out)
			},
		}, {
			Name: "import", Usage: "convert Croissant metadata of local files to a manifest", ArgsUsage: "FILE",
			Flags: []cli.Flag{
				p.jsonFlag(), outFlag("write to `FILE` (default: NAME.data.yaml next to the metadata)"),
				&cli.StringFlag{Name: "text", Usage: "`COLUMN` of the text", Destination: &opt.Text},
				&cli.StringFlag{Name: "license", Usage: "SPDX `EXPRESSION`, if the metadata have none", Destination: &opt.License},
			},
			Action: func(c *cli.Context) error {
				return p.importCroissant(c.Args().First(), out, opt)
			},
		}},
	}
}

func (p *program) exportCroissant(dir, out string) error {
	l, err := corpus.OpenLineage(dir)
	if err != nil {
		return err
	}
	if err := l.Verify(dir); err != nil {
		return err
	}
	data, err := croissant.Export(l)
	if err != nil {
		return err
	}
	if out == "" {
		out = dir + "/" + croissant.File
	}
	if err := fsx.WriteFile(out, data, 0o644); err != nil {
		return err
	}
	return p.printLine(map[string]any{"file": out, "record_sets": len(l.Files)}, "%s: %s", out, count(len(l.Files), "record set"))
}

func (p *program) importCroissant(file, out string, opt croissant.ImportOptions) error {
	data, err := fsx.ReadFile(file, croissant.MaxBytes)
	if err != nil {
		var list diag.List
		list.Add(diag.BadCroissant, diag.Pos{File: file}, err.Error(), "")
		return list.Err()
	}
	manifest, list := croissant.Import(file, data, opt)
	if err := list.Err(); err != nil {
		return err
	}
	if out == "" {
		out = strings.TrimSuffix(file, ".json") + ".data.yaml"
	}
	if err := fsx.WriteFile(out, manifest, 0o644); err != nil {
		return err
	}
	return p.printLine(map[string]any{"file": out}, "%s", out)
}
