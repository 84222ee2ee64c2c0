// Package attempt fills the truth table (package judge): it tries each scope of
// a model on each target, and records what came of it.
//
// A [Matrix] names both. A scope is an ONNX file, or some layers of a language
// model in GGUF, written as ONNX of a fixed window. A target is an engine of this
// machine (core, onnx, onnxruntime) or a chip and a precision, SM8750/fp16, which
// is compiled for and run in emulation: its records say that they are simulated.
//
// What is compared with is our own engine's result on the file as it is, and for
// our own engine what lies with the inputs as it should be (golden). [Matrix.Fill] tries
// what no record speaks of, and adds a record after each: stopped at any point,
// it goes on with the rest. A record counts for as long as the files that it was
// made of are the same.
package attempt

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/assemble/compile"
	"mm-abi.org/mm/core/htp/fit"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/judge"
	"mm-abi.org/mm/lab/records"
)

// The targets that are engines of this machine.
const (
	Core = "core"        // language models, ours
	ONNX = "onnx"        // ours
	ORT  = "onnxruntime" // ONNX Runtime, in mm-native
)

// Host is the target of these in the table.
const Host = "host"

// Emulated is the backend of chips in the table.
const Emulated = "qnn (emulated)"

// Matrix says what is tried where.
type Matrix struct {
	Model   string   `json:"model"`
	Scopes  []Scope  `json:"scopes"`
	Targets []string `json:"targets"`

	targets []target
}

// Scope is a part of the model: an ONNX file, or layers of a GGUF file.
type Scope struct {
	Name      string           `json:"name"`
	ONNX      string           `json:"onnx,omitempty"`      // path
	GGUF      string           `json:"gguf,omitempty"`      // path
	Layers    *[2]int          `json:"layers,omitempty"`    // of GGUF: from, until; all of them
	Positions int              `json:"positions,omitempty"` // of GGUF: of the window; 32
	Inputs    []string         `json:"inputs,omitempty"`    // of ONNX: folders and .npz; noise without
	Shapes    map[string][]int `json:"shapes,omitempty"`    // of noise, where the model leaves them open
}

// target is one of the matrix's, taken apart.
type target struct {
	name      string
	chip      fit.Chip // of an NPU
	precision compile.Precision
}

func (t target) npu() bool { return t.precision != "" }

func (m Matrix) cell(s Scope, t target) judge.Cell {
	if t.npu() {
		return judge.Cell{Model: m.Model, Scope: s.Name, Target: t.name, Backend: Emulated}
	}
	return judge.Cell{Model: m.Model, Scope: s.Name, Target: Host, Backend: t.name}
}

// Read reads and checks a matrix; paths in it begin where mm was started.
func Read(path string, chips fit.Chips) (Matrix, error) {
	var m Matrix
	if err := records.ReadJSON(path, &m); err != nil {
		return m, err
	}
	if err := m.check(chips); err != nil {
		return m, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func (m *Matrix) check(chips fit.Chips) error {
	if m.Model == "" || len(m.Scopes) == 0 || len(m.Targets) == 0 {
		return errors.New("it lacks model, scopes or targets")
	}
	var names []string
	for i, s := range m.Scopes {
		if err := s.check(); err != nil {
			return fmt.Errorf("scope %d (%s): %w", i+1, s.Name, err)
		}
		if slices.Contains(names, s.Name) {
			return fmt.Errorf("the scope %s is there twice", s.Name)
		}
		names = append(names, s.Name)
	}
	for i, name := range m.Targets {
		if slices.Contains(m.Targets[:i], name) {
			return fmt.Errorf("the target %s is there twice", name)
		}
		t, err := targetOf(name, chips)
		if err != nil {
			return err
		}
		m.targets = append(m.targets, t)
	}
	return nil
}

func (s Scope) check() error {
	switch {
	case s.Name == "" || strings.ContainsAny(s.Name, "/ \n\t"):
		return errors.New("a scope has a name without spaces and slashes")
	case (s.ONNX == "") == (s.GGUF == ""):
		return errors.New("a scope is onnx or gguf")
	case s.ONNX != "" && (s.Layers != nil || s.Positions != 0), s.GGUF != "" && (s.Inputs != nil || s.Shapes != nil):
		return errors.New("layers and positions are of gguf, inputs and shapes of onnx")
	}
	return nil
}

func targetOf(name string, chips fit.Chips) (target, error) {
	chip, precision, npu := strings.Cut(name, "/")
	if !npu {
		if !slices.Contains([]string{Core, ONNX, ORT}, name) {
			return target{}, fmt.Errorf("the target %q is none of %s, %s, %s and CHIP/PRECISION", name, Core, ONNX, ORT)
		}
		return target{name: name}, nil
	}
	t := target{name: name, precision: compile.Precision(precision)}
	var ok bool
	if t.chip, ok = chips.Named(chip); !ok || precision == "" {
		return t, fmt.Errorf("the target %q: no chip %q is known, or no precision is said", name, chip)
	}
	return t, t.precision.Check()
}

// Table makes the table: of the records of this matrix whose files are as they
// were, and of cells that nobody tried.
func (m Matrix) Table(records []judge.Record) (judge.Table, error) {
	var valid []judge.Record
	var cells []judge.Cell
	for _, s := range m.Scopes {
		made, err := s.digest()
		if err != nil {
			return judge.Table{}, err
		}
		for _, t := range m.targets {
			cells = append(cells, m.cell(s, t))
			if r := last(records, key(made, t)); r != nil {
				valid = append(valid, *r)
			}
		}
	}
	table, err := judge.MakeTable(valid)
	if err != nil {
		return table, err
	}
	table.Expect(cells)
	return table, nil
}

// last is the newest record of a cell.
func last(records []judge.Record, key string) *judge.Record {
	for i := len(records) - 1; i >= 0; i-- {
		if records[i].Cell == key {
			return &records[i]
		}
	}
	return nil
}

// key stands for all that an attempt is made of.
func key(made string, t target) string {
	sum := sha256.Sum256([]byte(made + " " + t.name))
	return hex.EncodeToString(sum[:])
}

// digest is that of a scope and of the files it names.
func (s Scope) digest() (string, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	h.Write(text)
	paths := slices.Concat([]string{s.ONNX + s.GGUF}, s.Inputs)
	for _, path := range paths {
		err := filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			sum, err := fileDigest(path)
			fmt.Fprintf(h, "%q %s\n", path, sum)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("the scope %s: %w", s.Name, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// fileDigest is hex SHA-256.
func fileDigest(path string) (string, error) {
	_, digest, err := fsx.Digest(path)
	return strings.TrimPrefix(digest, "sha256:"), err
}
