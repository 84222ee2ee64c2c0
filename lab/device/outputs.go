package device

import (
	"io"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/internal/fsx"
)

// WriteOutputs writes the outputs of a run below a folder: the raw files of the
// runner, and the numbers as .npy files beside them.
func WriteOutputs(folder string, o *Outcome) error {
	for _, r := range o.Results {
		path := filepath.Join(folder, filepath.FromSlash(r.File))
		files := map[string][]byte{path: o.Outputs[r.Sample][r.Index]}
		if r.Values != nil {
			array := &npy.Array{Type: "f4", Shape: []int{}, Data: SampleBytes(r.Values)}
			for _, d := range r.Shape {
				array.Shape = append(array.Shape, int(d))
			}
			data, err := npy.Encode(array)
			if err != nil {
				return err
			}
			files[strings.TrimSuffix(path, ".raw")+".npy"] = data
		}
		for path, data := range files {
			if err := fsx.Replace(path, 0o644, func(w io.Writer) error { _, err := w.Write(data); return err }); err != nil {
				return err
			}
		}
	}
	return nil
}
