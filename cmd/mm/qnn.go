package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/core/htp"
	"mm-abi.org/mm/core/htp/fit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules/qnnfile"
)

func (p *program) qnnCommand() *cli.Command {
	socs := &cli.StringFlag{Name: "socs", Usage: "table of chips of your own, a CSV `FILE` whose rows come before ours"}
	force := &cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Usage: "replace files that are there"}
	return &cli.Command{
		Name: "qnn", Usage: "look at files compiled for Qualcomm's NPUs, say where they run, and ask the libraries",
		Description: "Context binaries, LiteRT models compiled ahead of time (.tflite), ONNX models around a context\n(_ctx.onnx), containers of the converter (.dlc). None of it needs Qualcomm's SDK or a device.",
		Subcommands: []*cli.Command{
			{
				Name: "inspect", Usage: "show what a file is made of", ArgsUsage: "FILE",
				Description: "The chip, the SDK, the versions of the interfaces, graphs, inputs and outputs. Of gigabytes of\nweights nothing is read.",
				Flags:       []cli.Flag{p.jsonFlag(), socs}, Action: p.qnnInspect,
			}, {
				Name: "extract", Usage: "take the contexts out of a model", ArgsUsage: "FILE",
				Flags: []cli.Flag{p.jsonFlag(), &cli.StringFlag{Name: "out", Aliases: []string{"o"}, Value: ".", Usage: "`FOLDER` to write to"}, force}, Action: p.qnnExtract,
			}, {
				Name: "wrap", Usage: "make an ONNX model around a context", ArgsUsage: "FILE",
				Description: "ONNX Runtime's provider for QNN runs it. The context stays beside the model, or goes into it.",
				Flags: []cli.Flag{
					p.jsonFlag(),
					&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "`FILE` to write", Required: true},
					&cli.StringFlag{Name: "graph", Usage: "`NAME` of the context's graph, where it has several"},
					&cli.BoolFlag{Name: "embed", Usage: "put the context into the model"}, force,
				},
				Action: p.qnnWrap,
			}, p.qnnCompileCommand(), {
				Name: "check", Usage: "say whether a file fits a target, axis by axis", ArgsUsage: "FILE",
				Description: "Each axis fits, does not, or is unknown; exit code 3 unless all fit. What is unknown passes only\nwhere --accept names its axis: " + strings.Join(fit.Axes(), ", ") + ".",
				Flags: []cli.Flag{
					p.jsonFlag(), socs,
					&cli.StringFlag{Name: "target", Aliases: []string{"t"}, Usage: "`CHIP@SDK`, such as SM8750@2.47, soc:69@2.47 or v79@2.47", Required: true},
					&cli.StringFlag{Name: "libs", Usage: "`FOLDER` with the target's QNN libraries"},
					&cli.StringFlag{Name: "memory", Usage: "what the target gives, such as 12GiB"},
					&cli.BoolFlag{Name: "same-arch", Usage: "take a context for another chip of the same architecture"},
					&cli.StringSliceFlag{Name: "accept", Usage: "`AXIS` that may be unknown (repeatable, or with commas)"},
				},
				Action: p.qnnCheck,
			}, {
				Name: "soc", Usage: "the table of chips",
				Subcommands: []*cli.Command{{Name: "ls", Aliases: []string{"list"}, Usage: "list the chips that are known", Flags: []cli.Flag{p.jsonFlag(), socs}, Action: p.qnnSoCs}},
			}, {
				Name: "compat", Usage: "which versions belong together", Flags: []cli.Flag{p.jsonFlag()}, Action: p.qnnCompat,
			}, {
				Name: "probe", Usage: "ask the libraries that are installed what they are and where they run",
				Description: "On a PC they emulate an NPU, always the same one, and say so: what they compute says nothing about a\ndevice. mm runtime install qnn puts them there.",
				Flags:       []cli.Flag{p.jsonFlag(), &cli.StringFlag{Name: "libs", Usage: "`FOLDER` with libraries to ask instead"}}, Action: p.qnnProbe,
			},
		},
	}
}

func (p *program) qnnInspect(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
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
	p.printQNN(v)
	return nil
}

func (p *program) qnnExtract(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
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
	var rows [][]string
	for _, f := range x.Files {
		rows = append(rows, []string{f.File, size(f.Bytes), short(f.Digest), fmt.Sprint(f.Offset), strings.Join(f.Graphs, ", ")})
	}
	if len(x.Left) > 0 {
		p.say("these are not the whole model: the processor runs %s", leftOf(x.Left))
	}
	return p.printTable([]string{"FILE", "SIZE", "DIGEST", "OFFSET", "GRAPHS"}, rows)
}

func (p *program) qnnWrap(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
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
	fmt.Fprintln(p.stdout, diag.Printable(fmt.Sprintf("%s: %s, graph %s, the context %s, %s -> %s", w.File, size(w.Bytes), w.Graph, where, strings.Join(w.Inputs, ", "), strings.Join(w.Outputs, ", "))))
	return nil
}

func (p *program) qnnCheck(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	chips, err := qnnfile.Chips(c.String("socs"))
	if err != nil {
		return err
	}
	t, err := fit.ParseTarget(c.String("target"), chips)
	if err != nil {
		return usageError{fmt.Errorf("--target: %w", err)}
	}
	if t.Memory, err = bytesOf(c.String("memory")); err != nil {
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
	opt := qnnfile.CheckOptions{Target: t}
	for _, s := range c.StringSlice("accept") {
		opt.Accept = append(opt.Accept, strings.Split(s, ",")...)
	}
	for _, a := range opt.Accept {
		if !slices.Contains(fit.Axes(), a) {
			return usageError{fmt.Errorf("--accept %s: it is one of %s", a, strings.Join(fit.Axes(), ", "))}
		}
	}
	r, err := qnnfile.Check(c.Args().First(), opt)
	if err != nil {
		return err
	}
	return p.printQNNReport(r)
}

func (p *program) qnnSoCs(c *cli.Context) error {
	if err := wantArgs(c, 0, 0); err != nil {
		return err
	}
	chips, err := qnnfile.Chips(c.String("socs"))
	if err != nil {
		return err
	}
	list := qnnfile.ChipViews(chips)
	if p.json {
		return p.printJSON(list)
	}
	var rows [][]string
	for _, x := range list {
		vtcm := ""
		if x.VTCM > 0 {
			vtcm = fmt.Sprintf("%d MiB", x.VTCM>>20)
		}
		rows = append(rows, []string{x.Name, fmt.Sprint(x.Model), x.Arch, vtcm, x.Source})
	}
	return p.printTable([]string{"SOC", "MODEL", "HTP", "VTCM", "SOURCE"}, rows)
}

func (p *program) qnnCompat(c *cli.Context) error {
	if err := wantArgs(c, 0, 0); err != nil {
		return err
	}
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
	var rows [][]string
	for _, s := range fit.SDKs() {
		rows = append(rows, []string{fmt.Sprintf("%d.%d", s.Version.Major, s.Version.Minor), shown(s.Core), shown(s.Backend), shown(s.System), shown(s.Blob), s.Source})
	}
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
