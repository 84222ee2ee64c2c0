package preprocess

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Samples resamples a sound to the spec's sample rate, and normalizes it to
// mean 0 and variance 1 if set.
func (s *Spec) Samples(w *Wave) ([]float32, error) {
	if len(w.Samples) == 0 {
		return nil, errors.New("empty sound")
	}
	w, err := w.ResampleTo(s.SampleRate)
	if err != nil {
		return nil, err
	}
	if !s.Normalize {
		return w.Samples, nil
	}
	mean, square := 0.0, 0.0
	for _, v := range w.Samples {
		mean += float64(v)
	}
	mean /= float64(len(w.Samples))
	for _, v := range w.Samples {
		square += (float64(v) - mean) * (float64(v) - mean)
	}
	// A silent sound stays silent: the constant is that of wav2vec 2.0.
	scale := 1 / math.Sqrt(square/float64(len(w.Samples))+1e-7)
	out := make([]float32, len(w.Samples))
	for i, v := range w.Samples {
		out[i] = float32((float64(v) - mean) * scale)
	}
	return out, nil
}

// Windows splits samples into the inputs of single calls: each Chunk new
// samples after the Context samples before them. before are the Context samples
// ahead of the first; missing ones, and those after the last sample, are zeros.
// Without a Chunk all samples form one window.
func (s *Spec) Windows(samples, before []float32) [][]float32 {
	if s.Chunk == 0 {
		return [][]float32{samples}
	}
	count := (len(samples) + s.Chunk - 1) / s.Chunk
	all := make([]float32, s.Context+count*s.Chunk)
	if n := len(before) - s.Context; n > 0 {
		before = before[n:]
	}
	copy(all[s.Context-len(before):], before)
	copy(all[s.Context:], samples)
	out := make([][]float32, count)
	for i := range out {
		out[i] = all[i*s.Chunk:][:s.Context+s.Chunk]
	}
	return out
}

// FromSamples prepares one window of samples at the spec's rate.
func (s *Spec) FromSamples(samples []float32) (*Tensor, error) {
	if len(samples) == 0 {
		return nil, errors.New("empty sound")
	}
	layout := s.layout()
	if s.NMels == 0 {
		out := newWriter(s.Element(), len(samples))
		for i, v := range samples {
			out.put(i, s.element(float64(v), 0))
		}
		shape := []int{len(samples)}
		if layout == "NT" {
			shape = []int{1, len(samples)}
		}
		return &Tensor{DType: s.Element(), Shape: shape, Data: out.data}, nil
	}
	frames := s.frames(len(samples))
	if s.exceeds(int64(frames)) {
		return nil, fmt.Errorf("%d frames of %d bands exceed the limit", frames, s.NMels)
	}
	values := s.mel(samples, frames)
	out := newWriter(s.Element(), len(values))
	byFrame := strings.HasSuffix(layout, "TM")
	for i, v := range values {
		t, m := i/s.NMels, i%s.NMels
		at := i
		if !byFrame {
			at = m*frames + t
		}
		out.put(at, s.element(v, m))
	}
	return &Tensor{DType: s.Element(), Shape: s.melShape(frames), Data: out.data}, nil
}

// melShape returns the shape of mel frames.
func (s *Spec) melShape(frames int) (shape []int) {
	for _, axis := range s.layout() {
		switch axis {
		case 'M':
			shape = append(shape, s.NMels)
		case 'T':
			shape = append(shape, frames)
		default:
			shape = append(shape, 1)
		}
	}
	return shape
}

// exceeds reports whether so many mel frames are too many.
func (s *Spec) exceeds(frames int64) bool {
	return frames*int64(s.NMels) > maxSamples || frames*int64(s.nfft()) > maxWork
}

// maxWork limits frames times the transform size: a hop of one sample over a
// long sound would take hours.
const maxWork = 1 << 34
