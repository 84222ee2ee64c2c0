package encdec

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes"
)

// writer writes one result.
type writer struct {
	m     *Model
	req   Request
	out   *Result
	emit  func(string) error
	begun bool // some text was emitted
}

// text continues the ids of a text.
func (w *writer) text(ctx context.Context) error {
	ids := w.m.words.Encode(w.req.Text, tokenizer.Options{Add: true})
	if err := checkSource(len(ids)); err != nil {
		return err
	}
	in := map[string]runtimes.Tensor{}
	for name, p := range w.m.inputs {
		if name == inputMask {
			in[name] = ones(p, len(ids))
		} else {
			in[name] = integers(p, ids)
		}
	}
	got, err := w.window(ctx, in, math.MaxInt32, nil)
	if err != nil {
		return err
	}
	w.out.IDs = got
	w.out.Text = w.decode(got)
	w.out.Segments = []Segment{{Text: w.out.Text, IDs: got}}
	return nil
}

// maxSource bounds the ids of a text.
const maxSource = 1 << 15

// checkSource reports a text of too many ids.
func checkSource(n int) error {
	if n > maxSource {
		return fault(diag.LoopLong, fmt.Sprintf("got a text of %d tokens, want at most %d", n, maxSource), "")
	}
	return nil
}

// shortest is the number of samples to which silence extends a sound: encoders of
// samples need about 900 for one state.
const shortest = 1024

// raw transcribes samples, in pieces of a window if the model has one.
func (w *writer) raw(ctx context.Context, samples []float32) error {
	rate := w.m.prepare.SampleRate
	for _, s := range pieces(samples, int(w.m.spec.Window*float64(rate)), rate) {
		piece, err := w.m.prepare.Samples(&preprocess.Wave{Rate: rate, Samples: samples[s[0]:s[1]]}) // normalized
		if err != nil {
			return err
		}
		if n := shortest - len(piece); n > 0 {
			piece = append(slices.Clip(piece), make([]float32, n)...)
		}
		t, err := w.m.prepare.FromSamples(piece)
		if err != nil {
			return err
		}
		in := map[string]runtimes.Tensor{w.m.sound: batched(tensor(t), len(w.m.inputs[w.m.sound].dims))}
		if p, ok := w.m.inputs[inputMask]; ok {
			in[inputMask] = ones(p, len(piece))
		}
		ids, err := w.piece(ctx, in, float64(len(piece))/float64(rate))
		if err != nil {
			return err
		}
		w.keep(Segment{Start: float64(s[0]) / float64(rate), End: float64(s[1]) / float64(rate), IDs: ids})
	}
	w.finish()
	return nil
}

// piece computes the ids of a piece of a sound.
func (w *writer) piece(ctx context.Context, in map[string]runtimes.Tensor, seconds float64) ([]int32, error) {
	if w.m.spec.Blank != nil {
		return w.collapsed(ctx, in)
	}
	limit := math.MaxInt32
	if w.m.spec.PerSecond > 0 {
		limit = max(int(math.Ceil(w.m.spec.PerSecond*seconds)), 1)
	}
	return w.window(ctx, in, limit, nil)
}

// batched adds leading dimensions of 1.
func batched(t runtimes.Tensor, rank int) runtimes.Tensor {
	for len(t.Shape) < rank {
		t.Shape = append([]int64{1}, t.Shape...)
	}
	return t
}

// mel transcribes the windows of a sound.
func (w *writer) mel(ctx context.Context, samples []float32) error {
	m := w.m
	frames, err := m.prepare.Spectrogram(samples)
	if err != nil {
		return err
	}
	long := frames.Count > frames.Size()
	stamps := w.req.Timestamps || long && m.spec.NoTimestamps != nil
	second := float64(m.prepare.SampleRate) / float64(m.prepare.Hop)
	for seek := 0; seek < frames.Count; {
		count := min(frames.Count-seek, frames.Size())
		in := map[string]runtimes.Tensor{m.sound: batched(tensor(frames.Window(seek)), 3)}
		var rules *stamping
		if stamps {
			rules = m.stamping()
		}
		ids, err := w.window(ctx, in, math.MaxInt32, rules)
		if err != nil {
			return err
		}
		offset := float64(seek) / second
		if !stamps {
			w.keep(Segment{Start: offset, End: min(offset+float64(count)/second, max(w.out.Seconds, offset)), IDs: ids})
			seek += count
			continue
		}
		found, next := rules.segments(ids, count, second)
		for _, s := range found {
			s.Start, s.End = s.Start+offset, s.End+offset
			text := w.textOf(s.IDs)
			w.keep(s)
			if err := w.send(text); err != nil {
				return err
			}
		}
		if next < 1 { // a window that ends where it begins
			next = count
		}
		seek += next
	}
	w.finish()
	return nil
}

// keep adds a segment to the result.
func (w *writer) keep(s Segment) {
	s.Text = w.textOf(s.IDs)
	w.out.Segments = append(w.out.Segments, s)
	w.out.IDs = append(w.out.IDs, s.IDs...)
}

// finish joins the texts of the segments.
func (w *writer) finish() {
	var all strings.Builder
	for i, s := range w.out.Segments {
		if i > 0 && !strings.HasPrefix(s.Text, " ") && w.m.spec.NoTimestamps == nil {
			all.WriteByte(' ')
		}
		all.WriteString(s.Text)
		w.out.Segments[i].Text = strings.TrimSpace(s.Text)
	}
	w.out.Text = strings.TrimSpace(all.String())
}

// textOf decodes ids without stop ids and time stamps.
func (w *writer) textOf(ids []int32) string {
	var words []int32
	for _, id := range ids {
		if w.worded(id) {
			words = append(words, id)
		}
	}
	return w.decode(words)
}

func (w *writer) decode(ids []int32) string {
	words := slices.DeleteFunc(slices.Clone(ids), func(id int32) bool { return !w.worded(id) })
	return w.m.words.Decode(words, tokenizer.DecodeOptions{Continued: w.m.Audible()})
}

// worded reports whether an id is one of text.
func (w *writer) worded(id int32) bool {
	s := w.m.spec
	return int(id) < w.m.words.Size() && !slices.Contains(s.Stop, int64(id)) && (s.NoTimestamps == nil || int64(id) < *s.NoTimestamps)
}

// send emits text; the first begins without a space.
func (w *writer) send(text string) error {
	if !w.begun {
		text = strings.TrimLeft(text, " ")
	}
	if text == "" {
		return nil
	}
	w.begun = true
	return w.emit(text)
}

// window computes the ids of one run of the encoder, without those of the start and
// the stop. With rules the ids are time stamps and text; without, the text is emitted
// as it comes.
func (w *writer) window(ctx context.Context, in map[string]runtimes.Tensor, limit int, rules *stamping) ([]int32, error) {
	start := time.Now()
	base, err := w.m.encode(ctx, in)
	if err != nil {
		return nil, err
	}
	w.out.Encode += time.Since(start)
	start = time.Now()
	defer func() { w.out.Decode += time.Since(start) }()
	prompt, err := w.prompt(ctx, base, rules != nil)
	if err != nil {
		return nil, err
	}
	limit = min(limit, w.m.spec.MaxIDs-len(prompt))
	if w.req.MaxIDs > 0 {
		limit = min(limit, w.req.MaxIDs)
	}
	if w.begun && rules == nil && w.m.spec.NoTimestamps == nil && w.m.Audible() {
		if err := w.emit(" "); err != nil {
			return nil, err
		}
	}
	text := w.m.words.Decoder(tokenizer.DecodeOptions{Continued: w.m.Audible()})
	var ids []int32
	for next := prompt; len(ids) < limit; {
		scores, err := base.step(ctx, next)
		if err != nil {
			return nil, err
		}
		id := w.m.choose(scores, ids, rules)
		if slices.Contains(w.m.spec.Stop, int64(id)) {
			break
		}
		ids = append(ids, id)
		next = []int32{id}
		if rules == nil && w.worded(id) {
			if err := w.send(text.Next(id)); err != nil {
				return nil, err
			}
		}
	}
	if rules == nil {
		return ids, w.send(text.Flush())
	}
	return ids, nil
}

// prompt returns the ids before the text: start, language, task and whether there are
// no time stamps. A language that is not named is detected in the first window.
func (w *writer) prompt(ctx context.Context, base *run, stamps bool) ([]int32, error) {
	s := w.m.spec
	var out []int32
	for _, id := range s.Start {
		out = append(out, int32(id))
	}
	if len(s.Languages) > 0 {
		if w.out.Language == "" {
			scores, err := base.fork().step(ctx, out)
			if err != nil {
				return nil, err
			}
			w.out.Language = likeliest(scores, s.Languages)
		}
		out = append(out, int32(s.Languages[w.out.Language]))
	}
	if id, ok := s.Tasks[w.req.Task]; ok {
		out = append(out, int32(id))
	}
	if s.NoTimestamps != nil && !stamps {
		out = append(out, int32(*s.NoTimestamps))
	}
	return out, nil
}

// likeliest returns the name with the highest score.
func likeliest(scores []float32, ids map[string]int64) string {
	best := ""
	for _, name := range sorted(ids) {
		if best == "" || scores[ids[name]] > scores[ids[best]] {
			best = name
		}
	}
	return best
}

// pieces divides samples into pieces of at most size, at the quietest tenth of a
// second of the last third of each.
func pieces(samples []float32, size, rate int) (out [][2]int) {
	from := 0
	for size > 0 && len(samples)-from > size {
		step := max(rate/10, 1)
		best, least := from+size, math.Inf(1)
		for at := from + size*2/3; at+step <= from+size; at += step / 2 {
			sum := 0.0
			for _, v := range samples[at : at+step] {
				sum += float64(v) * float64(v)
			}
			if sum < least {
				best, least = at+step/2, sum
			}
		}
		out = append(out, [2]int{from, best})
		from = best
	}
	return append(out, [2]int{from, len(samples)})
}
