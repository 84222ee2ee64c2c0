package modality

import (
	"fmt"

	"mm-abi.org/mm/core/preprocess"
)

// maxPieces bounds the pieces of one sound.
const maxPieces = 1 << 12

// Pieces cuts a sound for an encoder that hears ms milliseconds at once: each
// piece is so long, the last filled up with silence. Of ms 0 it is one piece as
// it is.
func Pieces(w *preprocess.Wave, ms int) ([]*preprocess.Wave, error) {
	if ms == 0 {
		return []*preprocess.Wave{w}, nil
	}
	size := int(int64(ms) * int64(w.Rate) / 1000)
	if size < 1 || len(w.Samples) == 0 {
		return nil, fmt.Errorf("%d samples at %d Hz in pieces of %d ms", len(w.Samples), w.Rate, ms)
	}
	n := (len(w.Samples) + size - 1) / size
	if n > maxPieces {
		return nil, fmt.Errorf("the sound has %d pieces of %d ms, the limit is %d", n, ms, maxPieces)
	}
	out := make([]*preprocess.Wave, n)
	for i := range out {
		piece := w.Samples[i*size : min((i+1)*size, len(w.Samples))]
		if len(piece) < size {
			piece = append(make([]float32, 0, size), piece...)[:size]
		}
		out[i] = &preprocess.Wave{Rate: w.Rate, Samples: piece}
	}
	return out, nil
}
