package device

import (
	"math"

	"mm-abi.org/mm/lab/device/protocol"
)

// Result describes a pulled output. Values of scaled integers are dequantized.
type Result struct {
	Sample int       `json:"sample"`
	Index  int       `json:"index"`
	Name   string    `json:"name"`
	DType  string    `json:"dtype"`
	Shape  []uint32  `json:"shape"`
	Bytes  int64     `json:"bytes"`
	Digest string    `json:"digest"`
	File   string    `json:"file"`            // relative to the folder of outputs
	Least  *float32  `json:"least,omitempty"` // nil if the elements are not numbers
	Most   *float32  `json:"most,omitempty"`
	Mean   *float64  `json:"mean,omitempty"`
	First  []float32 `json:"first,omitempty"`
	Values []float32 `json:"-"`
}

// firstValues is the number of elements in Result.First.
const firstValues = 8

// results describes the pulled outputs.
func (r *running) results(got [][][]byte, values [][][]float32) []Result {
	out := []Result{}
	for s := range got {
		for i, b := range got[s] {
			if b == nil {
				continue
			}
			t := r.p.graph.Outputs[i]
			one := Result{Sample: s, Index: i, Name: t.Name, DType: t.DType.String(), Shape: t.Dims, Bytes: int64(len(b)), Digest: digestOf(b), File: protocol.File(s, i), Values: values[s][i]}
			one.count()
			out = append(out, one)
		}
	}
	return out
}

// count sets minimum, maximum and mean. JSON has no NaN and infinity: if a value is not
// finite, they stay nil.
func (o *Result) count() {
	least, most, sum := float32(math.Inf(1)), float32(math.Inf(-1)), 0.0
	for _, v := range o.Values {
		if v-v != 0 {
			return
		}
		least, most, sum = min(least, v), max(most, v), sum+float64(v)
	}
	if len(o.Values) == 0 {
		return
	}
	mean := sum / float64(len(o.Values))
	o.Least, o.Most, o.Mean, o.First = &least, &most, &mean, o.Values[:min(firstValues, len(o.Values))]
}
