package qnn

import (
	"fmt"

	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/qnn/ask"
)

// PlatformReport is the output of mm qnn probe.
type PlatformReport struct {
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

// DescribePlatform returns the report of a platform whose libraries are in dir.
func DescribePlatform(p ask.Platform, dir string) PlatformReport {
	text := func(v ask.Version) string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }
	v := PlatformReport{
		Backend: native.QNN, Folder: dir, Simulated: p.Simulated, Build: p.Build, Provider: p.Provider, Core: text(p.Core), HTP: text(p.Backend), System: text(p.System),
		SoC: p.SoC, Arch: fmt.Sprintf("v%d", p.Arch), VTCM: p.VTCM, Devices: p.Devices, Compiler: p.Compiler,
	}
	if p.Simulated {
		v.Backend += " (emulated)"
	}
	return v
}
