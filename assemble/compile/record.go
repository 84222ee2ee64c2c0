package compile

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
	"mm-abi.org/mm/onnx/qdq"
	"mm-abi.org/mm/runtimes/qnn"
	"mm-abi.org/mm/runtimes/step"
)

// Record says what a context was made of, for what, and how far it is from the
// model that was given. It is the same for the same inputs: it holds no time.
type Record struct {
	Source      string    `json:"source"` // digest of the ONNX or GGUF file that was given
	SoC         string    `json:"soc"`    // SM8750
	SoCModel    uint32    `json:"soc_model"`
	Arch        string    `json:"arch"` // v79
	SDK         string    `json:"sdk"`  // build of QAIRT: v2.51.0.260929181845
	ORT         string    `json:"onnxruntime"`
	Precision   Precision `json:"precision"`
	Calibration string    `json:"calibration"` // digest of the inputs
	Sets        int       `json:"sets"`        // of those
	Nodes       int       `json:"nodes"`       // of the model of fixed shapes
	Folded      int       `json:"folded"`      // nodes that became constants
	Integers    int       `json:"integers"`    // nodes computed in integers
	// Kept are nodes that stay floats in a quantised model.
	Kept []qdq.Kept `json:"kept,omitempty"`
	// Rounded is the cosine of the quantised ONNX model's worst output to the
	// given model's, both run by our own engine; 0 where nothing is quantised.
	Rounded float64 `json:"rounded,omitempty"`
	// Cosine and MaxAbs compare what the context computes with what our own
	// engine computes of the given model: the worst output.
	Cosine    float64  `json:"cosine"`
	MaxAbs    float64  `json:"max_abs"`
	Outputs   []Output `json:"outputs"`
	Simulated bool     `json:"simulated"` // the context was run in emulation: always so here
	Context   string   `json:"context"`   // digest of the context binary
	Bytes     int64    `json:"bytes"`     // of it
	// Language says how the context is a language model's; nil: it is none.
	Language *step.Record `json:"language,omitempty"`
}

// Output is how far one output is off.
type Output struct {
	Name   string  `json:"name"`
	Cosine float64 `json:"cosine"`
	MaxAbs float64 `json:"max_abs"`
}

// record begins the record.
func (o Options) record(m *onnx.Model, inputs []map[string]engine.Tensor) (Record, error) {
	r := Record{SoC: o.Chip.Name, SoCModel: o.Chip.Model, Precision: o.Precision, Calibration: InputsDigest(inputs), Sets: len(inputs), Simulated: true}
	if r.Precision == "" {
		r.Precision = FP16
	}
	if len(m.Externals()) > 0 {
		return r, fmt.Errorf("compiling %s: its weights lie in files of their own, and a model is compiled of one file", o.Model)
	}
	var err error
	_, r.Source, err = fsx.Digest(o.Model)
	return r, err
}

// of takes over what the compiler says.
func (r *Record) of(c qnn.Compiled) {
	r.Arch, r.SDK, r.ORT, r.Context, r.Bytes = c.Arch.String(), c.Build, c.Ort, c.Digest, c.Bytes
}

// judge finds the worst output and refuses one that is too far off, or whose
// cosine is no number.
func (r *Record) judge(opt Options) error {
	r.Cosine = 1
	worst := ""
	for _, o := range r.Outputs {
		if worst == "" || o.Cosine < r.Cosine || math.IsNaN(o.Cosine) {
			r.Cosine, worst = o.Cosine, o.Name
		}
		r.MaxAbs = max(r.MaxAbs, o.MaxAbs)
	}
	if r.Cosine >= opt.MinCosine || opt.MinCosine == 0 && !math.IsNaN(r.Cosine) {
		return nil
	}
	var list diag.List
	list.Add(diag.QNNDrift, diag.Pos{File: opt.Model}, fmt.Sprintf("output %q: cosine %.6f to our own engine's, at least %g is wanted; the largest difference is %.4g", worst, r.Cosine, opt.MinCosine, r.MaxAbs), diag.QNNDrift.Fix())
	return list.Err()
}

// unlike tells of an output that is infinite or no number on one side only as of
// one that is too far off.
func unlike(path string, err error) error {
	u := (*drift.Unlike)(nil)
	if !errors.As(err, &u) {
		return err
	}
	var list diag.List
	list.Add(diag.QNNDrift, diag.Pos{File: path}, fmt.Sprintf("output %q: %v", u.Output, u), "scale what leaves the range of 16-bit floats, or compile the part without this output (mm onnx cut)")
	return list.Err()
}

// JSON writes the record as indented JSON.
func (r Record) JSON() ([]byte, error) {
	out, err := json.MarshalIndent(r, "", "  ")
	return append(out, '\n'), err
}

// rounded cuts a cosine to five digits, down: what is beyond differs between
// processors.
func rounded(v float64) float64 { return math.Floor(v*1e5+1e-4) / 1e5 }

// brief keeps three digits of a difference.
func brief(v float64) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	if err != nil {
		return v
	}
	return short
}

// Compared are the figures of each output, without what differs between
// processors.
func Compared(outputs []drift.Output) (out []Output) {
	for _, o := range outputs {
		out = append(out, Output{o.Name, rounded(o.Cosine), brief(o.MaxAbs)})
	}
	return out
}
