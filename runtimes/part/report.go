package part

import (
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/modality"
)

// Report describes the result of a function.
type Report struct {
	Part     string         `json:"part"`
	Text     string         `json:"text,omitempty"`
	Labels   []Label        `json:"labels,omitempty"`
	Segments []Segment      `json:"segments,omitempty"`
	Outputs  []OutputReport `json:"outputs"`
	Assumed  []string       `json:"assumed,omitempty"`
	Backend  string         `json:"backend"`
	// Simulated is set if the backend emulates hardware.
	Simulated bool              `json:"simulated,omitempty"`
	Facts     map[string]string `json:"facts,omitempty"` // reported by the backend
	Timings   struct {
		LoadMS float64 `json:"load_ms"`
		RunMS  float64 `json:"run_ms"`
	} `json:"timings"`

	postprocessed bool // according to the manifest
}

// Label is a class with its score.
type Label struct {
	Output string  `json:"output"`
	Index  int     `json:"index"`
	Name   string  `json:"name,omitempty"`
	Score  float64 `json:"score"`
}

// String returns the name of the class, or its number.
func (l Label) String() string {
	if l.Name == "" {
		return "class " + strconv.Itoa(l.Index)
	}
	return l.Name
}

// Segment is a span of a sound with its score.
type Segment struct {
	Output string  `json:"output"`
	Start  float64 `json:"start"`
	End    float64 `json:"end"`
	Score  float64 `json:"score"`
}

// OutputReport summarizes a tensor.
type OutputReport struct {
	Name      string       `json:"name"`
	DType     string       `json:"dtype"`
	Shape     []int64      `json:"shape"`
	Min       float64      `json:"min"`
	Mean      float64      `json:"mean"`
	Max       float64      `json:"max"`
	NonFinite int          `json:"non_finite,omitempty"`
	First     []float64    `json:"first"`
	Top       []ClassScore `json:"top,omitempty"`
	File      string       `json:"file,omitempty"`
}

// ClassScore is the score of a class.
type ClassScore struct {
	Index int     `json:"index"`
	Score float64 `json:"score"`
}

const (
	firstValues = 8
	topClasses  = 5
)

// Report summarizes the result, whose manifest is m.
func (c Computed) Report(m *modules.Manifest) (*Report, error) {
	r := &Report{
		Part: c.Part.Name, Text: c.Text, Assumed: c.Assumed, Backend: c.Backend, Simulated: c.Simulated, Facts: c.Facts,
		Outputs: []OutputReport{}, postprocessed: len(m.Postprocess) > 0,
	}
	r.Timings.LoadMS, r.Timings.RunMS = milliseconds(c.Load), milliseconds(c.Run)
	for _, l := range c.Labels {
		r.Labels = append(r.Labels, Label{l.Output, l.Index, l.Name, l.Score})
	}
	for _, s := range c.Segments {
		r.Segments = append(r.Segments, Segment{s.Output, s.Start, s.End, s.Score})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Outputs)) {
		_, processed := m.Postprocess[name]
		o, err := summarize(name, c.Outputs[name], !processed && classes(m, name, c.Outputs[name].Shape))
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", name, err)
		}
		r.Outputs = append(r.Outputs, o)
	}
	return r, nil
}

// classes reports whether a tensor [1, N] may hold the scores of N classes: the output has
// a fixed size. One of frames has another size for each sound.
func classes(m *modules.Manifest, output string, shape []int64) bool {
	for _, p := range m.Outputs {
		if p.Name == output && len(p.Shape) > 0 && len(shape) > 0 {
			return p.Shape[len(p.Shape)-1].Size == shape[len(shape)-1]
		}
	}
	return false
}

// summarize summarizes a tensor; NaN and infinities are counted and otherwise
// ignored. With top, a tensor [1, classes] gets its most likely classes.
func summarize(name string, t runtimes.Tensor, top bool) (OutputReport, error) {
	o := OutputReport{Name: name, DType: string(t.Type), Shape: append([]int64{}, t.Shape...), First: []float64{}}
	all, err := modality.Numbers(t)
	if err != nil {
		return o, err
	}
	sum, n := 0.0, 0
	for _, v := range all {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			o.NonFinite++
			continue
		}
		if n == 0 || v < o.Min {
			o.Min = v
		}
		if n == 0 || v > o.Max {
			o.Max = v
		}
		if len(o.First) < firstValues {
			o.First = append(o.First, v)
		}
		sum += v
		n++
	}
	o.Mean = sum / float64(max(n, 1))
	if top && len(t.Shape) == 2 && t.Shape[0] == 1 && t.Shape[1] > 1 && o.NonFinite == 0 {
		best, err := modality.Top(all, topClasses, false, nil)
		if err != nil {
			return o, err
		}
		for _, l := range best {
			o.Top = append(o.Top, ClassScore{l.Index, l.Score})
		}
	}
	return o, nil
}

// WriteText writes the postprocessed result, or a summary of every output if the
// manifest declares no postprocessing. An output that has a file is always listed.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	if r.Text != "" {
		fmt.Fprintln(&b, diag.Printable(r.Text))
	}
	for _, l := range r.Labels {
		fmt.Fprintf(&b, "%8.4f  %s\n", l.Score, diag.Printable(l.String()))
	}
	for _, s := range r.Segments {
		fmt.Fprintf(&b, "%9.3f s to %9.3f s  %.3f\n", s.Start, s.End, s.Score)
	}
	for _, o := range r.Outputs {
		if !r.postprocessed || o.File != "" {
			o.text(&b)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (o *OutputReport) text(b *strings.Builder) {
	shape := strings.ReplaceAll(fmt.Sprint(o.Shape), " ", ", ")
	fmt.Fprintf(b, "%s %s %s: min %.6g, mean %.6g, max %.6g", diag.Printable(o.Name), o.DType, shape, o.Min, o.Mean, o.Max)
	if o.NonFinite > 0 {
		fmt.Fprintf(b, ", %d not finite", o.NonFinite)
	}
	b.WriteString("\n ")
	for _, v := range o.First {
		fmt.Fprintf(b, " %.6g", v)
	}
	size := int64(1)
	for _, d := range o.Shape {
		size *= d
	}
	if size > int64(len(o.First)) {
		b.WriteString(" …")
	}
	b.WriteString("\n")
	for _, t := range o.Top {
		fmt.Fprintf(b, "  class %d: %.6g\n", t.Index, t.Score)
	}
	if o.File != "" {
		fmt.Fprintf(b, "  written to %s\n", o.File)
	}
}

// OutputFile names a file for an output: OUTPUT or PART.OUTPUT; empty if there is
// only one output.
type OutputFile struct{ Name, Path string }

// WriteOutputs writes outputs of results to files and notes each file in its
// report. The extension selects the format: .npy, .png or .wav. An output that is
// unknown or ambiguous is a [modality.InputError].
func WriteOutputs(files []OutputFile, results []Computed, reports []*Report) error {
	for _, f := range files {
		type place struct {
			part   int
			output string
		}
		var found []place
		var names []string
		for i, c := range results {
			for _, name := range slices.Sorted(maps.Keys(c.Outputs)) {
				full := c.Part.Name + "." + name
				names = append(names, full)
				if f.Name == "" || f.Name == name || f.Name == full {
					found = append(found, place{i, name})
				}
			}
		}
		if len(found) != 1 {
			what := "unknown"
			if len(found) > 1 {
				what = "ambiguous"
			}
			return &modality.InputError{Detail: fmt.Sprintf("--output %s: %s output %q", f.Path, what, f.Name), Hint: "use one of " + strings.Join(names, ", ")}
		}
		c, name := results[found[0].part], found[0].output
		encode := map[string]func(runtimes.Tensor) ([]byte, error){".npy": modality.EncodeArray, ".png": modality.EncodePicture, ".wav": c.Session.EncodeSound}[strings.ToLower(filepath.Ext(f.Path))]
		data, err := encode(c.Outputs[name])
		if err != nil {
			return fmt.Errorf("writing output %q to %s: %w", name, f.Path, err)
		}
		if err := fsx.Replace(f.Path, 0o644, func(w io.Writer) error { _, err := w.Write(data); return err }); err != nil {
			return err
		}
		outputs := reports[found[0].part].Outputs
		outputs[slices.IndexFunc(outputs, func(o OutputReport) bool { return o.Name == name })].File = f.Path
	}
	return nil
}

// ParseNumbers parses numbers separated by commas, with or without brackets.
func ParseNumbers(text string) ([]float64, error) {
	if inner, ok := strings.CutPrefix(text, "["); ok {
		if text, ok = strings.CutSuffix(inner, "]"); !ok {
			return nil, fmt.Errorf("missing ] in %q", "["+inner)
		}
	}
	var out []float64
	for _, word := range strings.Split(text, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(word), 64)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// StepReport is a [Step] with its times in milliseconds.
type StepReport struct {
	Step
	StartMS   float64 `json:"start_ms"`
	LoadMS    float64 `json:"load_ms"`
	PrepareMS float64 `json:"prepare_ms"`
	RunMS     float64 `json:"run_ms"`
}

// StepReports converts a trace.
func StepReports(steps []Step) []StepReport {
	out := []StepReport{}
	for _, s := range steps {
		out = append(out, StepReport{s, milliseconds(s.Start), milliseconds(s.Load), milliseconds(s.Prepare), milliseconds(s.Run)})
	}
	return out
}

// StepHeading is the heading of the rows of [StepReport.Row].
var StepHeading = []string{"STEP", "PART", "BACKEND", "IN", "OUT", "START", "LOAD", "INPUT", "RUN"}

// Row returns the step as a row of a table.
func (s StepReport) Row() []string {
	backend := s.Backend
	if s.Cached != "" {
		backend = "(" + s.Cached + ")"
	}
	ms := func(v float64) string { return fmt.Sprintf("%.1f", v) }
	return []string{s.What, s.Part, backend, tensorList(s.In, s.Note), tensorList(s.Out, ""), ms(s.StartMS), ms(s.LoadMS), ms(s.PrepareMS), ms(s.RunMS) + " ms"}
}

// tensorList joins tensors, or returns note if there are none.
func tensorList(tensors []TensorInfo, note string) string {
	var out []string
	for _, t := range tensors {
		out = append(out, t.String())
	}
	if len(out) == 0 {
		return note
	}
	return strings.Join(out, ", ")
}

// PositionHeading is the heading of the rows of [PositionRows].
var PositionHeading = []string{"AT", "TOKEN", "TEXT", "HOW", "ALLOWED"}

// PositionRows returns the context of a core as rows of a table, one a token. The
// vectors of an input share a row.
func PositionRows(all []Position) (rows [][]string) {
	for i := 0; i < len(all); i++ {
		at, n := all[i], 1
		for at.From == FromInput && i+1 < len(all) && all[i+1] == at {
			i, n = i+1, n+1
		}
		row := []string{fmt.Sprint(i), fmt.Sprint(at.ID), fmt.Sprintf("%q", at.Piece), at.From, ""}
		switch {
		case at.From == FromInput:
			row = []string{fmt.Sprint(i + 1 - n), "", fmt.Sprintf("%d vectors of input %d", n, at.ID), at.From, ""}
		case at.Allowed > 0:
			row[4] = fmt.Sprint(at.Allowed)
		}
		rows = append(rows, row)
	}
	return rows
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
