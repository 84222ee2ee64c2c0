// Package attempt fills the truth table (package judge): it tries each scope of a model on
// each target and records the results.
//
// A [Matrix] lists scopes and targets. A scope is an ONNX file, or layers of a language
// model in GGUF, exported as ONNX with a fixed window. A target is an engine of this
// machine (core, onnx, onnxruntime) or a chip and a precision (SM8750/fp16), which is
// compiled for and emulated; its records are marked as simulated.
//
// The reference is the result of mm's own ONNX engine on the unchanged file; that engine
// itself is compared with golden outputs. [Matrix.Fill] tries cells without a record and
// records each one, so that it can be stopped at any point. A record is valid as long as
// the files that it depends on do not change.
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
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/judge"
	"mm-abi.org/mm/lab/records"
	"mm-abi.org/mm/onnx/htp"
)

// The targets on this machine.
const (
	Core = "core"        // language models, mm's own
	ONNX = "onnx"        // mm's own
	ORT  = "onnxruntime" // ONNX Runtime, in mm-native
)

// Host is the target of these engines in the table.
const Host = "host"

// Emulated is the backend of chips in the table.
const Emulated = "qnn (emulated)"

// Matrix lists the scopes and targets to try.
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
	Layers    *[2]int          `json:"layers,omitempty"`    // GGUF: half-open range; if nil, all
	Positions int              `json:"positions,omitempty"` // GGUF: window; if zero, 32
	Text      string           `json:"text,omitempty"`      // GGUF: path of a text that the model reads; if empty, fixed tokens
	Inputs    []string         `json:"inputs,omitempty"`    // ONNX: folders and .npz files; if empty, noise
	Shapes    map[string][]int `json:"shapes,omitempty"`    // of noise, for open dimensions
}

// target is a parsed target.
type target struct {
	name      string
	chip      htp.Chip // of an NPU target
	precision compile.Precision
}

func (t target) npu() bool { return t.precision != "" }

func (m Matrix) cell(s Scope, t target) judge.Cell {
	if t.npu() {
		return judge.Cell{Model: m.Model, Scope: s.Name, Target: t.name, Backend: Emulated}
	}
	return judge.Cell{Model: m.Model, Scope: s.Name, Target: Host, Backend: t.name}
}

// Read reads and checks a matrix. Its paths are relative to the working directory.
func Read(path string, chips htp.Chips) (Matrix, error) {
	var m Matrix
	if err := records.ReadJSON(path, &m); err != nil {
		return m, err
	}
	if err := m.check(chips); err != nil {
		return m, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func (m *Matrix) check(chips htp.Chips) error {
	if m.Model == "" || len(m.Scopes) == 0 || len(m.Targets) == 0 {
		return errors.New("missing model, scopes or targets")
	}
	var names []string
	for i, s := range m.Scopes {
		if err := s.check(); err != nil {
			return fmt.Errorf("scope %d (%s): %w", i+1, s.Name, err)
		}
		if slices.Contains(names, s.Name) {
			return fmt.Errorf("duplicate scope %s", s.Name)
		}
		names = append(names, s.Name)
	}
	for i, name := range m.Targets {
		if slices.Contains(m.Targets[:i], name) {
			return fmt.Errorf("duplicate target %s", name)
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
		return errors.New("name must not be empty or contain spaces or slashes")
	case (s.ONNX == "") == (s.GGUF == ""):
		return errors.New("want either onnx or gguf")
	case s.ONNX != "" && (s.Layers != nil || s.Positions != 0 || s.Text != ""), s.GGUF != "" && (s.Inputs != nil || s.Shapes != nil):
		return errors.New("layers, positions and text require gguf, inputs and shapes require onnx")
	case s.Layers != nil && (s.Layers[0] < 0 || s.Layers[1] <= s.Layers[0]):
		return fmt.Errorf("bad layers %v, want [FIRST, END] with 0 <= FIRST < END", *s.Layers)
	case s.Positions < 0:
		return fmt.Errorf("negative number of positions %d", s.Positions)
	}
	return nil
}

func targetOf(name string, chips htp.Chips) (target, error) {
	chip, precision, npu := strings.Cut(name, "/")
	if !npu {
		if !slices.Contains([]string{Core, ONNX, ORT}, name) {
			return target{}, fmt.Errorf("unknown target %q, want %s, %s, %s or CHIP/PRECISION", name, Core, ONNX, ORT)
		}
		return target{name: name}, nil
	}
	t := target{name: name, precision: compile.Precision(precision)}
	var ok bool
	if t.chip, ok = chips.Named(chip); !ok {
		return t, fmt.Errorf("target %q: %w", name, chips.Unknown(chip))
	}
	if precision == "" {
		return t, fmt.Errorf("target %q: missing precision, want CHIP/PRECISION", name)
	}
	return t, t.precision.Check()
}

// Table builds the truth table from the records that are valid for the present files; cells
// without one are not run.
func (m Matrix) Table(records []judge.Record) (judge.Table, error) {
	var valid []judge.Record
	var cells []judge.Cell
	for _, s := range m.Scopes {
		digest, err := s.digest()
		if err != nil {
			return judge.Table{}, err
		}
		for _, t := range m.targets {
			cells = append(cells, m.cell(s, t))
			if r := last(records, key(digest, t)); r != nil {
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

// last returns the newest record with the key.
func last(records []judge.Record, key string) *judge.Record {
	for i := len(records) - 1; i >= 0; i-- {
		if records[i].Cell == key {
			return &records[i]
		}
	}
	return nil
}

// key returns the digest of everything that an attempt depends on.
func key(digest string, t target) string {
	sum := sha256.Sum256([]byte(digest + " " + t.name))
	return hex.EncodeToString(sum[:])
}

// digest returns the digest of a scope and its files.
func (s Scope) digest() (string, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	h.Write(text)
	paths := slices.Concat([]string{s.ONNX + s.GGUF}, s.Inputs)
	if s.Text != "" {
		paths = append(paths, s.Text)
	}
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
			return "", fmt.Errorf("scope %s: %w", s.Name, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// fileDigest returns the SHA-256 of a file in hex.
func fileDigest(path string) (string, error) {
	_, digest, err := fsx.Digest(path)
	return strings.TrimPrefix(digest, "sha256:"), err
}
