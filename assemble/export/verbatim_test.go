package export_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/builds/resolve"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry"
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
export:
  safetensors: {path: w/model-1.safetensors, with: [w/model-2.safetensors, w/index.json]}
  onnx: enc.onnx
`

// The entry comes first, then the files next to it; nothing of other formats.
func TestVerbatim(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "w"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"module.yaml": manifest, "w/model-1.safetensors": "1", "w/model-2.safetensors": "2", "w/index.json": "{}", "enc.onnx": "o"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	store, err := registry.Open(filepath.Join(dir, "store"), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	m, list := modules.Load(dir)
	if m == nil {
		t.Fatal(list)
	}
	artifact, desc, err := modelpack.Pack(context.Background(), store, m)
	if err != nil {
		t.Fatal(err)
	}
	r := &resolve.Module{Manifest: m, Artifact: artifact, Descriptor: desc}
	layers, notes, err := export.NewVerbatim(abi.Safetensors).Export(t.Context(), r, builds.Export{}, export.Sink{Store: store})
	var paths []string
	for _, l := range layers {
		paths = append(paths, l.Path)
		if own, _ := r.Layer(l.Path); own.Descriptor.Digest != l.Descriptor.Digest || l.Descriptor.MediaType != abi.MediaWeight {
			t.Errorf("%+v", l)
		}
	}
	if d := cmp.Diff([]string{"w/model-1.safetensors", "w/model-2.safetensors", "w/index.json"}, paths); d != "" || err != nil || notes != nil {
		t.Errorf("%s %v %v", d, notes, err)
	}
}

func TestCheck(t *testing.T) {
	m, list := modules.Parse("module.yaml", []byte(manifest))
	if m == nil {
		t.Fatal(list)
	}
	for _, tc := range []struct {
		format abi.Format
		e      builds.Export
		want   []diag.Code
	}{
		{abi.ONNX, builds.Export{}, nil},
		{abi.Safetensors, builds.Export{}, nil},
		{abi.GGUF, builds.Export{}, []diag.Code{diag.NotExported}},
		{abi.ONNX, builds.Export{Precision: "int8"}, []diag.Code{diag.QuantUnknown}},
		{abi.ONNX, builds.Export{Options: []byte("{}")}, []diag.Code{diag.BadExport}},
	} {
		x := export.NewVerbatim(tc.format)
		var got []diag.Code
		for _, d := range x.Check(m, tc.e) {
			got = append(got, d.Code)
		}
		if d := cmp.Diff(tc.want, got); d != "" || x.Format() != tc.format {
			t.Errorf("%s %+v: %s", tc.format, tc.e, d)
		}
	}
}
