package quantize

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/builds/resolve"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/modelpack"
)

// packed is a seeded core in a store.
func packed(t *testing.T, edit func(manifest string) string) (*resolve.Module, export.Sink) {
	t.Helper()
	return packedWith(t, nil, edit)
}

// packedWith is the same with more files.
func packedWith(t *testing.T, files map[string][]byte, edit func(manifest string) string) (*resolve.Module, export.Sink) {
	t.Helper()
	dir := t.TempDir()
	if err := seed.Write(filepath.Join(dir, "core"), seed.Options{Type: abi.Core, Name: "core", DModel: 64}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "core", "module.yaml")
	data, err := os.ReadFile(file)
	if len(files) > 0 {
		data = append(data, "\nfiles:\n"...)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		data = fmt.Appendf(data, "  - {path: %s, sha256: %x, size: %d}\n", name, sha256.Sum256(files[name]), len(files[name]))
		if err := os.WriteFile(filepath.Join(dir, "core", name), files[name], 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if edit != nil {
		data = []byte(edit(string(data)))
	}
	if err == nil {
		err = os.WriteFile(file, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	m, list := modules.Load(file)
	if m == nil {
		t.Fatal(list)
	}
	for _, e := range m.Export {
		for _, path := range e.With {
			if err := os.WriteFile(filepath.Join(dir, "core", path), []byte(path), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	store, err := registry.Open(filepath.Join(dir, "store"), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	artifact, desc, err := modelpack.Pack(context.Background(), store, m)
	if err != nil {
		t.Fatal(err)
	}
	r := &resolve.Module{Manifest: m, Artifact: artifact, Descriptor: desc}
	return r, export.Sink{Store: store, Cache: filepath.Join(dir, "cache")}
}

// Every precision produces a file of its type, the same a second time, and one
// that already has the type is unchanged.
func TestExport(t *testing.T) {
	m, out := packed(t, nil)
	src, _ := m.Layer("core.gguf")
	for precision, want := range map[string]tensor.Type{
		"fp32": tensor.F32, "fp16": tensor.F16, "bf16": tensor.BF16, "int8": tensor.Q8_0, "Q4_0": tensor.Q4_0, "q8_0": tensor.Q8_0,
	} {
		layers, notes, err := Exporter{}.Export(t.Context(), m, builds.Export{Precision: precision}, out)
		if err != nil || len(layers) != 1 || layers[0].Path != "core.gguf" {
			t.Fatal(precision, layers, err)
		}
		f, err := gguf.Open(out.Store.BlobPath(layers[0].Descriptor))
		if err != nil {
			t.Fatal(err)
		}
		if tensor, ok := f.Tensor("blk.0.attn_q.weight"); !ok || tensor.Type != want {
			t.Errorf("%s gives %v", precision, tensor)
		}
		f.Close()
		if same := layers[0].Descriptor.Digest == src.Descriptor.Digest; same != (precision == "fp16") {
			t.Errorf("%s: the file itself: %v", precision, same)
		}
		again, notesAgain, err := Exporter{}.Export(t.Context(), m, builds.Export{Precision: precision}, out)
		if d := cmp.Diff(layers, again); err != nil || d != "" || !cmp.Equal(notes, notesAgain) {
			t.Errorf("%s: %s %v", precision, d, err)
		}
	}
	// A row of 64 is not a multiple of the block size 256, which is reported.
	_, notes, err := Exporter{}.Export(t.Context(), m, builds.Export{Precision: "int4"}, out)
	if err != nil || len(notes) == 0 || !strings.Contains(strings.Join(notes, "\n"), "use Q5_0, because Q4_K needs row lengths divisible by 256 (got 64)") {
		t.Errorf("%v, %v", notes, err)
	}
	if _, _, err := (Exporter{}).Export(t.Context(), m, builds.Export{Precision: "int3"}, out); err == nil {
		t.Error("int3")
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, _, err := (Exporter{}).Export(stopped, m, builds.Export{Precision: "Q6_K"}, export.Sink{Store: out.Store}); err == nil {
		t.Error("went on after its end")
	}
}

// Without a precision the files stay as they are: one under the module's name,
// several under their own.
func TestAsItIs(t *testing.T) {
	m, out := packed(t, func(s string) string { return strings.Replace(s, "name: core\n", "name: other\n", 1) })
	layers, notes, err := Exporter{}.Export(t.Context(), m, builds.Export{}, out)
	src, _ := m.Layer("core.gguf")
	if err != nil || len(layers) != 1 || layers[0].Path != "other.gguf" || layers[0].Descriptor.Digest != src.Descriptor.Digest || notes != nil {
		t.Errorf("%+v, %v, %v", layers, notes, err)
	}
	m, out = packed(t, func(s string) string {
		return strings.Replace(s, "gguf: core.gguf", "gguf: {path: core.gguf, with: [more.gguf]}", 1)
	})
	layers, _, err = Exporter{}.Export(t.Context(), m, builds.Export{}, out)
	if err != nil || len(layers) != 2 || layers[0].Path != "core.gguf" || layers[1].Path != "more.gguf" {
		t.Errorf("%+v, %v", layers, err)
	}
}

func TestCheck(t *testing.T) {
	with := func(supported ...string) *modules.Manifest {
		m := &modules.Manifest{Name: "m", Version: "1.0.0", Export: map[abi.Format]modules.Export{abi.GGUF: {Path: "m.gguf"}}}
		if supported != nil {
			m.Quant = &modules.Quant{Supported: supported}
		}
		return m
	}
	none, several := with(), with()
	none.Export = nil
	several.Export[abi.GGUF] = modules.Export{Path: "a", With: []string{"b"}}
	for _, tc := range []struct {
		m         *modules.Manifest
		precision string
		options   string
		want      []diag.Code
	}{
		{with(), "", "", nil},
		{with(), "int4", "", nil},
		{with(), "Q6_K", "", nil},
		{with(), "Q3_K", "", []diag.Code{diag.QuantUnknown}},
		{with(), "int8", "{}", nil},
		{with(), "int8", `{"imatrix": "m.gguf"}`, nil}, // a file of the module; checked when read
		{with(), "", `{"imatrix": "m.gguf"}`, []diag.Code{diag.BadExport}},
		{with(), "int8", `{"imatrix": "other"}`, []diag.Code{diag.BadExport}},
		{with(), "int8", `{"imatrix": 3}`, []diag.Code{diag.BadExport}},
		{with(), "int8", `{"groups": 32}`, []diag.Code{diag.BadExport}},
		{none, "int8", "", []diag.Code{diag.NotExported}},
		{several, "", "", nil},
		{several, "int8", "", []diag.Code{diag.ExportFailed}},
		{with("int8"), "int8", "", nil},
		{with("int8"), "INT8", "", nil},
		{with("int8"), "int4", "", []diag.Code{diag.QuantUnknown}},
		{with("int8"), "Q8_0", "", nil},
		{with("int8"), "Q6_K", "", []diag.Code{diag.QuantUnknown}},
		{with("int4"), "Q6_K", "", nil},
		{with("int4"), "Q4_0", "", nil},
		{with("int4"), "int8", "", []diag.Code{diag.QuantUnknown}},
		{with("int4"), "Q8_0", "", []diag.Code{diag.QuantUnknown}},
		{with("Q4_0"), "Q4_0", "", nil},
		{with("Q4_0"), "q4_0", "", nil},
		{with("Q4_0"), "int4", "", []diag.Code{diag.QuantUnknown}},
		{with("fp16"), "BF16", "", []diag.Code{diag.QuantUnknown}},
	} {
		e := builds.Export{Precision: tc.precision}
		if tc.options != "" {
			e.Options = []byte(tc.options)
		}
		var got []diag.Code
		for _, d := range (Exporter{}).Check(tc.m, e) {
			got = append(got, d.Code)
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%v as %q: %s", tc.m.Quant, tc.precision, d)
		}
	}
	for name, tc := range map[string]struct {
		e    builds.Export
		want string
	}{
		"rtn":               {builds.Export{Method: "rtn"}, ""},
		"gptq":              {builds.Export{Method: "gptq", Calibration: "t"}, ""},
		"gptq by a matrix":  {builds.Export{Method: "gptq", Imatrix: "t"}, "gptq requires a calibration text"},
		"awq":               {builds.Export{Method: "awq", Imatrix: "t"}, ""},
		"awq of nothing":    {builds.Export{Method: "awq"}, "awq requires"},
		"awq by the module": {builds.Export{Method: "awq", Options: []byte(`{"imatrix": "m.gguf"}`)}, ""},
		"two matrices":      {builds.Export{Imatrix: "t", Options: []byte(`{"imatrix": "m.gguf"}`)}, "remove one"},
		"less than none":    {builds.Export{Options: []byte(`{"windows": -1}`)}, "windows is -1"},
	} {
		tc.e.Precision = "int8"
		list := (Exporter{}).Check(with(), tc.e)
		if tc.want == "" && len(list) > 0 || tc.want != "" && (len(list) != 1 || list[0].Code != diag.BadExport || !strings.Contains(list[0].Detail+list[0].Hint, tc.want)) {
			t.Errorf("%s: %v, want %q", name, list, tc.want)
		}
	}
	if (Exporter{}).Format() != abi.GGUF {
		t.Error("another format")
	}
}

// A calibration's inputs distinguish it from every other, so that no result of
// one is remembered for another.
func TestCalibrationString(t *testing.T) {
	a, b := &export.GraphFile{Digest: "sha256:a"}, &export.GraphFile{Digest: "sha256:b"}
	seen := map[string]int{}
	for i, c := range []Calibration{
		{}, {Method: AWQ, Imatrix: a}, {Method: AWQ, Text: a}, {Method: AWQ, Text: b}, {Method: GPTQ, Text: a}, {Imatrix: a}, {Imatrix: a, Text: b},
		{Text: a, Separator: "x"}, {Text: a, Separator: "x", Windows: 2}, {Text: a, Windows: 2},
	} {
		if other, ok := seen[c.String()]; ok {
			t.Errorf("%d and %d are both %q", other, i, c)
		}
		seen[c.String()] = i
	}
	if (Calibration{Method: Nearest}).String() != "" {
		t.Error("to the nearest is as without a method")
	}
}

// Convert writes what Export does.
func TestConvert(t *testing.T) {
	m, out := packed(t, nil)
	layers, _, err := Exporter{}.Export(t.Context(), m, builds.Export{Precision: "int8"}, out)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(out.Store.BlobPath(layers[0].Descriptor))
	if err != nil {
		t.Fatal(err)
	}
	f, l, err := out.Open(t.Context(), m, "core.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	recipe, err := Recipe("int8")
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if _, err := Convert(t.Context(), f, l.Descriptor.Size, ConvertOptions{Recipe: recipe}, &got); err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%v, %d bytes against %d", err, got.Len(), len(want))
	}
	if _, err := Convert(t.Context(), strings.NewReader("no gguf"), 7, ConvertOptions{Recipe: recipe}, &got); err == nil {
		t.Error("converted what is no GGUF")
	}
}
