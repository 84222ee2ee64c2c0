package export

import (
	"math"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/onnx/lower"
)

// plain is a form without files.
type plain struct{}

func (plain) Format() abi.Format   { return abi.TFLite }
func (plain) Precisions() []string { return []string{"fp32", "fp16"} }
func (plain) Files(*lower.Graph, string, string) ([]Output, []lower.Problem, error) {
	return nil, nil, nil
}

// An export whose cosine is too small, or not a number as with infinite weights, is
// refused.
func TestJudged(t *testing.T) {
	for cosine, ok := range map[float64]bool{1: true, 0.9999: true, 0.99989: false, -1: false, math.NaN(): false} {
		err := Lowered{plain{}}.judged("m", "fp16", cosine, nil, nil)
		list, _ := diag.From(err)
		if ok != (err == nil) || !ok && (len(list) != 1 || list[0].Code != diag.ExportDrift) {
			t.Errorf("cosine %v: got %v, want it accepted: %v", cosine, err, ok)
		}
	}
}
