package encdec

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
