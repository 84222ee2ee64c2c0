// Package codec decodes compressed sounds (FLAC, MP3 and Ogg Vorbis) and raw
// video (Y4M).
//
// The arithmetic of sounds is that of libraries; this package adds their
// missing checks. It removes tags before decoding and encoder padding after it,
// validates the tables of a Vorbis stream before they are allocated, counts
// decoded samples against the [Limits], and turns a panic of a decoder into an
// error.
package codec

import (
	"errors"
	"fmt"
	"math"
)

// ErrFormat reports an unknown format.
var ErrFormat = errors.New("not a FLAC, MP3 or Ogg Vorbis")

// Limits limit a sound.
type Limits struct {
	MinRate, MaxRate int // Hz
	MaxChannels      int
	MaxSamples       int // of the resulting channel, and half of those of all channels
}

// format is a supported format.
type format struct {
	is     func(data []byte) bool
	decode func(data []byte, s *sink) error
}

func formats() []format {
	return []format{{isFLAC, decodeFLAC}, {isOgg, decodeOgg}, {isMP3, decodeMP3}}
}

// Is reports whether data begins as a compressed sound.
func Is(data []byte) bool {
	data, tagged := trimTags(data)
	for _, f := range formats() {
		if f.is(data) {
			return true
		}
	}
	return tagged
}

// Decode decodes a file to one channel, the mean of its channels, −1 to 1, at
// rate samples per second. A truncated file is an error. It needs about twice
// the memory of the result.
func Decode(data []byte, lim Limits) (rate int, samples []float32, err error) {
	data, _ = trimTags(data)
	for _, f := range formats() {
		if !f.is(data) {
			continue
		}
		s := &sink{lim: lim}
		if err := recoverPanic(func() error { return f.decode(data, s) }); err != nil {
			return 0, nil, err
		}
		return s.rate, s.samples, s.check()
	}
	return 0, nil, ErrFormat
}

// recoverPanic runs a decoder and recovers panics: decoders index their tables by
// untrusted values.
func recoverPanic(decode func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged file: %v", p)
		}
	}()
	return decode()
}

// trimTags removes ID3v2 tags, which may precede any format.
func trimTags(data []byte) (rest []byte, tagged bool) {
	for len(data) >= 10 && string(data[:3]) == "ID3" {
		n := 10
		for _, b := range data[6:10] {
			if b&0x80 != 0 {
				return data, tagged
			}
		}
		n += int(data[6])<<21 | int(data[7])<<14 | int(data[8])<<7 | int(data[9])
		if data[5]&0x10 != 0 { // a footer
			n += 10
		}
		if n > len(data) {
			return data, tagged
		}
		data, tagged = data[n:], true
	}
	return data, tagged
}

// sink collects decoded samples.
type sink struct {
	lim            Limits
	rate, channels int
	samples        []float32
}

// open checks the header's values.
func (s *sink) open(rate, channels int) error {
	switch {
	case rate < s.lim.MinRate || rate > s.lim.MaxRate:
		return fmt.Errorf("bad sample rate: got %d, want %d to %d", rate, s.lim.MinRate, s.lim.MaxRate)
	case channels < 1 || channels > s.lim.MaxChannels:
		return fmt.Errorf("bad channel count: got %d, want 1 to %d", channels, s.lim.MaxChannels)
	}
	s.rate, s.channels = rate, channels
	return nil
}

// room checks n more samples per channel against the limit.
func (s *sink) room(n int) error {
	most := min(s.lim.MaxSamples, 2*s.lim.MaxSamples/s.channels)
	if n > most-len(s.samples) {
		return fmt.Errorf("too many samples: limit %d in %d channels", most, s.channels)
	}
	return nil
}

// maxSample is the limit of a sample: Vorbis holds floats of any size, whose
// power would overflow.
const maxSample = 1 << 32

// put adds one sample: the sum of all channels.
func (s *sink) put(sum float64) error {
	v := sum / float64(s.channels)
	if !(math.Abs(v) <= maxSample) { // NaN as well
		return fmt.Errorf("bad sample %d: %v", len(s.samples), v)
	}
	s.samples = append(s.samples, float32(v))
	return nil
}

// trim drops the first samples and keeps n of the rest.
func (s *sink) trim(first, n int) {
	first = min(max(first, 0), len(s.samples))
	s.samples = s.samples[first:]
	s.samples = s.samples[:min(max(n, 0), len(s.samples))]
}

func (s *sink) check() error {
	if len(s.samples) == 0 {
		return errors.New("empty sound")
	}
	return nil
}
