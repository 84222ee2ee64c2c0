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

// Record describes the source, the target and the deviation of a context. It
// contains no time: equal inputs give equal records.
type Record struct {
	Source      string    `json:"source"` // digest of the original ONNX or GGUF file
	SoC         string    `json:"soc"`    // SM8750
	SoCModel    uint32    `json:"soc_model"`
	Arch        string    `json:"arch"` // v79
	SDK         string    `json:"sdk"`  // build of QAIRT: v2.51.0.260929181845
	ORT         string    `json:"onnxruntime"`
	Precision   Precision `json:"precision"`
	Calibration string    `json:"calibration"` // digest of the inputs
	Sets        int       `json:"sets"`        // number of input sets
	Nodes       int       `json:"nodes"`       // of the model with fixed shapes
	Folded      int       `json:"folded"`      // nodes that became constants
	Integers    int       `json:"integers"`    // nodes computed in integers
	// Kept are the nodes in floats of a quantized model.
	Kept []qdq.Kept `json:"kept,omitempty"`
	// Rounded is the cosine of the worst output of the quantized ONNX model with
	// the original model, both run by mm's own engine; 0 if nothing is quantized.
	Rounded float64 `json:"rounded,omitempty"`
	// Cosine and MaxAbs compare the worst output of the context with mm's own
	// engine on the original model.
	Cosine    float64  `json:"cosine"`
	MaxAbs    float64  `json:"max_abs"`
	Outputs   []Output `json:"outputs"`
	Simulated bool     `json:"simulated"` // always set: the context was run in emulation
	Context   string   `json:"context"`   // digest of the context binary
	Bytes     int64    `json:"bytes"`     // size of the context binary
	// Language describes a context of a language model; nil otherwise.
	Language *step.Record `json:"language,omitempty"`
}

// Output is the deviation of an output.
type Output struct {
	Name   string  `json:"name"`
	Cosine float64 `json:"cosine"`
	MaxAbs float64 `json:"max_abs"`
}

// record creates the record.
func (o Options) record(m *onnx.Model, inputs []map[string]engine.Tensor) (Record, error) {
	r := Record{SoC: o.Chip.Name, SoCModel: o.Chip.Model, Precision: o.Precision, Calibration: InputsDigest(inputs), Sets: len(inputs), Simulated: true}
	if r.Precision == "" {
		r.Precision = FP16
	}
	if len(m.Externals()) > 0 {
		return r, fmt.Errorf("compiling %s: external data is not supported", o.Model)
	}
	var err error
	_, r.Source, err = fsx.Digest(o.Model)
	return r, err
}

// of adds the results of the compiler.
func (r *Record) of(c qnn.Compiled) {
	r.Arch, r.SDK, r.ORT, r.Context, r.Bytes = c.Arch.String(), c.Build, c.Ort, c.Digest, c.Bytes
}

// judge finds the worst output and refuses a cosine that is too small or NaN.
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
	list.Add(diag.QNNDrift, diag.Pos{File: opt.Model}, fmt.Sprintf("output %q: cosine with mm's own engine is %.6f, want at least %g; largest difference %.4g", worst, r.Cosine, opt.MinCosine, r.MaxAbs), diag.QNNDrift.Fix())
	return list.Err()
}

// unlike reports an output with infinities or NaN on one side only as one that
// deviates too much.
func unlike(path string, err error) error {
	u := (*drift.Unlike)(nil)
	if !errors.As(err, &u) {
		return err
	}
	var list diag.List
	list.Add(diag.QNNDrift, diag.Pos{File: path}, fmt.Sprintf("output %q: %v", u.Output, u), "scale values beyond the range of 16-bit floats, or compile a part without this output (mm onnx cut)")
	return list.Err()
}

// JSON returns the record as indented JSON.
func (r Record) JSON() ([]byte, error) {
	out, err := json.MarshalIndent(r, "", "  ")
	return append(out, '\n'), err
}

// rounded rounds a cosine down to five digits; further digits differ between CPUs.
func rounded(v float64) float64 { return math.Floor(v*1e5+1e-4) / 1e5 }

// brief rounds a difference to three digits.
func brief(v float64) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	if err != nil {
		return v
	}
	return short
}

// Compared returns the deviation of each output, rounded to what is equal on all
// CPUs.
func Compared(outputs []drift.Output) (out []Output) {
	for _, o := range outputs {
		out = append(out, Output{o.Name, rounded(o.Cosine), brief(o.MaxAbs)})
	}
	return out
}
