package loose_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/assemble/export/coreml"
	"mm-abi.org/mm/assemble/export/executorch"
	"mm-abi.org/mm/assemble/export/openvino"
	"mm-abi.org/mm/assemble/export/tflite"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
	"mm-abi.org/mm/workspace/loose"
)

// A damaged file of another runtime is described or refused with a diagnostic.
func TestInspectDamagedExports(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 50
	}
	for _, x := range []struct {
		form   export.Form
		entry  string // passed to Inspect
		damage []string
	}{
		{tflite.Exporter{}, "p.tflite", []string{"p.tflite"}},
		{executorch.Exporter{}, "p.pte", []string{"p.pte"}},
		{openvino.Form{}, "p.xml", []string{"p.xml", "p.bin"}},
		{coreml.Exporter{}, "p.mlpackage", []string{"p.mlpackage/Manifest.json", "p.mlpackage/Data/com.apple.CoreML/model.mlmodel", "p.mlpackage/Data/com.apple.CoreML/weights/weight.bin"}},
	} {
		t.Run(string(x.form.Format()), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			exportTo(t, x.form, dir)
			if _, err := loose.Inspect(t.Context(), filepath.Join(dir, x.entry)); err != nil {
				t.Fatal(err)
			}
			r, refused := rand.New(rand.NewPCG(1, 2)), 0
			for i := range rounds {
				path := filepath.Join(dir, filepath.FromSlash(x.damage[i%len(x.damage)]))
				intact, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				write(t, path, damaged(r, intact))
				_, err = loose.Inspect(t.Context(), filepath.Join(dir, x.entry))
				if err != nil {
					refused++
					if _, ok := diag.From(err); !ok {
						t.Errorf("round %d: got %v, want a diagnostic", i, err)
					}
				}
				write(t, path, intact)
			}
			if refused < rounds/20 {
				t.Errorf("got %d of %d refused, want at least a twentieth", refused, rounds)
			}
		})
	}
}

// damaged changes some bytes at the start, where the structure is, or cuts the end.
func damaged(r *rand.Rand, intact []byte) []byte {
	out := append([]byte(nil), intact...)
	if r.IntN(4) == 0 {
		return out[:r.IntN(len(out))]
	}
	n := len(out)
	if r.IntN(2) == 0 {
		n = min(n, 512)
	}
	for range 1 + r.IntN(8) {
		out[r.IntN(n)] = byte(r.Uint32())
	}
	return out
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// exportTo exports a projector of the catalog.
func exportTo(t *testing.T, form export.Form, dir string) {
	t.Helper()
	const module = "../../catalog/audio-proj"
	m, err := onnx.Admit(filepath.Join(module, "audio_proj.onnx"), onnx.AdmitOptions{CheckOptions: engine.Checks()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	sample := map[string]engine.Tensor{}
	for _, v := range m.Inputs() {
		data, err := os.ReadFile(filepath.Join(module, "golden", v.Name+".npy"))
		if err == nil {
			sample[v.Name], err = drift.Read(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	files, _, err := export.Lowered{Form: form}.Write(t.Context(), m, "p", "int8", sample)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := save(filepath.Join(dir, filepath.FromSlash(f.Path)), f); err != nil {
			t.Fatal(fmt.Errorf("%s: %w", f.Path, err))
		}
	}
}

func save(path string, f export.Output) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	w, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	return f.Write(w)
}
