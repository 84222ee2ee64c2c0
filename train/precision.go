package train

import "fmt"

// Precision is what the products of linear layers read: floats, or factors
// rounded to bfloat16, whose products are still added up in float32. Weights,
// activations, gradients and the optimizer's state are float32 in both.
type Precision string

// The precisions. None is FP32.
const (
	FP32 Precision = "fp32"
	BF16 Precision = "bf16"
)

// Validate refuses what is neither.
func (p Precision) Validate() error {
	if p != "" && p != FP32 && p != BF16 {
		return At("/precision", fmt.Errorf("precision %q is neither %s nor %s", p, FP32, BF16))
	}
	return nil
}
