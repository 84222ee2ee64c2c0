package phonetest

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/htp/htptest"
)

// Kit is the files of a run.
type Kit struct {
	Context string // for SM8750, by QAIRT 2.47
	Model   string // the ONNX model that the context holds
	Runner  string
	Libs    string // folder
}

// NewKit writes a kit into the folder dir, with a context of about size bytes.
func NewKit(dir string, size int) (Kit, error) {
	k := Kit{filepath.Join(dir, "model.bin"), filepath.Join(dir, "model.onnx"), filepath.Join(dir, "mm-device"), filepath.Join(dir, "lib")}
	write := func(path string, data []byte) error {
		d, err := fsx.Create(filepath.Dir(path), 0o755, fsx.Options{})
		if err != nil {
			return err
		}
		defer d.Close()
		return d.WriteFile(filepath.Base(path), data, 0o644)
	}
	if err := fsx.Replace(k.Model, 0o644, network); err != nil {
		return k, err
	}
	model, err := os.ReadFile(k.Model)
	if err != nil {
		return k, err
	}
	blob := Blob(model, size)
	c := htptest.Sample()
	c.BlobSize = int64(len(blob))
	data := htptest.Context(c)
	copy(data[len(data)-len(blob):], blob)
	files := map[string][]byte{k.Context: data, k.Runner: []byte(Program)}
	for _, name := range []string{"libQnnHtp.so", "libQnnSystem.so", "libQnnHtpV79Stub.so", "libQnnHtpV79Skel.so", "libQnnHtpV75Stub.so", "libQnnHtpV75Skel.so"} {
		files[filepath.Join(k.Libs, name)] = fmt.Appendf(nil, "%s of an emulated phone, v2.47.0.260601114230", name)
	}
	for path, data := range files {
		if err := write(path, data); err != nil {
			return k, err
		}
	}
	return k, nil
}

// network writes the model y = x·w with the shapes of htptest.Sample.
func network(w io.Writer) error {
	m := onnx.New("main", 17)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 4, 16)}
	m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, 4, 8)}
	weights := make([]float32, 16*8)
	for i := range weights {
		weights[i] = float32(i*37%101)/50 - 1
	}
	m.Graph.Constant(onnx.Floats("w", []int64{16, 8}, weights))
	m.Graph.Add("MatMul", []string{"x", "w"}, "y")
	_, err := onnx.Write(w, m)
	return err
}
