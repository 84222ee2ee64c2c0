package modality

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/core/preprocess"
)

// maxPieces bounds the pieces of one sound.
const maxPieces = 1 << 12

// Pieces cuts a sound for an encoder with a receptive field of ms milliseconds. If
// ms is 0, the sound is one piece, unchanged. A sound of at most one piece is padded
// with silence. From a longer one, Pieces removes the silence at both ends; if the
// rest fits one piece it starts near the beginning, as a short sound does, and
// otherwise it is cut into pieces, without the silent ones. A span is silent if its
// amplitude is below a hundredth of the loudest 10 ms.
func Pieces(w *preprocess.Wave, ms int) ([]*preprocess.Wave, error) {
	if ms == 0 {
		return []*preprocess.Wave{w}, nil
	}
	size := int(int64(ms) * int64(w.Rate) / 1000)
	if size < 1 || len(w.Samples) == 0 {
		return nil, fmt.Errorf("cannot cut %d samples at %d Hz into pieces of %d ms", len(w.Samples), w.Rate, ms)
	}
	if len(w.Samples) <= size {
		return []*preprocess.Wave{cut(w, 0, size)}, nil
	}
	from, to, loud := audible(w)
	if spare := size - (to - from); spare >= 0 {
		return []*preprocess.Wave{cut(w, max(0, min(from-min(size/lead, spare), len(w.Samples)-size)), size)}, nil
	}
	if n := (to - from + size - 1) / size; n > maxPieces {
		return nil, fmt.Errorf("sound has %d pieces of %d ms, limit %d", n, ms, maxPieces)
	}
	var out []*preprocess.Wave
	for ; from < to; from += size {
		if loud(from, min(from+size, len(w.Samples))) {
			out = append(out, cut(w, from, size))
		}
	}
	return out, nil
}

// cut returns size samples, padded with silence.
func cut(w *preprocess.Wave, from, size int) *preprocess.Wave {
	piece := w.Samples[from:min(from+size, len(w.Samples))]
	if len(piece) < size {
		piece = append(make([]float32, 0, size), piece...)[:size]
	}
	return &preprocess.Wave{Rate: w.Rate, Samples: piece}
}

const (
	lead   = 30     // 1/lead of a piece precedes the sound
	hops   = 100    // analysis steps per second
	silent = 0.0001 // relative to the power of the loudest step
)

// audible returns the bounds of the part that is not silent, and a function that
// reports whether a span is not silent. If all samples are zero, none is silent.
func audible(w *preprocess.Wave) (from, to int, loud func(from, to int) bool) {
	hop := max(1, w.Rate/hops)
	var power []float64
	for part := range slices.Chunk(w.Samples, hop) {
		sum := 0.0
		for _, v := range part {
			sum += float64(v) * float64(v)
		}
		power = append(power, sum)
	}
	least := silent * slices.Max(power)
	above := func(p float64) bool { return p >= least }
	first, last := slices.IndexFunc(power, above), len(power)-1
	for !above(power[last]) {
		last--
	}
	return first * hop, min((last+1)*hop, len(w.Samples)), func(from, to int) bool {
		return slices.ContainsFunc(power[from/hop:min((to+hop-1)/hop, len(power))], above)
	}
}
