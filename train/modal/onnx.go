package modal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
)

// external is an encoder in an ONNX file, which is run and never trained.
type external struct {
	program *engine.Program
	input   string
	output  string
	sum     string // SHA-256 of the file, in hex

	rows, cols int // of an item's output
}

// openExternal opens the file and finds its output for one item.
func openExternal(ctx context.Context, path string, e Encoder, threads int) (*external, error) {
	_, sum, err := fsx.Digest(path)
	if err != nil {
		return nil, err
	}
	m, err := onnx.Admit(path, onnx.AdmitOptions{CheckOptions: engine.Checks(), Open: onnx.FolderOpener(filepath.Dir(path), nil)})
	if err != nil {
		return nil, err
	}
	p, err := engine.Compile(ctx, m, engine.Options{Threads: threads})
	if err = errors.Join(err, m.Close()); err != nil {
		return nil, err
	}
	s := &external{program: p, output: e.Output, sum: strings.TrimPrefix(sum, "sha256:")}
	if n := len(p.Inputs()); n != 1 {
		return nil, errors.Join(fmt.Errorf("%s: %d inputs, want one", filepath.Base(path), n), p.Close())
	}
	s.input = p.Inputs()[0].Name
	if s.output == "" {
		if names := p.Outputs(); len(names) != 1 {
			return nil, errors.Join(fmt.Errorf("%s: outputs %v, want one named in output", filepath.Base(path), names), p.Close())
		}
		s.output = p.Outputs()[0]
	}
	return s, nil
}

// features returns the encoder's output for one input, rows × cols numbers; an
// image of features [1, C, H, W] becomes H·W rows.
func (s *external) features(ctx context.Context, t *preprocess.Tensor) ([]float32, error) {
	dtype, ok := map[string]onnx.DType{"fp32": onnx.FLOAT, "fp16": onnx.FLOAT16, "uint8": onnx.UINT8, "int16": onnx.INT16}[t.DType]
	if !ok {
		return nil, fmt.Errorf("unsupported input type %s", t.DType)
	}
	out, err := s.program.Run(ctx, map[string]engine.Tensor{s.input: {Type: dtype, Shape: t.Shape, Data: t.Data}})
	if err != nil {
		return nil, err
	}
	got, ok := out[s.output]
	if !ok {
		return nil, fmt.Errorf("unknown output %q of the encoder", s.output)
	}
	if got.Type != onnx.FLOAT {
		return nil, fmt.Errorf("output %s of the encoder has type %s, want float32", s.output, got.Type)
	}
	data := make([]float32, len(got.Data)/4)
	for i := range data {
		data[i] = math.Float32frombits(binary.LittleEndian.Uint32(got.Data[4*i:]))
	}
	rows, cols, data, err := asRows(got.Shape, data)
	if err != nil {
		return nil, err
	}
	if s.cols == 0 {
		s.rows, s.cols = rows, cols
	}
	if rows != s.rows || cols != s.cols {
		return nil, fmt.Errorf("encoder output size varies: %d × %d and %d × %d; preprocess must resize the inputs", s.rows, s.cols, rows, cols)
	}
	return data, nil
}

// asRows converts features of [1, T, C], [T, C], [1, C] or [1, C, H, W] to
// rows.
func asRows(shape []int, data []float32) (rows, cols int, _ []float32, err error) {
	dims := shape
	for len(dims) > 2 && dims[0] == 1 {
		dims = dims[1:]
	}
	switch len(dims) {
	case 1:
		return 1, dims[0], data, nil
	case 2:
		return dims[0], dims[1], data, nil
	case 3:
		c, n := dims[0], dims[1]*dims[2]
		out := make([]float32, len(data))
		for i := range c {
			for j := range n {
				out[j*c+i] = data[i*n+j]
			}
		}
		return n, c, out, nil
	}
	return 0, 0, nil, fmt.Errorf("encoder output %v, want [1, T, C] or [1, C, H, W]", shape)
}
