package native

import (
	"strings"
	"testing"
)

// OpenVINO's package has the libraries of the processor only, for one machine.
func TestOpenVINO(t *testing.T) {
	p, err := packageOf(OpenVINO, "linux", "amd64")
	if err != nil || p.spec() != "openvino==2026.4.1" || p.bound {
		t.Fatalf("got %+v, %v", p, err)
	}
	for name, want := range map[string]bool{
		"openvino/libs/libopenvino.so.2641": true, "openvino/libs/libopenvino_c.so.2641": true, "openvino/libs/libopenvino_ir_frontend.so.2641": true,
		"openvino/libs/libopenvino_intel_cpu_plugin.so": true, "openvino/libs/libtbb.so.12": true, "openvino/libs/libopenvino_intel_gpu_plugin.so": false,
		"openvino/libs/libopenvino_onnx_frontend.so.2641": false, "openvino/__init__.py": false,
	} {
		if take, legal := p.wants(name); take != want || legal {
			t.Errorf("%s: got %v, want %v", name, take, want)
		}
	}
	if _, err := packageOf(OpenVINO, "darwin", "arm64"); err == nil || !strings.Contains(err.Error(), "linux/amd64") {
		t.Errorf("another machine: %v", err)
	}
	if err := needed(p, map[string]string{"libtbb.so.12": ""}); err == nil {
		t.Error("a package without the plugin is accepted")
	}
}
