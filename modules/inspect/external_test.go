package inspect_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/onnx"
)

// outside moves the largest weight of an encoder's model into big.bin.
func outside(t *testing.T, dir string) {
	t.Helper()
	entry := filepath.Join(dir, "enc.onnx")
	model := read(t, entry)
	i := slices.IndexFunc(model.Graph.Initializers, func(t onnx.Tensor) bool { return len(t.Raw) > 256 })
	w := &model.Graph.Initializers[i]
	raw := slices.Clone(w.Raw)
	w.Raw = nil
	w.External = &onnx.External{Entries: []onnx.Entry{{Key: "location", Value: "big.bin"}, {Key: "length", Value: fmt.Sprint(len(raw))}}}
	write(t, entry, model)
	if err := os.WriteFile(filepath.Join(dir, "big.bin"), raw, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Data next to a model is the module's when the manifest lists it, and is not
// a link unless a digest pins it.
func TestExternalLinks(t *testing.T) {
	const with = "onnx: {path: enc.onnx, with: [big.bin]}"
	link := func(dir string) error {
		from := filepath.Join(filepath.Dir(dir), "secret")
		if err := os.Rename(filepath.Join(dir, "big.bin"), from); err != nil {
			return err
		}
		return os.Link(from, filepath.Join(dir, "big.bin"))
	}
	symlink := func(dir string) error {
		if err := os.Rename(filepath.Join(dir, "big.bin"), filepath.Join(dir, "other.bin")); err != nil {
			return err
		}
		return os.Symlink("other.bin", filepath.Join(dir, "big.bin"))
	}
	for name, c := range map[string]struct {
		export  string
		prepare func(dir string) error
		code    string
	}{
		"listed":        {with, nil, ""},
		"not listed":    {"onnx: enc.onnx", nil, "MM1024"},
		"hard link":     {with, link, "MM1023"},
		"symbolic link": {with, symlink, "MM1023"},
	} {
		dir := seeded(t, seed.Options{Type: abi.Encoder, Name: "enc", DEnc: 8})
		outside(t, dir)
		edit(t, filepath.Join(dir, "module.yaml"), "onnx: enc.onnx", c.export)
		if c.prepare != nil {
			if err := c.prepare(dir); err != nil {
				t.Skip("skipped: ", err)
			}
		}
		got := found(t, dir)
		if c.code == "" && got != nil || c.code != "" && (len(got) != 1 || !strings.HasPrefix(got[0], c.code)) {
			t.Errorf("%s: %q, not %q", name, got, c.code)
		}
	}
}

// A precision missing from the manifest's list is reported at the list.
func TestPrecision(t *testing.T) {
	dir := seeded(t, seed.Options{Type: abi.Encoder, Name: "enc", DEnc: 8})
	edit(t, filepath.Join(dir, "module.yaml"), "supported: [fp32]", "supported: [int8, fp16]")
	if got := found(t, dir); len(got) != 1 || !strings.HasPrefix(got[0], "MM1041 ") || !strings.Contains(got[0], "most weights of enc.onnx are fp32, the manifest lists int8, fp16") {
		t.Errorf("%q", got)
	}
}

// One symbol of the manifest has one size in the file, and one of the file's
// one size in the manifest, whatever the file calls it.
func TestSymbols(t *testing.T) {
	for name, c := range map[string]struct {
		in, out []any
		want    string
	}{
		"names of its own":      {[]any{"a", "b", "c", 3}, []any{"d", "e", 8}, ""},
		"a size for a symbol":   {[]any{"a", 64, 64, 3}, []any{"d", 16, 8}, ""},
		"another size":          {[]any{"a", 64, 64, 3}, []any{"d", "e", 9}, "D_enc (dimension 1)"},
		"one name, two sizes":   {[]any{"a", "b", "c", "n"}, []any{"d", "e", "n"}, `D_enc (dimension 1) of "patch_tokens" is 8 in the manifest, but "n" in the file, which is 3 elsewhere`},
		"one name, equal sizes": {[]any{"a", "b", "c", "n"}, []any{"d", "e", "m"}, ""},
	} {
		dir := seeded(t, seed.Options{Type: abi.Encoder, Name: "enc", DEnc: 8})
		entry := filepath.Join(dir, "enc.onnx")
		m := read(t, entry)
		m.Graph.Inputs[0] = onnx.TensorValue("image", onnx.UINT8, c.in...)
		m.Graph.Outputs[0] = onnx.TensorValue("patch_tokens", onnx.FLOAT16, c.out...)
		write(t, entry, m)
		if got := strings.Join(found(t, dir), "\n"); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}
