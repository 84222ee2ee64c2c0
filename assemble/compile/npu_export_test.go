package compile_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/compile"
	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/builds/resolve"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/modelpack"
)

const manifest = `name: enc
version: 1.0.0
type: encoder
modality: image
abi: mm-abi-1.0
license: MIT
inputs: [{name: image, shape: [H, W, 3], dtype: uint8}]
outputs: [{name: tokens, shape: [T_enc, D_enc], dtype: fp16}]
export: {onnx: enc.onnx}
files:
  - {path: enc.onnx, sha256: 65c74c15a686187bb6bbf9958f494fc6b80068034a659a9ad44991b08c58f2d2, size: 1}
  - {path: golden/image.npy, sha256: 2cea274d0bedc39ec4ab6ba9e59ec889e3ed6fb56a1cf088a64d9b383378dc97, size: 7}
`

// compiler records its requests and counts them.
type compiler struct {
	sdk   string
	calls *int
}

func (c compiler) SDK(context.Context) (string, error) {
	if c.sdk == "" {
		return "", errors.New("no libraries")
	}
	return c.sdk, nil
}

func (compiler) Precisions() []string { return []string{"fp16", "w8a8"} }

func (c compiler) Compile(_ context.Context, job compile.Job) ([]byte, error) {
	*c.calls++
	if job.Language {
		record := fmt.Sprintf(`{"source":"sha256:11","soc":%q,"precision":"fp16","language":{"positions":%d,"window":%d}}`, job.Chip.Name, job.Positions, job.Window)
		return []byte(record), os.WriteFile(job.Out, []byte(fmt.Sprint(filepath.Base(job.Out), len(job.Golden))), 0o644)
	}
	golden, err := os.ReadFile(job.Golden["image"])
	if err != nil {
		return nil, err
	}
	for _, path := range job.More {
		more, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		golden = append(append(golden, '+'), more...)
	}
	text := fmt.Sprintf("%s for %d as %q of %s", golden, job.Chip.Model, job.Precision, c.sdk)
	record := fmt.Sprintf(`{"source":"sha256:00","soc":%q,"arch":%q,"sdk":%q,"precision":"w8a8","cosine":0.9876,"simulated":true,"kept":[{"op":"Sqrt","why":"so","nodes":["a","b"]}]}`, job.Chip.Name, job.Chip.Arch, c.sdk)
	return []byte(record), os.WriteFile(job.Out, []byte(text), 0o644)
}

// packed is the module in a store.
func packed(t *testing.T, text string) (*resolve.Module, *registry.Store, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"module.yaml": text, "enc.onnx": "o", "golden/image.npy": "picture", "golden/b.npz": "second", "golden/a.npz": "first", "golden/deep/c.npz": "third"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	store, err := registry.Open(filepath.Join(dir, "store"), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	m, list := modules.Load(dir)
	if m == nil {
		t.Fatal(list)
	}
	artifact, desc, err := modelpack.Pack(t.Context(), store, m)
	if err != nil {
		t.Fatal(err)
	}
	return &resolve.Module{Manifest: m, Artifact: artifact, Descriptor: desc}, store, t.TempDir()
}

// Archives in the golden folder, and no others, are inputs as well, in the order
// of their names.
func TestSets(t *testing.T) {
	sum := func(path, text string) string {
		return fmt.Sprintf("  - {path: %s, sha256: %x, size: %d}\n", path, sha256.Sum256([]byte(text)), len(text))
	}
	calls := 0
	for text, more := range map[string]string{
		"picture":              "",
		"picture+second":       sum("golden/b.npz", "second") + sum("golden/deep/c.npz", "third"),
		"picture+first+second": sum("golden/b.npz", "second") + sum("golden/a.npz", "first"),
	} {
		m, store, cache := packed(t, manifest+more)
		layers, _, err := compile.NPU{Compiler: compiler{"v2.51", &calls}}.Export(t.Context(), m, builds.Export{Format: abi.QNN, Options: json.RawMessage(`{"soc":"SM8750"}`)}, export.Sink{Store: store, Cache: cache})
		if err != nil {
			t.Fatal(err)
		}
		f, err := store.OpenBlob(t.Context(), layers[0].Descriptor)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil || !strings.HasPrefix(string(got), text+" for") {
			t.Errorf("%q, %v; compiled is to be on %q", got, err, text)
		}
	}
}

// The context comes first and its annotations repeat the record; the
// same is compiled once, another chip, precision or SDK anew.
func TestExport(t *testing.T) {
	m, store, cache := packed(t, manifest)
	calls := 0
	export := func(sdk, soc, precision string) ([]artifact.Layer, []string) {
		t.Helper()
		layers, notes, err := compile.NPU{Compiler: compiler{sdk, &calls}}.Export(t.Context(), m, builds.Export{Format: abi.QNN, Precision: precision, Options: json.RawMessage(`{"soc":"` + soc + `"}`)}, export.Sink{Store: store, Cache: cache})
		if err != nil {
			t.Fatal(err)
		}
		return layers, notes
	}
	layers, notes := export("v2.51", "sm8750", "w8a8")
	want := map[string]string{
		abi.AnnotationSoC: "SM8750", abi.AnnotationArch: "v79", abi.AnnotationSDK: "v2.51", abi.AnnotationSource: "sha256:00", abi.AnnotationCosine: "0.9876",
		abi.AnnotationSimulated: "true", abi.AnnotationQuant: "w8a8",
	}
	if d := cmp.Diff(want, layers[0].Annotations); d != "" || layers[0].Path != "enc.sm8750.bin" || layers[1].Path != "enc.sm8750.json" {
		t.Errorf("%v, %v\n%s", layers[0].Path, layers[1].Path, d)
	}
	if want := []string{"enc.sm8750.bin in w8a8: cosine 0.9876 with mm's own engine, in emulation", "2 of Sqrt stay floats: so"}; !slices.Equal(notes, want) {
		t.Errorf("notes %q, want %q", notes, want)
	}
	f, err := store.OpenBlob(t.Context(), layers[0].Descriptor)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if text, err := io.ReadAll(f); string(text) != `picture for 69 as "w8a8" of v2.51` {
		t.Errorf("%s, %v", text, err)
	}
	again, told := export("v2.51", "sm8750", "w8a8")
	if !slices.Equal(notes, told) {
		t.Errorf("notes of what was compiled before %q", told)
	}
	if d := cmp.Diff(layers, again); calls != 1 || d != "" {
		t.Errorf("compiled %d times\n%s", calls, d)
	}
	for i, other := range [][3]string{{"v2.52", "sm8750", "w8a8"}, {"v2.51", "SM8650", "w8a8"}, {"v2.51", "SM8750", ""}} {
		if export(other[0], other[1], other[2]); calls != i+2 {
			t.Errorf("%v was not compiled anew", other)
		}
	}
	if _, _, err := (compile.NPU{Compiler: compiler{"", &calls}}).Export(t.Context(), m, builds.Export{Options: json.RawMessage(`{"soc":"SM8750"}`)}, export2(store)); err == nil || !strings.Contains(err.Error(), "no libraries") {
		t.Errorf("without libraries: %v", err)
	}
}

// The minimum cosine is the compiler's default if unset, and any if 0
// is written: two results.
func TestMinCosine(t *testing.T) {
	m, store, cache := packed(t, manifest)
	calls, gate := 0, ""
	c := gated{compiler{"v2.51", &calls}, &gate}
	for i, tc := range []struct{ options, want string }{
		{`{"soc":"SM8750"}`, "none"}, {`{"soc":"SM8750","min_cosine":0}`, "0"}, {`{"soc":"SM8750","min_cosine":0.97}`, "0.97"},
	} {
		if _, _, err := (compile.NPU{Compiler: c}).Export(t.Context(), m, builds.Export{Format: abi.QNN, Options: json.RawMessage(tc.options)}, export.Sink{Store: store, Cache: cache}); err != nil {
			t.Fatal(err)
		}
		if gate != tc.want || calls != i+1 {
			t.Errorf("%s: %s after %d compilations, want %s", tc.options, gate, calls, tc.want)
		}
	}
}

// gated is a compiler that notes the least cosine it is asked for.
type gated struct {
	compiler
	gate *string
}

func (g gated) Compile(ctx context.Context, job compile.Job) ([]byte, error) {
	*g.gate = "none"
	if job.MinCosine != nil {
		*g.gate = fmt.Sprint(*job.MinCosine)
	}
	return g.compiler.Compile(ctx, job)
}

const core = `name: core
version: 1.0.0
type: core
modality: text
abi: mm-abi-1.0
license: MIT
tokens: {vocab_size: 8, max_seq: 64, d_model: 8}
export: {gguf: enc.onnx}
files:
  - {path: enc.onnx, sha256: 65c74c15a686187bb6bbf9958f494fc6b80068034a659a9ad44991b08c58f2d2, size: 1}
`

// A core is compiled of its GGUF file, in one context or in two; another window
// is another result.
func TestExportCore(t *testing.T) {
	m, store, cache := packed(t, core)
	calls := 0
	for _, c := range []struct {
		options string
		want    []string
		calls   int
	}{
		{`{"soc":"SM8750"}`, []string{"core.sm8750.bin", "core.sm8750.json"}, 1},
		{`{"soc":"SM8750"}`, []string{"core.sm8750.bin", "core.sm8750.json"}, 1},
		{`{"soc":"SM8750","window":32}`, []string{"core.sm8750.bin", "core.sm8750.json"}, 2},
		{`{"soc":"SM8750","window":32,"layers":"1:3"}`, []string{"core.sm8750.bin", "core.sm8750.json"}, 3},
		{`{"soc":"SM8750","window":32,"layers":"1:2"}`, []string{"core.sm8750.bin", "core.sm8750.json"}, 4},
		{`{"soc":"SM8750","window":32,"layers":"1:2"}`, []string{"core.sm8750.bin", "core.sm8750.json"}, 4},
		{`{"soc":"SM8750","window":32,"positions":8}`, []string{"core.sm8750.bin", "core.sm8750.json", "core.sm8750.8.bin", "core.sm8750.8.json"}, 6},
	} {
		layers, _, err := compile.NPU{Compiler: compiler{"v2.51", &calls}}.Export(t.Context(), m, builds.Export{Format: abi.QNN, Options: json.RawMessage(c.options)}, export.Sink{Store: store, Cache: cache})
		if err != nil {
			t.Fatal(err)
		}
		var paths []string
		for i, l := range layers {
			if paths = append(paths, l.Path); i%2 == 0 && (l.Annotations[abi.AnnotationSource] != "sha256:11" || l.Annotations[abi.AnnotationSoC] != "SM8750") {
				t.Errorf("%s: %v", l.Path, l.Annotations)
			}
		}
		if !slices.Equal(paths, c.want) || calls != c.calls {
			t.Errorf("%s: %v, compiled %d times", c.options, paths, calls)
		}
	}
}

func export2(store *registry.Store) export.Sink { return export.Sink{Store: store} }

func TestCheck(t *testing.T) {
	calls := 0
	x := compile.NPU{Compiler: compiler{"v2.51", &calls}}
	good := builds.Export{Options: json.RawMessage(`{"soc":"SM8750"}`)}
	for name, c := range map[string]struct {
		manifest string
		export   builds.Export
		codes    []diag.Code
	}{
		"good":         {manifest, good, nil},
		"no chip":      {manifest, builds.Export{}, []diag.Code{diag.BadExport}},
		"unknown chip": {manifest, builds.Export{Options: json.RawMessage(`{"soc":"SM1"}`)}, []diag.Code{diag.BadExport}},
		"odd layers":   {manifest, builds.Export{Options: json.RawMessage(`{"soc":"SM8750","layers":"3:1"}`)}, []diag.Code{diag.BadExport}},
		"odd option":   {manifest, builds.Export{Options: json.RawMessage(`{"soc":"SM8750","fast":true}`)}, []diag.Code{diag.BadExport}},
		"a DSP":        {manifest, builds.Export{Precision: "w8a8", Options: json.RawMessage(`{"soc":"SM8250"}`)}, []diag.Code{diag.QNNChip}},
		"floats, v68":  {manifest, builds.Export{Options: json.RawMessage(`{"soc":"SM8350"}`)}, []diag.Code{diag.QNNChip}},
		"bytes, v68":   {manifest, builds.Export{Precision: "w8a8", Options: json.RawMessage(`{"soc":"SM8350"}`)}, nil},
		"no cosine":    {manifest, builds.Export{Options: json.RawMessage(`{"soc":"SM8750","min_cosine":1.5}`)}, []diag.Code{diag.BadExport}},
		"precision":    {manifest, builds.Export{Precision: "int4", Options: good.Options}, []diag.Code{diag.QuantUnknown}},
		"no onnx":      {strings.Replace(manifest, "onnx: enc.onnx", "gguf: enc.onnx", 1), good, []diag.Code{diag.NotExported}},
		"no golden":    {strings.Replace(manifest, "golden/image.npy", "golden/picture.npy", 1), good, []diag.Code{diag.ExportFailed}},
		"a core":       {core, good, nil},
		"no weights":   {strings.Replace(core, "gguf: enc.onnx", "onnx: enc.onnx", 1), good, []diag.Code{diag.NotExported}},
		"of 8 bits":    {core, builds.Export{Precision: "w8a8", Options: good.Options}, []diag.Code{diag.QuantUnknown}},
		"too long":     {core, builds.Export{Options: json.RawMessage(`{"soc":"SM8750","window":65}`)}, []diag.Code{diag.BadExport}},
		"no window":    {core, builds.Export{Options: json.RawMessage(`{"soc":"SM8750","window":-1}`)}, []diag.Code{diag.BadExport}},
		"kept floats":  {core, builds.Export{Options: json.RawMessage(`{"soc":"SM8750","keep":["a"]}`)}, []diag.Code{diag.BadExport}},
		"its own":      {strings.Replace(manifest, "onnx: enc.onnx", "qnn: enc.onnx", 1), builds.Export{}, nil},
	} {
		m, list := modules.Parse("module.yaml", []byte(c.manifest))
		if m == nil {
			t.Fatal(list)
		}
		var got []diag.Code
		for _, d := range x.Check(m, c.export) {
			got = append(got, d.Code)
		}
		if !slices.Equal(got, c.codes) {
			t.Errorf("%s: %v, want %v", name, got, c.codes)
		}
	}
}
