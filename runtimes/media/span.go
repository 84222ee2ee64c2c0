package media

import (
	"context"
	"fmt"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/preprocess"
)

// span sets what depends on the length of a sound whose encoder takes one length a
// call. It reads the sound.
func (s *Senses) span(m *Medium) error {
	spec := divided(s.Build.Manifests[m.joins.Encoder.Name], func(s *preprocess.Spec) bool { return s.Span != nil })
	if spec == nil || m.Part.Type != abi.Audio {
		return nil
	}
	if err := s.read(context.Background(), m, 0); err != nil {
		return fmt.Errorf("reading the %s input: %w", m.Part.Type, err)
	}
	if !preprocess.IsSound(m.data) {
		return nil // the encoder reports it
	}
	w, err := preprocess.DecodeSound(m.data)
	if err != nil {
		return fmt.Errorf("reading the %s: %w", named(*m.Part), err)
	}
	// As the resampled sound has, rounded up.
	n := (int64(len(w.Samples))*int64(spec.SampleRate) + int64(w.Rate) - 1) / int64(max(w.Rate, 1))
	m.calls, _ = spec.Span.Calls(int(n))
	m.Places = m.calls * m.joins.TCap
	return nil
}
