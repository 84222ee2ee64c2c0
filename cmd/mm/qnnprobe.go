package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/qnn"
	"mm-abi.org/mm/runtimes/qnn/ask"
	"mm-abi.org/mm/workspace"
)

// qnnProbed is what mm qnn probe --json prints.
type qnnProbed struct {
	Backend   string `json:"backend"` // as results are named: "qnn (emulated)"
	Folder    string `json:"folder"`  // of the libraries
	Simulated bool   `json:"simulated"`
	Build     string `json:"build"`    // of the SDK
	Provider  string `json:"provider"` // what libQnnHtp calls itself
	Core      string `json:"core_api"`
	HTP       string `json:"htp_api"`
	System    string `json:"system_api"`
	SoC       uint32 `json:"soc_model"`
	Arch      string `json:"arch"`
	VTCM      uint32 `json:"vtcm_mib"`
	Devices   int    `json:"devices"`
	Compiler  string `json:"compiler,omitempty"` // version of ONNX Runtime beside its plugin
}

func (p *program) qnnProbe(c *cli.Context) error {
	if err := wantArgs(c, 0, 0); err != nil {
		return err
	}
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
	p.fact("backend", "%s, %s", v.Backend, v.Provider)
	p.fact("libraries", "%s, SDK %s", v.Folder, v.Build)
	p.fact("interfaces", "core %s, HTP %s, system %s", v.Core, v.HTP, v.System)
	p.fact("runs on", "model %d, architecture %s, %d MiB VTCM, %d devices", v.SoC, v.Arch, v.VTCM, v.Devices)
	if v.Compiler == "" {
		v.Compiler = "none: ONNX Runtime or its plugin is not beside the libraries"
	}
	p.fact("compiler", "%s", v.Compiler)
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
