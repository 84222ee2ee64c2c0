package native

import "fmt"

// litertPackage returns the package of LiteRT's library with the kernels of the
// processor. The file is for CPython 3.11; the library is the same for every Python.
// METADATA has its version.
func litertPackage(system, machine string) (pinned, error) {
	if system+"/"+machine != "linux/amd64" {
		return pinned{}, fmt.Errorf("litert requires linux/amd64, got %s/%s", system, machine)
	}
	return pinned{
		name: LiteRT, version: "2.3.0", license: "Apache-2.0", system: system, machine: machine, notice: litertNotice,
		wheels:   []wheel{{"ai-edge-litert", "2.3.0", "1f15078a6725d2357d9de9221664c29afa0545d807559c5f7199ce5e40b96b23"}},
		needs:    []string{"libLiteRt.so", "METADATA"},
		patterns: []string{"libLiteRt.so", "METADATA"},
	}, nil
}
