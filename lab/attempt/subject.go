package attempt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"mm-abi.org/mm/assemble/compile"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
)

// subject is an open scope.
type subject struct {
	scope   Scope
	path    string // ONNX model
	model   *onnx.Model
	inputs  []map[string]engine.Tensor
	states  []engine.Tensor // of the backend core after the layers, by input; nil unless they are of a language model
	noise   bool            // the inputs are noise
	golden  map[string]engine.Tensor
	weights string // hex SHA-256 of the scope's file
	layers  [2]int
	all     int
	unit    string
	dir     string // temporary folder
}

func (s *subject) close() error {
	err := s.model.Close()
	if s.dir != "" {
		err = errors.Join(err, fsx.RemoveAll(s.dir))
	}
	return err
}

// open opens a scope.
func open(ctx context.Context, s Scope) (*subject, error) {
	sub := &subject{scope: s, path: s.ONNX}
	var err error
	if s.GGUF != "" {
		err = sub.window(ctx)
	}
	if err == nil {
		sub.model, err = onnx.Admit(sub.path, onnx.AdmitOptions{CheckOptions: engine.Checks()})
	}
	if err == nil {
		if claims := engine.Claims(sub.model); claims != nil {
			err = errors.Join(fmt.Errorf("the reference, mm's own engine, lacks: %w: %w", claims, errUnsupported), sub.model.Close())
		}
	}
	if err != nil {
		if sub.dir != "" {
			err = errors.Join(err, fsx.RemoveAll(sub.dir))
		}
		return nil, err
	}
	if sub.weights, err = fileDigest(s.ONNX + s.GGUF); err == nil && s.ONNX != "" {
		err = sub.readInputs()
	}
	if err != nil {
		return nil, errors.Join(err, sub.close())
	}
	return sub, nil
}

// readInputs reads the inputs of an ONNX file, and the golden outputs if any.
func (s *subject) readInputs() (err error) {
	n := len(s.model.Graph.Nodes)
	s.layers, s.all, s.unit = [2]int{0, n}, n, "nodes"
	if s.noise = len(s.scope.Inputs) == 0; s.noise {
		in, err := drift.Noise(s.model, s.scope.Shapes, 0)
		s.inputs = []map[string]engine.Tensor{in}
		return err
	}
	if s.inputs, err = compile.Samples(s.path, s.scope.Inputs); err != nil {
		return err
	}
	if s.inputs, err = compile.Fit(s.model, s.inputs); err != nil || len(s.scope.Inputs) != 1 {
		return err
	}
	golden := map[string]engine.Tensor{}
	for _, v := range s.model.Inputs() { // the set of loose files comes last, after archives
		if _, err := os.Stat(filepath.Join(s.scope.Inputs[0], v.Name+".npy")); err != nil {
			return nil
		}
	}
	for _, v := range s.model.Graph.Outputs {
		if v.Name == "" || filepath.Base(v.Name) != v.Name {
			return nil
		}
		data, err := fsx.ReadFile(filepath.Join(s.scope.Inputs[0], v.Name+".npy"), maxGolden)
		if err != nil {
			return nil // without golden outputs, mm's own engine is compared with itself
		}
		if golden[v.Name], err = drift.Read(data); err != nil {
			return fmt.Errorf("%s: %w", v.Name, err)
		}
	}
	s.golden = golden
	return nil
}

// maxGolden is the maximum size of a golden file in bytes.
const maxGolden = 1 << 30
