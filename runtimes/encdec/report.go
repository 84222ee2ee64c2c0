package encdec

import (
	"fmt"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/talk"
)

// Report describes the result of an encoder-decoder.
type Report struct {
	Part     string          `json:"part"`
	Backend  string          `json:"backend"`
	Text     string          `json:"text"`
	Language string          `json:"language,omitempty"`
	Task     string          `json:"task,omitempty"`
	Seconds  float64         `json:"seconds,omitempty"`
	EncodeMS float64         `json:"encode_ms"`
	DecodeMS float64         `json:"decode_ms"`
	Segments []SegmentReport `json:"segments"`
}

// SegmentReport describes a segment of a Result.
type SegmentReport struct {
	Start float64 `json:"start"`
	End   float64 `json:"end"`
	Text  string  `json:"text"`
	IDs   []int32 `json:"ids"`
}

// NewReport returns the report of a result by a part on a backend.
func NewReport(part, backend string, r *Result) Report {
	report := Report{
		Part: part, Backend: backend, Text: r.Text, Language: r.Language, Task: r.Task, Seconds: r.Seconds,
		EncodeMS: 1000 * r.Encode.Seconds(), DecodeMS: 1000 * r.Decode.Seconds(), Segments: []SegmentReport{},
	}
	for _, s := range r.Segments {
		report.Segments = append(report.Segments, SegmentReport(s))
	}
	return report
}

// Take reads the only input of a request to a model that the user named.
func (r *Request) Take(name string, in []talk.Part) error {
	if len(in) != 1 {
		return diag.Usagef("%s takes one input, got %d", name, len(in))
	}
	if in[0].Type == abi.Text || in[0].Type == "" {
		r.Text = in[0].Text
		return nil
	}
	if in[0].Type != abi.Audio {
		return diag.Usagef("--%s: %s takes sounds or texts", in[0].Type, name)
	}
	data, err := fsx.ReadFile(in[0].Path, part.MaxInput)
	if err != nil {
		return err
	}
	if r.Wave, err = preprocess.DecodeSound(data); err != nil {
		return fmt.Errorf("%s: %w", in[0].Path, err)
	}
	return nil
}
