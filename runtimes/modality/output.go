package modality

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
)

// maxJoined bounds the bytes of one output over all windows.
const maxJoined = 1 << 31

// join concatenates the outputs of windows: along axis 1 after a batch of 1, along
// axis 0 otherwise; scalars become a row.
func join(pieces []map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	if len(pieces) == 1 {
		return pieces[0], nil
	}
	out := make(map[string]runtimes.Tensor, len(pieces[0]))
	for name, first := range pieces[0] {
		if err := joinable(len(first.Data), len(pieces)); err != nil {
			return nil, fmt.Errorf("output %q: %w", name, err)
		}
		t := runtimes.Tensor{Type: first.Type, Shape: slices.Clone(first.Shape), Data: make([]byte, 0, len(first.Data)*len(pieces))}
		axis := 0
		if len(t.Shape) > 1 && t.Shape[0] == 1 {
			axis = 1
		}
		if len(t.Shape) == 0 {
			t.Shape = []int64{1}
		}
		t.Shape[axis] = 0
		for _, p := range pieces {
			v, ok := p[name]
			if !ok || v.Type != first.Type || !slices.Equal(v.Shape, first.Shape) {
				return nil, fmt.Errorf("shape mismatch of output %q: %v in one window, %v in another", name, first.Shape, v.Shape)
			}
			t.Data = append(t.Data, v.Data...)
			if len(v.Shape) == 0 {
				t.Shape[0]++
			} else {
				t.Shape[axis] += v.Shape[axis]
			}
		}
		out[name] = t
	}
	return out, nil
}

// joinable checks the size of the joined outputs of windows.
func joinable(size, windows int) error {
	if size > maxJoined/windows {
		return fmt.Errorf("%d windows exceed %d bytes", windows, maxJoined)
	}
	return nil
}

// read interprets the outputs by the manifest. They cover seconds of sound that
// begin at start.
func (s *Session) read(r *Result, start, seconds float64) error {
	if s.m == nil {
		return nil
	}
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(s.m.Postprocess)) {
		p := s.m.Postprocess[name]
		t, ok := r.Outputs[name]
		if !ok {
			return fmt.Errorf("missing output %q", name)
		}
		v, err := Numbers(t)
		if err == nil && slices.ContainsFunc(v, math.IsNaN) {
			err = errors.New("contains NaN")
		}
		if err == nil {
			switch {
			case p.CTC != nil:
				var text string
				text, err = ctc(t.Shape, v, p.CTC, s.labels[p.CTC.Labels])
				texts = append(texts, text)
			case p.Labels != nil:
				var top []Label
				top, err = Top(v, p.Labels.Top, p.Labels.Softmax, s.labels[p.Labels.File])
				for i := range top {
					top[i].Output = name
				}
				r.Labels = append(r.Labels, top...)
			case p.Segments != nil:
				for _, seg := range segments(v, p.Segments, seconds/float64(max(len(v), 1))) {
					seg.Output, seg.Start, seg.End = name, seg.Start+start, seg.End+start
					r.Segments = append(r.Segments, seg)
				}
			}
		}
		if err != nil {
			return fmt.Errorf("reading output %q: %w", name, err)
		}
	}
	r.Text = strings.Join(texts, "\n")
	return nil
}

// ctc reads [N, T, classes] or [T, classes] as text, one line for each of N.
func ctc(shape []int64, v []float64, c *modules.CTC, labels []string) (string, error) {
	if len(shape) == 2 {
		shape = append([]int64{1}, shape...)
	}
	classes := c.Classes(len(labels))
	if len(shape) != 3 || shape[2] != int64(classes) {
		return "", fmt.Errorf("shape %v, want [N, T, %d] for the labels, the blank and the space", shape, classes)
	}
	if c.Blank >= classes {
		return "", fmt.Errorf("blank is class %d of %d", c.Blank, classes)
	}
	var lines []string
	for n := range shape[0] {
		var line strings.Builder
		last := c.Blank
		for t := range shape[1] {
			at := int(n*shape[1]+t) * classes
			best := argmax(v[at:][:classes])
			if best != last && best != c.Blank {
				i := best
				if best > c.Blank {
					i--
				}
				if i < len(labels) {
					line.WriteString(labels[i])
				} else {
					line.WriteString(" ")
				}
			}
			last = best
		}
		lines = append(lines, line.String())
	}
	return strings.Join(lines, "\n"), nil
}

func argmax(v []float64) int {
	best := 0
	for i := range v {
		if v[i] > v[best] {
			best = i
		}
	}
	return best
}

// Top returns the n highest scores, 5 if n is 0, in descending order. softmax turns
// logits into probabilities. If labels is nil, the classes have no names.
func Top(scores []float64, n int, softmax bool, labels []string) ([]Label, error) {
	if labels != nil && len(labels) != len(scores) {
		return nil, fmt.Errorf("got %d scores, want %d as there are labels", len(scores), len(labels))
	}
	if n == 0 {
		n = 5
	}
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case scores[a] > scores[b]:
			return -1
		case scores[a] < scores[b]:
			return 1
		}
		return 0
	})
	sum := 0.0
	if softmax && len(order) > 0 {
		for _, v := range scores {
			sum += math.Exp(v - scores[order[0]])
		}
	}
	var out []Label
	for _, i := range order[:min(n, len(order))] {
		l := Label{Index: i, Score: scores[i]}
		if softmax {
			l.Score = math.Exp(scores[i]-scores[order[0]]) / sum
		}
		if labels != nil {
			l.Name = labels[i]
		}
		out = append(out, l)
	}
	return out, nil
}

// segments returns the spans in which values stay above the thresholds; a value
// lasts step seconds.
func segments(v []float64, c *modules.Segments, step float64) []Segment {
	high, low := c.Bounds()
	const rounding = 1e-6 // seconds; steps are not integers
	silence := float64(c.MinSilenceMS)/1000 - rounding
	var out []Segment
	var open *Segment
	quiet := -1 // index at which values fell below low
	end := func(at int) {
		open.End = float64(at) * step
		if open.End-open.Start >= float64(c.MinMS)/1000-rounding {
			out = append(out, *open)
		}
		open, quiet = nil, -1
	}
	for i, x := range v {
		switch {
		case open == nil && x >= high:
			open = &Segment{Start: float64(i) * step, Score: x}
		case open == nil:
		case x >= low:
			if quiet = -1; x > open.Score {
				open.Score = x
			}
		default:
			if quiet < 0 {
				quiet = i
			}
			if float64(i+1-quiet)*step >= silence {
				end(quiet)
			}
		}
	}
	if open != nil {
		if quiet < 0 {
			quiet = len(v)
		}
		end(quiet)
	}
	// Padded spans meet in the middle of the gap between them.
	pad := float64(c.PadMS) / 1000
	total := float64(len(v)) * step
	for i := range out {
		from, to := 0.0, total
		if i > 0 {
			from = out[i-1].End
		}
		if i+1 < len(out) {
			gap := out[i+1].Start - out[i].End
			to = out[i].End + gap/2
		}
		out[i].Start = max(out[i].Start-pad, from)
		out[i].End = min(out[i].End+pad, to)
	}
	return out
}

// Numbers returns the elements of a tensor of any type.
func Numbers(t runtimes.Tensor) ([]float64, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	width := t.Type.Size()
	out := make([]float64, 0, len(t.Data)/width)
	for b := t.Data; len(b) > 0; b = b[width:] {
		var v float64
		switch t.Type {
		case runtimes.Float64:
			v = math.Float64frombits(le.Uint64(b))
		case runtimes.Float32:
			v = float64(math.Float32frombits(le.Uint32(b)))
		case runtimes.Float16:
			v = widened(le.Uint16(b))
		case runtimes.BFloat16:
			v = float64(math.Float32frombits(uint32(le.Uint16(b)) << 16))
		case runtimes.Int64:
			v = float64(int64(le.Uint64(b)))
		case runtimes.Uint64:
			v = float64(le.Uint64(b))
		case runtimes.Int32:
			v = float64(int32(le.Uint32(b)))
		case runtimes.Uint32:
			v = float64(le.Uint32(b))
		case runtimes.Int16:
			v = float64(int16(le.Uint16(b)))
		case runtimes.Uint16:
			v = float64(le.Uint16(b))
		case runtimes.Int8:
			v = float64(int8(b[0]))
		default:
			v = float64(b[0])
		}
		out = append(out, v)
	}
	return out, nil
}

// widened returns the value of an IEEE 754 binary16.
func widened(h uint16) float64 {
	sign := 1 - 2*float64(h>>15)
	exp, frac := int(h>>10&31), float64(h&1023)
	switch {
	case exp == 0:
		return sign * math.Ldexp(frac, -24)
	case exp == 31 && frac != 0:
		return math.NaN()
	case exp == 31:
		return sign * math.Inf(1)
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}
