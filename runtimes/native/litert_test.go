package native

import (
	"strings"
	"testing"
)

// LiteRT's package has one library and its version, for one machine.
func TestLiteRT(t *testing.T) {
	p, err := packageOf(LiteRT, "linux", "amd64")
	if err != nil || p.spec() != "ai-edge-litert==2.3.0" || p.bound {
		t.Fatalf("got %+v, %v", p, err)
	}
	for name, want := range map[string]bool{
		"ai_edge_litert/libLiteRt.so": true, "ai_edge_litert-2.3.0.dist-info/METADATA": true, "ai_edge_litert/libLiteRtWebGpuAccelerator.so": false,
		"ai_edge_litert/libpywrap_litert_common.so": false, "ai_edge_litert/interpreter.py": false,
		"ai_edge_litert/vendors/qualcomm/compiler/libLiteRtCompilerPlugin_Qualcomm.so": false,
	} {
		if take, legal := p.wants(name); take != want || legal {
			t.Errorf("%s: got %v, want %v", name, take, want)
		}
	}
	if _, err := packageOf(LiteRT, "linux", "arm64"); err == nil || !strings.Contains(err.Error(), "linux/amd64") {
		t.Errorf("another machine: %v", err)
	}
	for _, missing := range p.needs {
		files := map[string]string{"libLiteRt.so": "a", "METADATA": "b"}
		delete(files, missing)
		if err := needed(p, files); err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("without %s: %v", missing, err)
		}
	}
}
