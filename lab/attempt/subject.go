package attempt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"mm-abi.org/mm/assemble/compile"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/admit"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
	"mm-abi.org/mm/onnx/window"
)

// sets is the number of inputs for the layers of a language model.
const sets = 3

// subject is an open scope.
type subject struct {
	scope   Scope
	path    string // ONNX model
	model   *onnx.Model
	inputs  []map[string]engine.Tensor
	tokens  [][]int32 // of the inputs, if the scope is a complete language model
	noise   bool      // the inputs are noise
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
func open(s Scope) (*subject, error) {
	sub := &subject{scope: s, path: s.ONNX}
	var err error
	if s.GGUF != "" {
		err = sub.window()
	}
	if err == nil {
		sub.model, err = admit.File(sub.path, admit.Options{CheckOptions: engine.Checks()})
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

// window exports layers of a language model as ONNX, with inputs.
func (s *subject) window() (err error) {
	f, err := gguf.Open(s.scope.GGUF)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	shape, err := arch.Read(f)
	if err != nil {
		return err
	}
	s.layers, s.all = [2]int{0, shape.Layers}, shape.Layers
	if l := s.scope.Layers; l != nil {
		s.layers = *l
	}
	if s.scope.Positions == 0 {
		s.scope.Positions = 32
	}
	complete := s.layers == [2]int{0, s.all}
	m, err := window.Layers(f, window.Options{First: s.layers[0], Count: s.layers[1] - s.layers[0], Positions: s.scope.Positions, Norm: complete})
	if err != nil {
		return err
	}
	if s.dir, err = fsx.MkdirTemp("mm-attempt-"); err != nil {
		return err
	}
	s.path = filepath.Join(s.dir, "layers.onnx")
	if err := fsx.Replace(s.path, 0o600, func(w io.Writer) error { _, err := onnx.Write(w, m); return err }); err != nil {
		return err
	}
	if s.layers[0] > 0 {
		return s.stream()
	}
	return s.embed(f, complete)
}

// embed sets inputs from the embeddings of generated token IDs.
func (s *subject) embed(f *gguf.File, complete bool) error {
	e, ok := f.Tensor(arch.TokenEmbedding)
	if !ok {
		return fmt.Errorf("missing tensor %q", arch.TokenEmbedding)
	}
	width, all := e.Dims[0], make([]float32, e.Elements())
	quant.Dequantize(all, e.Data, e.Type)
	for set := range sets {
		in := engine.Tensor{Type: onnx.FLOAT, Shape: []int{1, s.scope.Positions, width}}
		var tokens []int32
		for i := range s.scope.Positions {
			id := (20 + i*i*7 + set*131) % e.Rows()
			tokens = append(tokens, int32(id))
			for _, v := range all[id*width : (id+1)*width] {
				in.Data = binary.LittleEndian.AppendUint32(in.Data, math.Float32bits(v))
			}
		}
		s.inputs = append(s.inputs, map[string]engine.Tensor{"hidden": in})
		if complete {
			s.tokens = append(s.tokens, tokens)
		}
	}
	return nil
}

// stream sets noise as the input of layers after the first.
func (s *subject) stream() error {
	m, err := onnx.Open(s.path)
	if err != nil {
		return err
	}
	in, err := drift.Noise(m, nil, 0)
	s.noise, s.inputs = true, []map[string]engine.Tensor{in}
	return errors.Join(err, m.Close())
}
