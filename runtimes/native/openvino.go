package native

import "fmt"

// openvinoPackage returns the package of OpenVINO's libraries: those of the
// processor, and the reader of its format. The file is for CPython 3.11; the
// libraries are the same for every Python.
func openvinoPackage(system, machine string) (pinned, error) {
	if system+"/"+machine != "linux/amd64" {
		return pinned{}, fmt.Errorf("openvino requires linux/amd64, got %s/%s", system, machine)
	}
	return pinned{
		name: OpenVINO, version: "2026.4.1", license: "Apache-2.0", system: system, machine: machine, notice: openvinoNotice,
		wheels: []wheel{{OpenVINO, "2026.4.1", "2d22b1da03f7caf74df30e9f6417d0ab2f637e4a38e08e1dcd294d2c37407aaf"}},
		needs:  []string{"libopenvino_intel_cpu_plugin.so", "libtbb.so.12"},
		patterns: []string{
			"libopenvino.so.[0-9]*", "libopenvino_c.so.[0-9]*", "libopenvino_ir_frontend.so.[0-9]*", "libopenvino_intel_cpu_plugin.so",
			"libtbb.so.12", "libtbbmalloc.so.2", "libtbbbind_2_5.so.3", "libhwloc.so.15",
		},
	}, nil
}
