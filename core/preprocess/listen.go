package preprocess

import (
	"errors"

	"mm-abi.org/mm/core/preprocess/codec"
)

// ErrNoSound reports an unknown audio format.
var ErrNoSound = errors.New("not a WAV, FLAC, MP3 or Ogg Vorbis")

// maxDecoded is the limit of samples of a compressed sound: 25 minutes at 44.1
// kHz, 70 at 16. A few bytes of a file may expand to many samples, which are in
// memory before resampling.
const maxDecoded = 1 << 26

// IsSound reports whether data begins with the magic of an audio format.
func IsSound(data []byte) bool { return IsWAV(data) || codec.Is(data) }

// DecodeSound decodes a WAV (see [DecodeWAV]), FLAC, MP3 or Ogg Vorbis file and
// mixes its channels to their mean. Encoder padding is removed: the samples are
// those that were encoded.
func DecodeSound(data []byte) (*Wave, error) {
	if IsWAV(data) {
		return DecodeWAV(data)
	}
	rate, samples, err := codec.Decode(data, codec.Limits{MinRate: minRate, MaxRate: maxRate, MaxChannels: 8, MaxSamples: maxDecoded})
	if errors.Is(err, codec.ErrFormat) {
		return nil, ErrNoSound
	}
	if err != nil {
		return nil, err
	}
	return &Wave{Rate: rate, Samples: samples}, nil
}
