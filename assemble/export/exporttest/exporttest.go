// Package exporttest writes exports for the judges of make exports, which are
// programs in other languages.
package exporttest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
)

// row is a line of the judge's list.
type row struct {
	Model     string  `json:"model"`
	Format    string  `json:"format"`
	Precision string  `json:"precision"`
	Path      string  `json:"path,omitempty"`
	Cosine    float64 `json:"cosine,omitempty"`
	Seconds   float64 `json:"seconds"`
	Refused   string  `json:"refused,omitempty"`
}

// Judge exports every model of the folder MM_EXPORTS in every precision: NAME.onnx,
// with its inputs in NAME/INPUT.npy. Results are in out/FORMAT, described by
// out/FORMAT.json.
func Judge(t *testing.T, forms ...export.Lowered) {
	dir := os.Getenv("MM_EXPORTS")
	if dir == "" {
		t.Skip("MM_EXPORTS is not set; make exports sets it")
	}
	models, err := filepath.Glob(filepath.Join(dir, "*.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range forms {
		var rows []row
		for _, path := range models {
			for _, precision := range precisions(x.Form) {
				rows = append(rows, write(t, x, path, precision, filepath.Join(dir, "out")))
			}
		}
		text, err := json.MarshalIndent(rows, "", " ")
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "out", string(x.Format())+".json"), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// precisions returns those of a form that MM_PRECISIONS lists, all where it is not set.
func precisions(f export.Form) (list []string) {
	only := os.Getenv("MM_PRECISIONS")
	for _, p := range f.Precisions() {
		if only == "" || slices.Contains(strings.Split(only, ","), p) {
			list = append(list, p)
		}
	}
	return list
}

// write exports a model.
func write(t *testing.T, x export.Lowered, path, precision, out string) row {
	t.Helper()
	name := strings.TrimSuffix(filepath.Base(path), ".onnx")
	r := row{Model: name, Format: string(x.Format()), Precision: precision}
	m, err := onnx.Admit(path, onnx.AdmitOptions{CheckOptions: engine.Checks(), Open: onnx.SiblingOpener(path)})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	sample := map[string]engine.Tensor{}
	for _, v := range m.Inputs() {
		data, err := os.ReadFile(filepath.Join(filepath.Dir(path), name, v.Name+".npy"))
		if err == nil {
			sample[v.Name], err = drift.Read(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	files, cosine, err := x.Write(t.Context(), m, name, precision, sample)
	r.Cosine, r.Seconds = cosine, time.Since(begin).Seconds()
	if err != nil {
		r.Refused = err.Error()
		return r
	}
	for _, f := range files {
		to := filepath.Join(out, r.Format, precision, filepath.FromSlash(f.Path))
		if r.Path == "" {
			r.Path = to
		}
		if err := save(to, f); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func save(path string, f export.Output) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	w, err := os.Create(path)
	if err != nil {
		return err
	}
	defer w.Close()
	return f.Write(w)
}
