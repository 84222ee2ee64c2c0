package preprocess

import (
	"errors"

	"mm-abi.org/mm/core/preprocess/codec"
)

// ErrNoSound says that a file is of none of the formats of sounds.
var ErrNoSound = errors.New("no WAV, FLAC, MP3 or Ogg Vorbis")

// maxDecoded is the most samples of a compressed sound: 25 minutes at 44.1 kHz,
// 70 at 16. A few bytes of a file may stand for many samples, which are in memory
// before they are brought to a model's rate.
const maxDecoded = 1 << 26

// IsSound reports whether data begins as a sound does.
func IsSound(data []byte) bool { return IsWAV(data) || codec.Is(data) }

// DecodeSound reads a sound of a WAV (see [DecodeWAV]), FLAC, MP3 or Ogg Vorbis
// file and mixes its channels to their mean. What an encoder padded is left out:
// the samples are those that were encoded.
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
