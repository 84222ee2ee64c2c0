package encdec

import "math"

// stamping holds the rules of time stamps, those of transformers.
type stamping struct {
	begin      int32 // first time stamp
	stop       int32
	maxInitial int     // in steps; -1: any
	step       float64 // seconds
}

// stamping returns the rules of the model, which has time stamps.
func (m *Model) stamping() *stamping {
	s := &stamping{begin: int32(*m.spec.NoTimestamps) + 1, stop: int32(m.spec.Stop[0]), maxInitial: -1, step: 0.02}
	if m.spec.MaxInitial != nil {
		s.maxInitial = *m.spec.MaxInitial
	}
	if m.spec.StepMS > 0 {
		s.step = float64(m.spec.StepMS) / 1000
	}
	return s
}

var never = float32(math.Inf(-1))

// choose returns the id with the highest score that the rules allow after ids.
func (m *Model) choose(scores []float32, ids []int32, rules *stamping) int32 {
	if len(ids) == 0 {
		mask(scores, m.spec.BeginSuppress)
	}
	mask(scores, m.spec.Suppress)
	if rules != nil {
		rules.apply(scores, ids)
	}
	best := 0
	for i, v := range scores {
		if v > scores[best] {
			best = i
		}
	}
	return int32(best)
}

func mask(scores []float32, ids []int64) {
	for _, id := range ids {
		if id < int64(len(scores)) {
			scores[id] = never
		}
	}
}

func fill(scores []float32) {
	for i := range scores {
		scores[i] = never
	}
}

// apply forbids ids: time stamps come in pairs, except before the stop, and do not
// decrease; the first id is one; and one is chosen if they are together likelier than
// any text.
func (s *stamping) apply(scores []float32, ids []int32) {
	begin := min(int(s.begin), len(scores))
	scores[begin-1] = never // no time stamps
	last := len(ids) > 0 && ids[len(ids)-1] >= s.begin
	before := len(ids) < 2 || ids[len(ids)-2] >= s.begin
	switch {
	case last && before:
		fill(scores[begin:])
	case last:
		fill(scores[:min(int(s.stop), len(scores))])
	}
	least := begin
	for i := len(ids) - 1; i >= 0; i-- {
		if ids[i] >= s.begin {
			if least = int(ids[i]); !last || before {
				least++
			}
			break
		}
	}
	fill(scores[begin:min(max(least, begin), len(scores))])
	if len(ids) == 0 {
		fill(scores[:begin])
		if s.maxInitial >= 0 && begin+s.maxInitial+1 < len(scores) {
			fill(scores[begin+s.maxInitial+1:])
		}
	}
	if s.stamped(scores, begin) {
		fill(scores[:begin])
	}
}

// stamped reports whether the time stamps are together likelier than any text.
func (s *stamping) stamped(scores []float32, begin int) bool {
	text, top := math.Inf(-1), math.Inf(-1)
	for _, v := range scores[:begin] {
		text = max(text, float64(v))
	}
	for _, v := range scores[begin:] {
		top = max(top, float64(v))
	}
	if math.IsInf(top, -1) {
		return false
	}
	sum := 0.0
	for _, v := range scores[begin:] {
		sum += math.Exp(float64(v) - top)
	}
	return top+math.Log(sum) > text
}

// segments divides the ids of a window of so many frames, of which second are one
// second, and returns the frames after which the next window begins.
func (s *stamping) segments(ids []int32, frames int, second float64) (out []Segment, next int) {
	stamp := func(i int) bool { return i >= 0 && i < len(ids) && ids[i] >= s.begin }
	at := func(i int) float64 { return float64(ids[i]-s.begin) * s.step }
	n := len(ids)
	single := stamp(n-1) && n > 1 && !stamp(n-2)
	var cuts []int
	for i := range n - 1 {
		if stamp(i) && stamp(i+1) {
			cuts = append(cuts, i+1)
		}
	}
	if len(cuts) == 0 {
		end := float64(int(float64(frames)/second/s.step)) * s.step
		for i := n - 1; i >= 0; i-- {
			if stamp(i) {
				if ids[i] != s.begin {
					end = at(i)
				}
				break
			}
		}
		return []Segment{{End: end, IDs: ids}}, frames
	}
	if single {
		cuts = append(cuts, n)
	} else {
		cuts[len(cuts)-1]++
	}
	from := 0
	for i, cut := range cuts {
		end := cut - 1
		if i == len(cuts)-1 && !single {
			end = cut - 2
		}
		out = append(out, Segment{Start: at(from), End: at(max(end, from)), IDs: ids[from:cut]})
		from = cut
	}
	if single {
		return out, frames
	}
	return out, int(math.Round(at(from-2) * second))
}
