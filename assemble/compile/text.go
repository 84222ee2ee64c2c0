package compile

import (
	"fmt"
	"io"
	"time"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// WriteText describes the result of a compilation that took a time.
func (m Result) WriteText(w io.Writer, took time.Duration) {
	r := m.Record
	fmt.Fprintln(w, diag.Printable(fmt.Sprintf("%s: %s, for %s (%s), %s, in %.1f s", m.Context, fsx.FormatSize(r.Bytes), r.SoC, r.Arch, r.Precision, took.Seconds())))
	diag.Fact(w, "digest", "%s", r.Context)
	diag.Fact(w, "source", "%s", r.Source)
	diag.Fact(w, "sdk", "%s, by ONNX Runtime %s", r.SDK, r.ORT)
	diag.Fact(w, "wrapper", "%s", m.Wrapper)
	diag.Fact(w, "nodes", "%d, %d of integers, %d constants folded", r.Nodes, r.Integers, r.Folded)
	for _, k := range r.Kept {
		diag.Fact(w, "floats", "%s %d: %s", k.Op, len(k.Nodes), k.Why)
	}
	if r.Rounded > 0 {
		diag.Fact(w, "quantized", "cosine %.6f before compilation", r.Rounded)
	}
	if l := r.Language; l != nil {
		diag.Fact(w, "language", "%d tokens, a window of %d positions, %d read at a time; cosine of its outputs %.6f", l.Vocab, l.Window, l.Positions, r.Cosine)
		if l.Count > 0 {
			diag.Fact(w, "layers", "%d to %d; mm computes the others", l.First, l.End()-1)
		}
		r.Outputs = r.Outputs[:0]
	}
	for _, o := range r.Outputs {
		diag.Fact(w, "output", "%s: cosine %.6f, largest difference %.4g", o.Name, o.Cosine, o.MaxAbs)
	}
	diag.Fact(w, "simulated", "emulated, on %d sets of inputs: this is not evidence about a device", min(r.Sets, MostEmulated))
}
