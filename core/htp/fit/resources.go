package fit

import (
	"fmt"
	"math"

	"mm-abi.org/mm/core/htp/blob"
)

// elements judges the inputs and outputs: known element types, whole numbers of
// bytes, fixed dimensions, scales that mean something.
func (j *judge) elements() {
	types, bad, unknown := map[string]bool{}, "", ""
	shown := ""
	for _, g := range j.c.Graphs {
		for _, list := range [][]blob.Tensor{g.Inputs, g.Outputs} {
			for _, t := range list {
				if name := t.DType.String(); !types[name] {
					types[name] = true
					if shown != "" {
						shown += ", "
					}
					shown += name
				}
				if b, u := element(t); b != "" && bad == "" {
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
		j.add(AxisDType, Not, "no graph", wants, "the context has no graph", "compile it anew")
	case bad != "":
		j.add(AxisDType, Not, shown, wants, bad, "compile the model with fixed shapes")
	case unknown != "":
		j.add(AxisDType, Unknown, shown, wants, unknown, "--accept dtype goes on without")
	default:
		j.add(AxisDType, Fits, shown, wants, "", "")
	}
}

// element says what is wrong with a tensor, or what of it is not known.
func element(t blob.Tensor) (bad, unknown string) {
	for i, d := range t.Dims {
		if d == 0 || i < len(t.Dynamic) && t.Dynamic[i] {
			return fmt.Sprintf("has a dynamic dimension: %v", t.Dims), ""
		}
	}
	if t.Version > 2 {
		return "", fmt.Sprintf("is of version %d, which is not known", t.Version)
	}
	if !t.DType.Known() {
		return "", fmt.Sprintf("has the element type %s, which is not known", t.DType)
	}
	if _, ok := t.Bytes(); !ok {
		return fmt.Sprintf("has the dimensions %v, which no memory holds", t.Dims), ""
	}
	q := t.Quant
	if q.Encoding > blob.PerAxisBits && q.Encoding != blob.Unquantised {
		return "", fmt.Sprintf("is quantised by %s, which is not known", q.Encoding)
	}
	for _, s := range q.Scales {
		if !(s > 0) || math.IsInf(float64(s), 0) {
			return fmt.Sprintf("has the scale %g", s), ""
		}
	}
	return "", ""
}

// vtcm compares the memory of the HTP itself.
func (j *judge) vtcm() {
	most, told := uint32(0), len(j.c.Graphs) > 0
	for _, g := range j.c.Graphs {
		if g.Memory == nil {
			told = false
			continue
		}
		most = max(most, g.Memory.VTCM)
	}
	has := uint32(0)
	if j.t.Chip != nil {
		has = j.t.Chip.VTCM
	}
	switch {
	case !told:
		j.add(AxisVTCM, Unknown, "not said", mib(int64(has)), "the file does not say how much of the HTP's memory its graphs take", "--accept vtcm goes on without")
	case has == 0:
		j.add(AxisVTCM, Unknown, mib(int64(most)), "not known", "the table of chips does not have it", "--socs FILE adds it; --accept vtcm goes on without")
	case most > has:
		j.add(AxisVTCM, Not, mib(int64(most)), mib(int64(has)), "the graphs were compiled for more of the HTP's memory than the chip has", fmt.Sprintf("compile it with vtcm_mb %d", has>>20))
	default:
		j.add(AxisVTCM, Fits, mib(int64(most)), mib(int64(has)), "", "")
	}
}

// memory compares what loading takes. Of the file a fifth more is counted, for
// the runtime's own; what graphs say of themselves comes on top.
func (j *judge) memory() {
	need := Need(j.c)
	switch {
	case need < 0:
		j.add(AxisMemory, Not, "more than 2^62 bytes", mib(j.t.Memory), "what the graphs say they take cannot be", "compile it anew")
	case j.t.Memory == 0:
		j.add(AxisMemory, Unknown, mib(need), "not said", "nobody said how much memory the target gives", "--memory 12GiB says it; --accept memory goes on without")
	case need > j.t.Memory:
		j.add(AxisMemory, Not, mib(need), mib(j.t.Memory), "it does not fit into the target's memory", "split the model into several contexts")
	default:
		j.add(AxisMemory, Fits, mib(need), mib(j.t.Memory), "", "")
	}
}

// Need is how many bytes of memory loading a context takes, about: the file and
// a fifth of it, and of each graph inputs, outputs, intermediate results. It is
// below 0 where the sum is beyond all memory.
func Need(c *blob.Context) int64 {
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

// mib writes a number of bytes.
func mib(n int64) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}
