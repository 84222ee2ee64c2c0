package preprocess

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Span prepares mel frames of sounds of one length, as the models that follow
// Whisper take them: a shorter sound is followed by silence, whose frames count for
// Range too, and the frame at the very end is left out.
type Span struct {
	Samples int `json:"samples"` // of a call, a multiple of the hop
	// Longer is what becomes of a longer sound: cut (default) or divide, into calls.
	Longer string `json:"longer,omitempty"`
	// Frames is all (default); or sound: those of the sound, rounded up to an even
	// number, and the one after them, which convolutions with a step of two reach.
	Frames string `json:"frames,omitempty"`
}

// maxSpans limits the calls of a sound.
const maxSpans = 128

func (s *Spec) checkSpan(wrong func(key, format string, args ...any), oneOf func(key, v string, allowed ...string)) {
	oneOf("span", s.Span.Longer, "cut", "divide")
	oneOf("span", s.Span.Frames, "all", "sound")
	switch n := s.Span.Samples; {
	case s.NMels == 0 || s.Chunk != 0 || s.Uncenter || s.Normalize:
		wrong("span", "span requires n_mels and excludes chunk, uncenter and normalize")
	case n < 1 || n > maxChunk || n%s.hop() != 0:
		wrong("span", "got %d samples, want a multiple of the hop of %d, at most %d", n, s.hop(), maxChunk)
	case s.Span.Frames == "sound" && s.Span.Longer == "divide":
		wrong("span", "frames: sound excludes longer: divide")
	}
}

// Calls returns the number of calls for a sound of n samples, and the samples of the
// sound that they take.
func (p *Span) Calls(n int) (calls, samples int) {
	if n <= p.Samples || p.Longer != "divide" {
		return 1, min(n, p.Samples)
	}
	return (n + p.Samples - 1) / p.Samples, n
}

// FromSpan prepares a sound at the spec's rate, a tensor for each call.
func (s *Spec) FromSpan(samples []float32) ([]*Tensor, error) {
	calls, n := s.Span.Calls(len(samples))
	frames := s.Span.Samples / s.hop()
	switch {
	case n == 0:
		return nil, errors.New("empty sound")
	case calls > maxSpans || s.exceeds(int64(calls)*int64(frames)):
		return nil, fmt.Errorf("sound of %d × %d samples exceeds the limit of %d calls or %d samples", calls, s.Span.Samples, maxSpans, maxSamples)
	}
	padded := make([]float32, calls*s.Span.Samples)
	copy(padded, samples[:n])
	values := s.mel(padded, calls*frames)
	used := frames
	if s.Span.Frames == "sound" {
		used = ((n+s.hop()-1)/s.hop()+1)/2*2 + 1
	}
	var out []*Tensor
	for call := range calls {
		w := newWriter(s.Element(), used*s.NMels)
		byFrame := strings.HasSuffix(s.layout(), "TM")
		for t := range used {
			for m := range s.NMels {
				v := float32(0) // beyond the last, as a convolution pads
				if t < frames {
					v = s.element(values[(call*frames+t)*s.NMels+m], m)
				}
				at := m*used + t
				if byFrame {
					at = t*s.NMels + m
				}
				w.put(at, v)
			}
		}
		out = append(out, &Tensor{DType: s.Element(), Shape: s.melShape(used), Data: w.data})
	}
	return out, nil
}

// Spectrogram is the mel frames of a whole sound, whose loudest one counts for Range.
type Spectrogram struct {
	Count  int
	spec   *Spec
	values []float64
}

// Spectrogram computes the frames of a sound at the spec's rate, which has a span. A sound
// that is not longer than the span is followed by silence up to its length.
func (s *Spec) Spectrogram(samples []float32) (*Spectrogram, error) {
	if len(samples) == 0 {
		return nil, errors.New("empty sound")
	}
	if n := s.Span.Samples; len(samples) < n {
		samples = append(slices.Clone(samples), make([]float32, n-len(samples))...)
	}
	count := len(samples) / s.hop()
	if s.exceeds(int64(count)) {
		return nil, fmt.Errorf("%d frames of %d bands exceed the limit", count, s.NMels)
	}
	return &Spectrogram{Count: count, spec: s, values: s.mel(samples, count)}, nil
}

// Size returns the number of frames of a window.
func (f *Spectrogram) Size() int { return f.spec.Span.Samples / f.spec.hop() }

// Window returns the frames from a place on; those after the last are zeros.
func (f *Spectrogram) Window(from int) *Tensor {
	s, size := f.spec, f.Size()
	w := newWriter(s.Element(), size*s.NMels)
	byFrame := strings.HasSuffix(s.layout(), "TM")
	for t := range size {
		for m := range s.NMels {
			v := float32(0)
			if from+t < f.Count {
				v = s.element(f.values[(from+t)*s.NMels+m], m)
			}
			at := m*size + t
			if byFrame {
				at = t*s.NMels + m
			}
			w.put(at, v)
		}
	}
	return &Tensor{DType: s.Element(), Shape: s.melShape(size), Data: w.data}
}
