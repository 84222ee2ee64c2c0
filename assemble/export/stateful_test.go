package export_test

import (
	"encoding/json"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/assemble/export/coreml"
	"mm-abi.org/mm/assemble/export/executorch"
	"mm-abi.org/mm/assemble/export/openvino"
	"mm-abi.org/mm/assemble/export/tflite"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/seed"
)

// A core takes states in the formats that have them, and a window where caches have
// one size.
func TestStateful(t *testing.T) {
	dir := t.TempDir() + "/core"
	if err := seed.Write(dir, seed.Options{Type: abi.Core, Name: "core"}); err != nil {
		t.Fatal(err)
	}
	m, list := modules.Load(dir)
	if m == nil {
		t.Fatal(list)
	}
	for _, c := range []struct {
		form    export.Form
		options string
		want    string
		code    diag.Code
	}{
		{openvino.Form{}, `{"stateful":true}`, "", ""},
		{openvino.Form{}, `{"window":64}`, "", ""},
		{openvino.Form{}, `{"stateful":true,"window":64}`, "got window 64 and positions 0, want neither", diag.BadExport},
		{openvino.Form{}, `{"stateful":true,"positions":4}`, "got window 0 and positions 4, want neither", diag.BadExport},
		{coreml.Exporter{}, `{"stateful":true,"window":64}`, "", ""},
		{executorch.Exporter{}, `{"stateful":true}`, "executorch has no states", diag.BadExport},
		{executorch.Exporter{}, `{"stateful":false}`, "", ""},
		{tflite.Exporter{}, `{"stateful":true}`, "tflite holds functions only", diag.NotLowered},
	} {
		got := export.Lowered{Form: c.form}.Check(m, builds.Export{Format: c.form.Format(), Options: json.RawMessage(c.options)})
		if c.want == "" {
			if len(got) > 0 {
				t.Errorf("%s %s: got %v", c.form.Format(), c.options, got)
			}
			continue
		}
		if len(got) != 1 || got[0].Code != c.code || !strings.Contains(got.Err().Error(), c.want) {
			t.Errorf("%s %s: got %v, want %s", c.form.Format(), c.options, got, c.want)
		}
	}
}
