package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/qnn"
	"mm-abi.org/mm/runtimes/qnn/ask"
	"mm-abi.org/mm/workspace"
)

// qnnProbed is the output of mm qnn probe.
type qnnProbed struct {
	Backend   string `json:"backend"` // "qnn" or "qnn (emulated)"
	Folder    string `json:"folder"`  // of the libraries
	Simulated bool   `json:"simulated"`
	Build     string `json:"build"`    // of the SDK
	Provider  string `json:"provider"` // reported by libQnnHtp
	Core      string `json:"core_api"`
	HTP       string `json:"htp_api"`
	System    string `json:"system_api"`
	SoC       uint32 `json:"soc_model"`
	Arch      string `json:"arch"`
	VTCM      uint32 `json:"vtcm_mib"`
	Devices   int    `json:"devices"`
	Compiler  string `json:"compiler,omitempty"` // version of ONNX Runtime, if its plugin is installed
}

func (p *program) qnnProbe(c *cli.Context) error {
	e := &qnn.Engine{Home: workspace.DefaultHome, Library: c.String("libs")}
	got, err := e.Platform(c.Context)
	if err != nil {
		return err
	}
	v := probed(got, e.Library)
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

func probed(p ask.Platform, dir string) qnnProbed {
	text := func(v ask.Version) string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }
	v := qnnProbed{
		Backend: native.QNN, Folder: dir, Simulated: p.Simulated, Build: p.Build, Provider: p.Provider, Core: text(p.Core), HTP: text(p.Backend), System: text(p.System),
		SoC: p.SoC, Arch: fmt.Sprintf("v%d", p.Arch), VTCM: p.VTCM, Devices: p.Devices, Compiler: p.Compiler,
	}
	if p.Simulated {
		v.Backend += " (emulated)"
	}
	return v
}
