package loose

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx"
)

// ErrSameFile reports that the output of [Rewrite] is its input.
var ErrSameFile = errors.New("input and output are the same file")

// Rewritten describes a file that [Rewrite] wrote.
type Rewritten struct {
	File       string       `json:"file"`
	Bytes      int64        `json:"bytes"`
	Before     int64        `json:"before"` // bytes of the input with its external data
	Nodes      int          `json:"nodes"`
	Parameters int64        `json:"parameters"`
	Inputs     []string     `json:"inputs"`
	Outputs    []string     `json:"outputs"`
	Quantised  *QuantReport `json:"quantised,omitempty"`
}

// QuantReport describes a quantization.
type QuantReport struct {
	Weights int           `json:"weights"`
	Before  int64         `json:"before"` // bytes of the weights
	After   int64         `json:"after"`
	Outputs []DriftReport `json:"outputs"`
}

// DriftReport compares an output before and after quantization.
type DriftReport struct {
	Name   string  `json:"name"`
	Cosine float64 `json:"cosine"`
	MaxAbs float64 `json:"max_abs"`
	Agree  int     `json:"agree"`
	Rows   int     `json:"rows"`
}

// Rewrite applies change to the model at path and writes the result to out. Only
// with force may out exist, or be the input.
func Rewrite(path, out string, force bool, change func(*onnx.Model) (*onnx.Model, *QuantReport, error)) (r Rewritten, err error) {
	in, err := os.Stat(path)
	if err != nil {
		return r, err
	}
	if old, err := os.Stat(out); err == nil && os.SameFile(in, old) && !force {
		return r, fmt.Errorf("%s: %w", out, ErrSameFile)
	}
	m, err := Open(path, Options{})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	changed, q, err := change(m)
	if err != nil {
		return r, err
	}
	n, err := Write(out, changed, force)
	if err != nil {
		return r, err
	}
	_, external := m.Attached()
	return Rewritten{
		File: out, Bytes: n, Before: m.Size() + external, Nodes: len(changed.Graph.Nodes), Parameters: changed.Parameters(),
		Inputs: names(changed.Inputs()), Outputs: names(changed.Graph.Outputs), Quantised: q,
	}, nil
}

func names(values []onnx.Value) []string {
	out := []string{}
	for _, v := range values {
		out = append(out, v.Name)
	}
	return out
}

// Lines describes a quantization; nil has no lines.
func (q *QuantReport) Lines() (lines []string) {
	if q == nil {
		return nil
	}
	lines = []string{fmt.Sprintf("%d weights, %s before, %s after", q.Weights, fsx.FormatSize(q.Before), fsx.FormatSize(q.After))}
	for _, o := range q.Outputs {
		lines = append(lines, fmt.Sprintf("%s: cosine %.6f, largest error %.4g, %d of %d rows agree", o.Name, o.Cosine, o.MaxAbs, o.Agree, o.Rows))
	}
	return lines
}

// Write writes the file in a line.
func (r Rewritten) Write(w io.Writer) error {
	return diag.Line(w, "%s: %s (%s before), %d nodes, %d parameters, %s -> %s", r.File, fsx.FormatSize(r.Bytes), fsx.FormatSize(r.Before), r.Nodes, r.Parameters,
		strings.Join(r.Inputs, ", "), strings.Join(r.Outputs, ", "))
}
