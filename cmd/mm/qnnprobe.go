package main

import (
	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/qnn"
	"mm-abi.org/mm/workspace"
)

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
	if p.json {
		return p.printJSON(v)
	}
	diag.Fact(p.stdout, "backend", "%s, %s", v.Backend, v.Provider)
	diag.Fact(p.stdout, "libraries", "%s, SDK %s", v.Folder, v.Build)
	diag.Fact(p.stdout, "interfaces", "core %s, HTP %s, system %s", v.Core, v.HTP, v.System)
	diag.Fact(p.stdout, "runs on", "model %d, architecture %s, %d MiB VTCM, %d devices", v.SoC, v.Arch, v.VTCM, v.Devices)
	if v.Compiler == "" {
		v.Compiler = "none: ONNX Runtime or its plugin is not installed with the libraries"
	}
	diag.Fact(p.stdout, "compiler", "%s", v.Compiler)
	return nil
}
