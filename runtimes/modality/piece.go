package modality

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/core/preprocess"
)

// maxPieces bounds the pieces of one sound.
const maxPieces = 1 << 12

// Pieces cuts a sound for an encoder that hears ms milliseconds at once. Of ms 0 it
// is one piece as it is; a sound that is no longer is one, filled up with silence.
// Of a longer one the silence at either end is left out first: what is left stands
// at the beginning of one piece, where it fits, as a sound by itself would, and is
// cut in pieces of that length otherwise, of which those that are silent are left
// out as well. Silent is what is less than a hundredth of the loudest 10 ms.
func Pieces(w *preprocess.Wave, ms int) ([]*preprocess.Wave, error) {
	if ms == 0 {
		return []*preprocess.Wave{w}, nil
	}
	size := int(int64(ms) * int64(w.Rate) / 1000)
	if size < 1 || len(w.Samples) == 0 {
		return nil, fmt.Errorf("%d samples at %d Hz in pieces of %d ms", len(w.Samples), w.Rate, ms)
	}
	if len(w.Samples) <= size {
		return []*preprocess.Wave{cut(w, 0, size)}, nil
	}
	from, to, loud := heard(w)
	if spare := size - (to - from); spare >= 0 {
		return []*preprocess.Wave{cut(w, max(0, min(from-min(size/lead, spare), len(w.Samples)-size)), size)}, nil
	}
	if n := (to - from + size - 1) / size; n > maxPieces {
		return nil, fmt.Errorf("the sound has %d pieces of %d ms, the limit is %d", n, ms, maxPieces)
	}
	var out []*preprocess.Wave
	for ; from < to; from += size {
		if loud(from, min(from+size, len(w.Samples))) {
			out = append(out, cut(w, from, size))
		}
	}
	return out, nil
}

// cut is size samples from one on, filled up with silence where there are fewer.
func cut(w *preprocess.Wave, from, size int) *preprocess.Wave {
	piece := w.Samples[from:min(from+size, len(w.Samples))]
	if len(piece) < size {
		piece = append(make([]float32, 0, size), piece...)[:size]
	}
	return &preprocess.Wave{Rate: w.Rate, Samples: piece}
}

const (
	lead   = 30     // of a piece a lead-th stands before what is heard
	hops   = 100    // a second, of which each is silent or is not
	silent = 0.0001 // of the loudest one's power
)

// heard is where a sound begins and ends that is not silent, and which parts of it
// are not. Where all is silence, none of it is.
func heard(w *preprocess.Wave) (from, to int, loud func(from, to int) bool) {
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
