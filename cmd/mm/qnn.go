package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/qnn"
	"mm-abi.org/mm/workspace"
)

func (p *program) qnnInspect(c *cli.Context) error {
	chips, err := qnnfile.Chips(c.String("socs"))
	if err != nil {
		return err
	}
	v, err := qnnfile.Inspect(c.Args().First(), chips)
	return show(p, v, err, func(v qnnfile.View) error { v.WriteText(p.Stdout); return nil })
}

func (p *program) qnnExtract(c *cli.Context) error {
	x, err := qnnfile.Extract(c.Context, c.Args().First(), c.String("out"), c.Bool("force"))
	if errors.Is(err, qnnfile.ErrExists) {
		return diag.Hinted(err, "--force replaces it")
	}
	if err != nil {
		return err
	}
	if p.JSON {
		return p.PrintJSON(x)
	}
	rows := rowsOf(x.Files, func(f qnnfile.Extracted) []string {
		return []string{f.File, size(f.Bytes), short(f.Digest), fmt.Sprint(f.Offset), strings.Join(f.Graphs, ", ")}
	})
	if len(x.Left) > 0 {
		p.Note("not the complete model: the CPU runs %s", qnnfile.LeftList(x.Left))
	}
	return p.PrintTable([]string{"FILE", "SIZE", "DIGEST", "OFFSET", "GRAPHS"}, rows)
}

func (p *program) qnnWrap(c *cli.Context) error {
	w, err := qnnfile.Wrap(c.Args().First(), qnnfile.WrapOptions{Out: c.String("out"), Graph: c.String("graph"), Embed: c.Bool("embed"), Force: c.Bool("force")})
	if errors.Is(err, qnnfile.ErrExists) {
		return diag.Hinted(err, "--force replaces it")
	}
	if err != nil {
		return err
	}
	return p.PrintOr(w, func() error {
		return p.Line("%s: %s, graph %s, context in %s, %s -> %s", w.File, size(w.Bytes), w.Graph, cmp.Or(w.Context, "itself"), strings.Join(w.Inputs, ", "), strings.Join(w.Outputs, ", "))
	})
}

func (p *program) qnnCheck(c *cli.Context) error {
	chips, err := qnnfile.Chips(c.String("socs"))
	if err != nil {
		return err
	}
	t, err := htp.ParseTarget(c.String("target"), chips)
	if err != nil {
		return diag.Usagef("--target: %w", err)
	}
	if t.Chip == nil && t.Arch == 0 {
		return diag.Usage(diag.Hinted(fmt.Errorf("--target: %w, or an architecture such as v79", chips.Unknown(t.Name)), "--socs FILE adds chips"))
	}
	if t.Memory, err = fsx.ParseSize(c.String("memory")); err != nil {
		return diag.Usagef("--memory: %w", err)
	}
	t.SameArch = c.Bool("same-arch")
	if dir := c.String("libs"); dir != "" {
		set, err := htp.FindLibraries(dir)
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
		if !slices.Contains(htp.Axes(), a) {
			return diag.Usagef("--accept %s: want one of %s", a, strings.Join(htp.Axes(), ", "))
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
	return p.PrintOr(qnnfile.Compat(), func() error { return qnnfile.WriteCompat(p.Stdout) })
}

// printQNNReport prints the verdicts of a check, whose faults decide the exit code.
func (p *program) printQNNReport(r qnnfile.Report) error {
	if err := p.PrintOr(r, func() error { return errors.Join(r.WriteText(p.Stdout), p.Diagnose(p.Stderr, r.Faults)) }); err != nil {
		return err
	}
	if err := r.Faults.Err(); err != nil {
		return reported{err}
	}
	note := ""
	if len(r.Unchecked) > 0 {
		note = "; not checked: " + strings.Join(r.Unchecked, ", ")
	}
	p.Note("%s fits %s%s", r.File, r.Target, note)
	return nil
}

func (p *program) qnnProbe(c *cli.Context) error {
	e := &qnn.Engine{Home: workspace.DefaultHome, Library: c.String("libs")}
	got, err := e.Platform(c.Context)
	if err != nil {
		return err
	}
	v := qnn.DescribePlatform(got, e.Library)
	if e.Library == "" {
		home, err := workspace.DefaultHome()
		if err != nil {
			return err
		}
		r, err := native.Installed(home, native.QNN)
		if err != nil {
			return err
		}
		v.Folder = r.Dir
	}
	if p.JSON {
		return p.PrintJSON(v)
	}
	diag.Fact(p.Stdout, "backend", "%s, %s", v.Backend, v.Provider)
	diag.Fact(p.Stdout, "libraries", "%s, SDK %s", v.Folder, v.Build)
	diag.Fact(p.Stdout, "interfaces", "core %s, HTP %s, system %s", v.Core, v.HTP, v.System)
	diag.Fact(p.Stdout, "runs on", "model %d, architecture %s, %d MiB VTCM, %d devices", v.SoC, v.Arch, v.VTCM, v.Devices)
	if v.Compiler == "" {
		v.Compiler = "none: ONNX Runtime or its plugin is not installed with the libraries"
	}
	diag.Fact(p.Stdout, "compiler", "%s", v.Compiler)
	return nil
}
