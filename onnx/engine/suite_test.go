package engine_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/engine/op"
)

var update = flag.Bool("update", false, "write the list of failing cases; it may only shrink")

const failing = "testdata/expected_fail.txt"

// suite returns the folder of ONNX's backend test data.
func suite(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("ONNX_SUITE")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", ".native", "onnx-suite")
	}
	if _, err := os.Stat(filepath.Join(dir, "node")); err != nil {
		t.Skip("skipped: no ONNX test data in " + dir + " (run make onnx-suite; ONNX_SUITE names the folder)")
	}
	return dir
}

// Every ONNX backend case with supported operators and types has the expected
// results, except the listed ones.
func TestSuite(t *testing.T) {
	dir := suite(t)
	data, err := os.ReadFile(failing)
	if err != nil && !*update {
		t.Fatal(err)
	}
	listed := strings.Fields(string(data))
	var failed, all []string
	for _, category := range []string{"node", "simple", "pytorch-converted", "pytorch-operator"} {
		models, err := filepath.Glob(filepath.Join(dir, category, "*", "model.onnx"))
		if err != nil {
			t.Fatal(err)
		}
		passed, claimed := 0, 0
		for _, path := range models {
			name := category + "/" + filepath.Base(filepath.Dir(path))
			ok, err := runCase(t, path)
			if !ok {
				continue
			}
			all = append(all, name)
			claimed++
			switch {
			case err == nil:
				passed++
				if slices.Contains(listed, name) && !*update {
					t.Errorf("%s passes: remove it from %s", name, failing)
				}
			case errors.Is(err, engine.ErrInternal):
				t.Errorf("%s: %v", name, err)
			default:
				failed = append(failed, name)
				if !slices.Contains(listed, name) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		t.Logf("%-17s %4d cases, %4d claimed, %4d pass", category, len(models), claimed, passed)
	}
	for _, name := range listed {
		if !slices.Contains(all, name) {
			t.Errorf("%s is listed and not a supported case", name)
		}
	}
	if *update {
		sort.Strings(failed)
		if err := os.WriteFile(failing, []byte(strings.Join(append(failed, ""), "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// claims reports whether every operator of a model is supported, and its inputs
// and results are tensors of supported types.
func claims(m *onnx.Model, g *onnx.Graph, opset int64) bool {
	for _, v := range slices.Concat(g.Inputs, g.Outputs) {
		if k := v.Type.Kind; k != onnx.TensorKind && k != onnx.NoKind || k == onnx.TensorKind && v.Type.DType != 0 && kernel.Size(v.Type.DType) == 0 {
			return false
		}
	}
	for i := range g.Initializers {
		if kernel.Size(g.Initializers[i].DType) == 0 {
			return false
		}
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if slices.ContainsFunc(m.Functions, func(f onnx.Function) bool { return f.Name == n.Op && f.Domain == n.Domain }) {
			continue
		}
		if _, err := op.Find(n, opset); err != nil {
			return false
		}
		for _, a := range n.Attributes {
			if a.Graph != nil && !claims(m, a.Graph, opset) {
				return false
			}
		}
	}
	return true
}

func runCase(t *testing.T, path string) (claimed bool, err error) {
	m, err := onnx.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { _ = m.Close() }()
	opset := int64(0)
	for _, o := range m.Opsets {
		if o.Domain == "" {
			opset = o.Version
		}
	}
	if opset < 6 || !claims(m, &m.Graph, opset) {
		return false, nil
	}
	p, err := engine.Compile(t.Context(), m, engine.Options{Threads: 2})
	if err != nil {
		return true, err
	}
	defer func() { _ = p.Close() }()
	sets, err := filepath.Glob(filepath.Join(filepath.Dir(path), "test_data_set_*"))
	if err != nil || len(sets) == 0 {
		return true, fmt.Errorf("no data: %v", err)
	}
	for _, set := range sets {
		in := make(map[string]engine.Tensor)
		for i, v := range p.Inputs() {
			a, err := readTensor(filepath.Join(set, fmt.Sprintf("input_%d.pb", i)))
			if err != nil {
				return true, err
			}
			in[v.Name] = a
		}
		out, err := p.Run(t.Context(), in)
		if err != nil {
			return true, err
		}
		for i, name := range p.Outputs() {
			want, err := readTensor(filepath.Join(set, fmt.Sprintf("output_%d.pb", i)))
			if err != nil {
				return true, err
			}
			if err := same(out[name], want); err != nil {
				return true, fmt.Errorf("output %s: %w", name, err)
			}
		}
	}
	return true, nil
}

// readTensor reads a TensorProto as the only constant of a model.
func readTensor(path string) (engine.Tensor, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return engine.Tensor{}, err
	}
	return parseTensor(data)
}

func parseTensor(data []byte) (engine.Tensor, error) {
	wrap := func(field byte, b []byte) []byte {
		return append(binary.AppendUvarint([]byte{field<<3 | 2}, uint64(len(b))), b...)
	}
	m, err := onnx.Parse(wrap(7, wrap(5, data)))
	if err != nil {
		return engine.Tensor{}, err
	}
	var arena kernel.Arena
	a, err := arena.FromTensor(&m.Graph.Initializers[0])
	if err != nil {
		return engine.Tensor{}, err
	}
	return engine.Tensor{Type: a.Type, Shape: a.Shape, Data: bytes.Clone(a.Raw())}, nil
}

// values returns a tensor's elements as float64.
func values(t engine.Tensor) []float64 {
	size := kernel.Size(t.Type)
	out := make([]float64, 0, len(t.Data)/size)
	for b := t.Data; len(b) > 0; b = b[size:] {
		var v float64
		switch t.Type {
		case onnx.FLOAT:
			v = float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
		case onnx.DOUBLE:
			v = math.Float64frombits(binary.LittleEndian.Uint64(b))
		case onnx.BFLOAT16:
			v = float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16))
		case onnx.FLOAT16:
			v = half(binary.LittleEndian.Uint16(b))
		}
		out = append(out, v)
	}
	return out
}

func half(h uint16) float64 {
	sign := 1.0
	if h>>15 == 1 {
		sign = -1
	}
	exp, frac := int(h>>10)&31, float64(h&1023)
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 31:
		if frac != 0 {
			return math.NaN()
		}
		return sign * math.Inf(1)
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

// same compares like ONNX's runner: rtol 1e-3 and atol 1e-7 for floats,
// integers exactly.
func same(got, want engine.Tensor) error {
	if got.Type != want.Type || !slices.Equal(got.Shape, want.Shape) {
		return fmt.Errorf("%s %v, want %s %v", got.Type, got.Shape, want.Type, want.Shape)
	}
	switch got.Type {
	case onnx.FLOAT, onnx.DOUBLE, onnx.FLOAT16, onnx.BFLOAT16:
	default:
		if !bytes.Equal(got.Data, want.Data) {
			return fmt.Errorf("got %v, want %v", got.Data[:min(64, len(got.Data))], want.Data[:min(64, len(want.Data))])
		}
		return nil
	}
	a, b := values(got), values(want)
	for i, v := range a {
		if v != b[i] && !(math.IsNaN(v) && math.IsNaN(b[i])) && !(math.Abs(v-b[i]) <= 1e-7+1e-3*math.Abs(b[i])) {
			return fmt.Errorf("element %d: got %v, want %v", i, v, b[i])
		}
	}
	return nil
}
