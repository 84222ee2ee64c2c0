package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/onnx/htp/fit"
)

func (p *program) qnnCommand() *cli.Command {
	socs := &cli.StringFlag{Name: "socs", Usage: "CSV `FILE` with additional chips, which take precedence over the built-in table"}
	force := &cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Usage: "replace existing files"}
	return &cli.Command{
		Name: "qnn", Usage: "inspect, check and compile files for Qualcomm NPUs",
		Description: "Supports context binaries, LiteRT models compiled ahead of time (.tflite), ONNX models around a\n" +
			"context (_ctx.onnx) and converter containers (.dlc). Neither Qualcomm's SDK nor a device is\n" +
			"required.",
		Subcommands: []*cli.Command{
			{
				Name: "inspect", Usage: "show the contents of a file", ArgsUsage: "FILE",
				Description: "Shows the chip, the SDK, the versions of the interfaces, and graphs with inputs and outputs.\n" +
					"Weights are not read.",
				Flags: []cli.Flag{p.jsonFlag(), socs}, Action: p.qnnInspect,
			}, {
				Name: "extract", Usage: "extract the contexts of a model", ArgsUsage: "FILE",
				Flags: []cli.Flag{p.jsonFlag(), &cli.StringFlag{Name: "out", Aliases: []string{"o"}, Value: ".", Usage: "`FOLDER` to write to"}, force}, Action: p.qnnExtract,
			}, {
				Name: "wrap", Usage: "wrap a context in an ONNX model", ArgsUsage: "FILE",
				Description: "The model runs with the QNN provider of ONNX Runtime. It refers to the context, or with --embed\n" +
					"contains it.",
				Flags: []cli.Flag{
					p.jsonFlag(),
					&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "`FILE` to write", Required: true},
					&cli.StringFlag{Name: "graph", Usage: "`NAME` of the graph in the context; required if it has several"},
					&cli.BoolFlag{Name: "embed", Usage: "embed the context in the model"}, force,
				},
				Action: p.qnnWrap,
			}, p.qnnCompileCommand(), {
				Name: "check", Usage: "check axis by axis whether a file fits a target", ArgsUsage: "FILE",
				Description: "Each axis fits, does not fit, or is unknown; exit code 3 unless all fit. An unknown axis passes\nonly if --accept names it. Without --libs and --memory, skel and memory are not checked. Axes: " + strings.Join(fit.Axes(), ", ") + ".",
				Flags: []cli.Flag{
					p.jsonFlag(), socs,
					&cli.StringFlag{Name: "target", Aliases: []string{"t"}, Usage: "`CHIP@SDK`, such as SM8750@2.47, soc:69@2.47 or v79@2.47", Required: true},
					&cli.StringFlag{Name: "libs", Usage: "`FOLDER` with the target's QNN libraries"},
					&cli.StringFlag{Name: "memory", Usage: "memory of the target, such as 12GiB"},
					&cli.BoolFlag{Name: "same-arch", Usage: "accept a context for another chip of the same architecture"},
					&cli.StringSliceFlag{Name: "accept", Usage: "`AXIS` that may be unknown (repeatable, or separated by commas)"},
				},
				Action: p.qnnCheck,
			}, {
				Name: "soc", Usage: "show the table of chips",
				Subcommands: []*cli.Command{{Name: "ls", Aliases: []string{"list"}, Usage: "list the known chips", Flags: []cli.Flag{p.jsonFlag(), socs}, Action: p.qnnSoCs}},
			}, {
				Name: "compat", Usage: "show which versions are compatible", Flags: []cli.Flag{p.jsonFlag()}, Action: p.qnnCompat,
			}, {
				Name: "probe", Usage: "show the properties of the installed libraries",
				Description: "On a PC, the libraries emulate a fixed NPU; their results are not evidence about a device. mm\n" +
					"runtime install qnn installs them.",
				Flags: []cli.Flag{p.jsonFlag(), &cli.StringFlag{Name: "libs", Usage: "`FOLDER` of the libraries (default: the installed ones)"}}, Action: p.qnnProbe,
			},
		},
	}
}

func (p *program) qnnInspect(c *cli.Context) error {
	chips, err := qnnfile.Chips(c.String("socs"))
	if err != nil {
		return err
	}
	v, err := qnnfile.Inspect(c.Args().First(), chips)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(v)
	}
	v.WriteText(p.stdout)
	return nil
}

func (p *program) qnnExtract(c *cli.Context) error {
	x, err := qnnfile.Extract(c.Context, c.Args().First(), c.String("out"), c.Bool("force"))
	if errors.Is(err, qnnfile.ErrExists) {
		return hinted{err, "--force replaces it"}
	}
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(x)
	}
	rows := rowsOf(x.Files, func(f qnnfile.Extracted) []string {
		return []string{f.File, size(f.Bytes), short(f.Digest), fmt.Sprint(f.Offset), strings.Join(f.Graphs, ", ")}
	})
	if len(x.Left) > 0 {
		p.say("not the complete model: the CPU runs %s", qnnfile.LeftList(x.Left))
	}
	return p.printTable([]string{"FILE", "SIZE", "DIGEST", "OFFSET", "GRAPHS"}, rows)
}

func (p *program) qnnWrap(c *cli.Context) error {
	w, err := qnnfile.Wrap(c.Args().First(), qnnfile.WrapOptions{Out: c.String("out"), Graph: c.String("graph"), Embed: c.Bool("embed"), Force: c.Bool("force")})
	if errors.Is(err, qnnfile.ErrExists) {
		return hinted{err, "--force replaces it"}
	}
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(w)
	}
	where := "in itself"
	if w.Context != "" {
		where = "in " + w.Context
	}
	fmt.Fprintln(p.stdout, diag.Printable(fmt.Sprintf("%s: %s, graph %s, context %s, %s -> %s", w.File, size(w.Bytes), w.Graph, where, strings.Join(w.Inputs, ", "), strings.Join(w.Outputs, ", "))))
	return nil
}

func (p *program) qnnCheck(c *cli.Context) error {
	chips, err := qnnfile.Chips(c.String("socs"))
	if err != nil {
		return err
	}
	t, err := fit.ParseTarget(c.String("target"), chips)
	if err != nil {
		return usageError{fmt.Errorf("--target: %w", err)}
	}
	if t.Chip == nil && t.Arch == 0 {
		return usageError{hinted{fmt.Errorf("--target: %w, or an architecture such as v79", chips.Unknown(t.Name)), "--socs FILE adds chips"}}
	}
	if t.Memory, err = fsx.ParseSize(c.String("memory")); err != nil {
		return usageError{fmt.Errorf("--memory: %w", err)}
	}
	t.SameArch = c.Bool("same-arch")
	if dir := c.String("libs"); dir != "" {
		set, err := fit.FindLibraries(dir)
		if err != nil {
			return err
		}
		t.Libs = &set
	}
	opt := qnnfile.CheckOptions{Target: t, Partial: true}
	for _, s := range c.StringSlice("accept") {
		opt.Accept = append(opt.Accept, strings.Split(s, ",")...)
	}
	for _, a := range opt.Accept {
		if !slices.Contains(fit.Axes(), a) {
			return usageError{fmt.Errorf("--accept %s: want one of %s", a, strings.Join(fit.Axes(), ", "))}
		}
	}
	r, err := qnnfile.Check(c.Args().First(), opt)
	if err != nil {
		return err
	}
	return p.printQNNReport(r)
}

func (p *program) qnnSoCs(c *cli.Context) error {
	chips, err := qnnfile.Chips(c.String("socs"))
	if err != nil {
		return err
	}
	list := qnnfile.ChipViews(chips)
	return printRows(p, list, []string{"SOC", "MODEL", "HTP", "VTCM", "SOURCE"}, func(x qnnfile.Chip) []string {
		vtcm := ""
		if x.VTCM > 0 {
			vtcm = fmt.Sprintf("%d MiB", x.VTCM>>20)
		}
		return []string{x.Name, fmt.Sprint(x.Model), x.Arch, vtcm, x.Source}
	})
}

func (p *program) qnnCompat(c *cli.Context) error {
	v := qnnfile.Compat()
	if p.json {
		return p.printJSON(v)
	}
	shown := func(v htp.Version) string {
		if v == (htp.Version{}) {
			return "?"
		}
		return v.String()
	}
	rows := rowsOf(fit.SDKs(), func(s fit.SDK) []string {
		return []string{fmt.Sprintf("%d.%d", s.Version.Major, s.Version.Minor), shown(s.Core), shown(s.Backend), shown(s.System), shown(s.Blob), s.Source}
	})
	if err := p.printTable([]string{"SDK", "CORE API", "HTP API", "SYSTEM", "BLOB", "SOURCE"}, rows); err != nil {
		return err
	}
	fmt.Fprintln(p.stdout)
	rows = nil
	for _, t := range fit.Tools() {
		rows = append(rows, []string{t.Name, t.Version, t.SDK.String(), t.With, t.Source})
	}
	return p.printTable([]string{"TOOL", "VERSION", "SDK", "WITH", "SOURCE"}, rows)
}

// printQNNReport prints the verdicts of a check, whose faults decide the exit code.
func (p *program) printQNNReport(r qnnfile.Report) error {
	if p.json {
		if err := p.printJSON(r); err != nil {
			return err
		}
	} else {
		for _, c := range r.Contexts {
			var rows [][]string
			for _, a := range c.Axes {
				verdict := string(a.Verdict)
				if a.Accepted {
					verdict = string(fit.Unknown) + ", accepted"
				}
				rows = append(rows, []string{a.Name, verdict, a.File, a.Target})
			}
			if err := p.printTable([]string{c.Name, "VERDICT", "FILE", r.Target}, rows); err != nil {
				return err
			}
		}
		p.tell(p.stderr, r.Faults)
	}
	if err := r.Faults.Err(); err != nil {
		return reported{err}
	}
	note := ""
	if len(r.Unchecked) > 0 {
		note = "; not checked: " + strings.Join(r.Unchecked, ", ")
	}
	p.say("%s fits %s%s", r.File, r.Target, note)
	return nil
}
