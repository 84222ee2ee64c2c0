package device

import (
	"math"

	"mm-abi.org/mm/lab/device/protocol"
)

// Result is an output that came back, in numbers: integers with a scale are
// what they stand for.
type Result struct {
	Sample int       `json:"sample"`
	Index  int       `json:"index"`
	Name   string    `json:"name"`
	DType  string    `json:"dtype"`
	Shape  []uint32  `json:"shape"`
	Bytes  int64     `json:"bytes"`
	Digest string    `json:"digest"`
	File   string    `json:"file"`            // below the folder of outputs
	Least  *float32  `json:"least,omitempty"` // none: they are no numbers
	Most   *float32  `json:"most,omitempty"`
	Mean   *float64  `json:"mean,omitempty"`
	First  []float32 `json:"first,omitempty"`
	Values []float32 `json:"-"`
}

// shown is how many elements of an output are told.
const shown = 8

// results tells of the outputs that came.
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

// count finds the ends and the middle of the numbers. JSON has no NaN and no
// infinity: where one is met nothing is told.
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
	o.Least, o.Most, o.Mean, o.First = &least, &most, &mean, o.Values[:min(shown, len(o.Values))]
}
