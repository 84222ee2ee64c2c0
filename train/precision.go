package train

import "fmt"

// Precision is the input type of the products of linear layers: float32, or
// factors rounded to bfloat16 with sums in float32. Weights, activations,
// gradients and the optimizer's state are float32 in both.
type Precision string

// The precisions. Empty means FP32.
const (
	FP32 Precision = "fp32"
	BF16 Precision = "bf16"
)

// Validate refuses unknown precisions.
func (p Precision) Validate() error {
	if p != "" && p != FP32 && p != BF16 {
		return At("/precision", fmt.Errorf("unknown precision %q, want %s or %s", p, FP32, BF16))
	}
	return nil
}
