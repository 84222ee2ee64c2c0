package coreml

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// little returns a program that multiplies its input by a matrix.
func little() *Program {
	p := &Program{Description: "little", Metadata: []Entry{{"source", "sha256:00"}}}
	in, out := Type{Float32, []int{1, 2}}, Type{Float32, []int{1, 3}}
	matrix := Const{Type: Type{Float32, []int{3, 2}}, Blob: p.weights.add(Float32, make([]byte, 24))}
	p.Inputs, p.Outputs = []Value{{"x", in}}, []Value{{"y", out}}
	p.Operations = []Operation{
		{Type: "const", Attributes: []Attribute{{"val", matrix}}, Output: Value{"w", matrix.Type}},
		{Type: "linear", Inputs: []Input{{"x", []string{"x"}}, {"weight", []string{"w"}}}, Output: Value{"y", out}},
	}
	return p
}

// write writes the package to a folder.
func write(t testing.TB, p *Program) string {
	t.Helper()
	dir := t.TempDir()
	files, err := p.Files()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		var b bytes.Buffer
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := errors.Join(f.Write(&b), os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, b.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Open reads what Files writes, whose bytes are the same each time.
func TestPackage(t *testing.T) {
	dir, again := write(t, little()), write(t, little())
	for _, name := range []string{manifestPath, modelPath, weightsPath} {
		a, err := os.ReadFile(filepath.Join(dir, name))
		b, err2 := os.ReadFile(filepath.Join(again, name))
		if !bytes.Equal(a, b) || err != nil || err2 != nil {
			t.Errorf("%s differs: %v, %v", name, err, err2)
		}
	}
	p, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := &Package{Model: Model{
		Specification: 7, Program: true, Functions: []string{"main"}, Opset: "CoreML6", Description: "little", Metadata: []Entry{{"source", "sha256:00"}},
		Inputs: little().Inputs, Outputs: little().Outputs, Operations: map[string]int{"const": 1, "linear": 1},
		Constants: []Constant{{Type{Float32, []int{3, 2}}, 64}},
	}, Size: p.Size, Weights: map[string]int64{"float32": 24}, Count: 6}
	if d := cmp.Diff(want, p); d != "" || p.Size < 24+128 {
		t.Errorf("size %d\n%s", p.Size, d)
	}
}

// Faults that Apple's tools accept, or fail to explain, are refused before a file
// is written.
func TestCheck(t *testing.T) {
	for want, change := range map[string]func(*Program){
		`weight is "w", which is not computed before it`: func(p *Program) { p.Operations = p.Operations[1:] },
		`the name "w" occurs twice`:                      func(p *Program) { p.Operations = append(p.Operations, p.Operations[0]) },
		`output "y"`:                                     func(p *Program) { p.Outputs[0].Type.DType = Float16 },
		`output "z"`:                                     func(p *Program) { p.Outputs[0].Name = "z" },
		`bad dimension in the shape [0]`:                 func(p *Program) { p.Inputs[0].Type.Shape = []int{0} },
		`bool is not a type of inputs`:                   func(p *Program) { p.Inputs[0].Type.DType = Bool },
		"wrong number of elements: got 1, want 6": func(p *Program) {
			p.Operations[0].Attributes[0].Const = Const{Type: Type{Float32, []int{3, 2}}, Floats: []float32{1}}
		},
	} {
		p := little()
		change(p)
		if _, err := p.Files(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Packages with faults are refused with a reason, and links do not leave them.
func TestOpenRefuses(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	replace := func(dir, name string, change func([]byte) []byte) error {
		path := filepath.Join(dir, filepath.FromSlash(name))
		data, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(path, change(data), 0o600))
	}
	for want, change := range map[string]func(dir string) error{
		"leaves the package": func(dir string) error {
			return replace(dir, manifestPath, func(b []byte) []byte {
				return bytes.ReplaceAll(b, []byte("com.apple.CoreML/model.mlmodel"), []byte("../../../etc/model.mlmodel"))
			})
		},
		"no entry for the model": func(dir string) error {
			return replace(dir, manifestPath, func([]byte) []byte { return []byte("{}") })
		},
		"path escapes": func(dir string) error {
			path := filepath.Join(dir, filepath.FromSlash(modelPath))
			return errors.Join(os.Remove(path), os.Symlink(outside, path))
		},
		"no constant at 64": func(dir string) error {
			return replace(dir, weightsPath, func(b []byte) []byte { b[64] = 0; return b })
		},
		"exceeds the weights": func(dir string) error {
			return replace(dir, weightsPath, func(b []byte) []byte { return b[:100] })
		},
		"exceed the weights": func(dir string) error {
			return replace(dir, weightsPath, func(b []byte) []byte {
				binary.LittleEndian.PutUint64(b[80:], math.MaxUint64)
				return b
			})
		},
		"got 20 bytes, want 24": func(dir string) error {
			return replace(dir, weightsPath, func(b []byte) []byte { b[72] = 20; return b })
		},
		"field 502": func(dir string) error {
			return replace(dir, modelPath, func(b []byte) []byte { return b[:len(b)-1] })
		},
	} {
		dir := write(t, little())
		if err := change(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Limits hold on either side.
func TestLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: documents at the limits")
	}
	repeat := func(n int, do func(m *message)) []byte {
		var m message
		for range n {
			do(&m)
		}
		return m
	}
	dim := func(m *message) { m.message(3, func(*message) {}) }
	for _, c := range []struct {
		name string
		n    int
		read func(n int) error
	}{
		{"dimensions", maxRank, func(n int) error {
			var typ Type
			var m message
			m.bytes(1, repeat(n, dim))
			return typ.parse(m)
		}},
		{"text", maxText, func(n int) error { return text(new(string), make([]byte, n)) }},
		{"functions", maxPorts, func(n int) error {
			return new(Model).program(repeat(n, func(m *message) { m.entry(2, "f", func(*message) {}) }))
		}},
		{"inputs", maxPorts, func(n int) error {
			return new(Model).function(repeat(n, func(m *message) { m.message(1, func(*message) {}) }))
		}},
		{"metadata", maxPorts, func(n int) error {
			var m message
			m.bytes(100, repeat(n, func(m *message) { m.message(100, func(*message) {}) }))
			return new(Model).description(m)
		}},
		{"operations", maxOperations, func(n int) error {
			return block(repeat(n, func(m *message) { m.message(3, func(*message) {}) }))
		}},
		{"outputs", maxPorts, func(n int) error {
			return block(repeat(n, func(m *message) { m.text(2, "x") }))
		}},
		{"values", maxOperations, func(n int) error {
			return block(func() []byte {
				var op message
				for i := range n {
					op.message(3, func(m *message) { m.number(3, uint64(i)); m.text(1, fmt.Sprint(i)) })
				}
				var m message
				m.bytes(3, op)
				return m
			}())
		}},
		{"constants", maxOperations, func(n int) error {
			return block(func() []byte {
				op := repeat(n, func(m *message) { m.entry(5, "", func(m *message) { m.message(5, func(*message) {}) }) })
				var m message
				m.bytes(3, op)
				return m
			}())
		}},
		{"manifest", maxManifest, func(n int) error { return sized(t, n, maxManifest) }},
		{"model", maxSpec, func(n int) error { return sized(t, n, maxSpec) }},
	} {
		if err := c.read(c.n); err != nil {
			t.Errorf("%s: %d refused: %v", c.name, c.n, err)
		}
		if err := c.read(c.n + 1); err == nil {
			t.Errorf("%s: %d accepted", c.name, c.n+1)
		}
	}
}

// block reads a block.
func block(b []byte) error {
	return (&Model{Inputs: []Value{{Name: "x"}}, Operations: map[string]int{}}).block(b)
}

// sized reads a sparse file of n bytes.
func sized(t *testing.T, n, limit int) error {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "f"), nil, 0o600), os.Truncate(filepath.Join(dir, "f"), int64(n))); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	_, err = read(root, "f", int64(limit))
	return err
}

// FuzzParse: model files from elsewhere never panic.
func FuzzParse(f *testing.F) {
	f.Add(little().encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parse(data)
		if err != nil {
			return
		}
		for _, c := range m.Constants {
			_, _ = c.blob(bytes.NewReader(data), int64(len(data)))
		}
		if _, err := json.Marshal(m); err != nil {
			t.Error(err)
		}
	})
}

// FuzzManifest: manifests from elsewhere never name a path outside the package.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"itemInfoEntries":{"a":{"path":"com.apple.CoreML/model.mlmodel"}},"rootModelIdentifier":"a"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if where, err := modelOf(data); err == nil && !filepath.IsLocal(where) {
			t.Errorf("%q leaves the package", where)
		}
	})
}
