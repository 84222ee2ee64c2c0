package modality

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/core/preprocess"
)

// maxPieces bounds the pieces of one sound.
const maxPieces = 1 << 12

// Pieces cuts a sound for an encoder that hears ms milliseconds at once. Of ms 0,
// or where it is no longer, it is one piece as it is, filled up with silence. Of a
// longer one the silence at either end is left out first: what is left stands at
// the beginning of one piece, where it fits, as a sound by itself would, and is cut
// in pieces of that length otherwise, of which those that are silent are left out
// as well. Silent is what
// is a hundredth of the loudest 10 ms and less.
func Pieces(w *preprocess.Wave, ms int) ([]*preprocess.Wave, error) {
	if ms == 0 {
		return []*preprocess.Wave{w}, nil
	}
	size := int(int64(ms) * int64(w.Rate) / 1000)
	if size < 1 || len(w.Samples) == 0 {
		return nil, fmt.Errorf("%d samples at %d Hz in pieces of %d ms", len(w.Samples), w.Rate, ms)
	}
	from, to, loud := 0, len(w.Samples), func(int, int) bool { return true }
	if to > size {
		from, to, loud = heard(w)
	}
	if to-from <= size {
		from = max(0, min(from-min(size/lead, size-(to-from)), len(w.Samples)-size))
		to = from + size
	}
	if n := (to - from + size - 1) / size; n > maxPieces {
		return nil, fmt.Errorf("the sound has %d pieces of %d ms, the limit is %d", n, ms, maxPieces)
	}
	var out []*preprocess.Wave
	for ; from < to; from += size {
		if end := min(from+size, len(w.Samples)); loud(from, end) {
			piece := w.Samples[from:end]
			if len(piece) < size {
				piece = append(make([]float32, 0, size), piece...)[:size]
			}
			out = append(out, &preprocess.Wave{Rate: w.Rate, Samples: piece})
		}
	}
	return out, nil
}

const (
	lead   = 30     // of a piece a lead-th stands before what is heard
	hops   = 100    // a second, of which each is silent or is not
	silent = 0.0001 // of the loudest one's power
)

// heard is where a sound that is not all silence begins and ends, and which parts
// of it are not silent.
func heard(w *preprocess.Wave) (from, to int, loud func(from, to int) bool) {
	hop := max(1, w.Rate/hops)
	var power []float64
	for at := 0; at < len(w.Samples); at += hop {
		sum := 0.0
		for _, v := range w.Samples[at:min(at+hop, len(w.Samples))] {
			sum += float64(v) * float64(v)
		}
		power = append(power, sum)
	}
	least := silent * slices.Max(power)
	above := func(p float64) bool { return p > least }
	first := slices.IndexFunc(power, above)
	if first < 0 { // all of it
		return 0, len(w.Samples), func(int, int) bool { return true }
	}
	last := len(power) - 1
	for !above(power[last]) {
		last--
	}
	return first * hop, min((last+1)*hop, len(w.Samples)), func(from, to int) bool {
		return slices.ContainsFunc(power[from/hop:min((to+hop-1)/hop, len(power))], above)
	}
}
