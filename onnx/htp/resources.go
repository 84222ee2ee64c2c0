package htp

import (
	"fmt"
	"math"
)

// elements checks the inputs and outputs: known element types, byte-aligned
// sizes, fixed dimensions, finite scales.
func (j *judge) elements() {
	types, bad, unknown := map[string]bool{}, "", ""
	shown := ""
	for _, g := range j.c.Graphs {
		for _, list := range [][]Tensor{g.Inputs, g.Outputs} {
			for _, t := range list {
				if name := t.DType.String(); !types[name] {
					types[name] = true
					if shown != "" {
						shown += ", "
					}
					shown += name
				}
				if b, u := fitElement(t); b != "" && bad == "" {
					bad = fmt.Sprintf("%q of graph %q %s", t.Name, g.Name, b)
				} else if u != "" && unknown == "" {
					unknown = fmt.Sprintf("%q of graph %q %s", t.Name, g.Name, u)
				}
			}
		}
	}
	const wants = "fixed dimensions, known types"
	switch {
	case len(j.c.Graphs) == 0:
		j.add(AxisDType, Not, "no graph", wants, "the context has no graph", "recompile it")
	case bad != "":
		j.add(AxisDType, Not, shown, wants, bad, "compile the model with fixed shapes")
	case unknown != "":
		j.add(AxisDType, Unknown, shown, wants, unknown, "--accept dtype goes on without")
	default:
		j.add(AxisDType, Fits, shown, wants, "", "")
	}
}

// fitElement returns the fault of a tensor, or its unknown property.
func fitElement(t Tensor) (bad, unknown string) {
	for i, d := range t.Dims {
		if d == 0 || i < len(t.Dynamic) && t.Dynamic[i] {
			return fmt.Sprintf("has a dynamic dimension: %v", t.Dims), ""
		}
	}
	if t.Version > 2 {
		return "", fmt.Sprintf("has the unknown version %d", t.Version)
	}
	if !t.DType.Known() {
		return "", fmt.Sprintf("has the unknown element type %s", t.DType)
	}
	if _, ok := t.Bytes(); !ok {
		return fmt.Sprintf("has the dimensions %v, larger than any memory", t.Dims), ""
	}
	q := t.Quant
	if q.Encoding > PerAxisBits && q.Encoding != Unquantized {
		return "", fmt.Sprintf("has the unknown quantization %s", q.Encoding)
	}
	for _, s := range q.Scales {
		if !(s > 0) || math.IsInf(float64(s), 0) {
			return fmt.Sprintf("has the scale %g", s), ""
		}
	}
	return "", ""
}

// vtcm compares the VTCM of the graphs with that of the chip.
func (j *judge) vtcm() {
	most, complete := uint32(0), len(j.c.Graphs) > 0
	for _, g := range j.c.Graphs {
		if g.Memory == nil {
			complete = false
			continue
		}
		most = max(most, g.Memory.VTCM)
	}
	has := uint32(0)
	if j.t.Chip != nil {
		has = j.t.Chip.VTCM
	}
	switch {
	case !complete:
		j.add(AxisVTCM, Unknown, "unspecified", mib(int64(has)), "the file does not state the VTCM use of its graphs", "--accept vtcm goes on without")
	case has == 0:
		j.add(AxisVTCM, Unknown, mib(int64(most)), "unknown", "the table of chips lacks it", "--socs FILE adds it; --accept vtcm goes on without")
	case most > has:
		j.add(AxisVTCM, Not, mib(int64(most)), mib(int64(has)), "the graphs were compiled for more VTCM than the chip has", fmt.Sprintf("compile it with vtcm_mb %d", has>>20))
	default:
		j.add(AxisVTCM, Fits, mib(int64(most)), mib(int64(has)), "", "")
	}
}

// memory compares the memory needed for loading.
func (j *judge) memory() {
	need := Need(j.c)
	switch {
	case need < 0:
		j.add(AxisMemory, Not, "more than 2^62 bytes", mib(j.t.Memory), "the declared memory use of the graphs is impossible", "recompile it")
	case j.t.Memory == 0:
		j.add(AxisMemory, Unasked, mib(need), "unspecified", "the target's memory limit is unspecified", "--memory 12GiB sets it; --accept memory goes on without")
	case need > j.t.Memory:
		j.add(AxisMemory, Not, mib(need), mib(j.t.Memory), "it does not fit into the target's memory", "split the model into several contexts")
	default:
		j.add(AxisMemory, Fits, mib(need), mib(j.t.Memory), "", "")
	}
}

// Need estimates the memory for loading a context, in bytes: the file plus a
// fifth for the runtime, and each graph's inputs, outputs and intermediate
// results. It is negative if the sum overflows.
func Need(c *Context) int64 {
	const most = 1 << 62
	need := uint64(c.Size) + uint64(c.Size)/5
	for _, g := range c.Graphs {
		m := g.Memory
		if m == nil {
			continue
		}
		for _, n := range []uint64{m.SpillFill, m.IO, m.OpData, m.DDR} {
			if n > most || need > most {
				return -1
			}
			need += n
		}
	}
	if need > most {
		return -1
	}
	return int64(need)
}

// mib formats a number of bytes.
func mib(n int64) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}
