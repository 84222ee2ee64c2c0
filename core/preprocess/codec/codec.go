// Package codec reads compressed sounds: FLAC, MP3 and Ogg Vorbis.
//
// The arithmetic is that of libraries; what stands around it here is what they
// leave to their callers. Tags are cut off before a decoder sees them, what an
// encoder padded is taken off behind it, the tables of a Vorbis stream are judged
// before they are made, what is decoded is counted as it comes and ends at the
// [Limits], and a decoder that panics is one that gives an error.
package codec

import (
	"errors"
	"fmt"
	"math"
)

// ErrFormat says that a file is of none of the formats that are read.
var ErrFormat = errors.New("no FLAC, MP3 or Ogg Vorbis")

// Limits bound a sound.
type Limits struct {
	MinRate, MaxRate int // Hz
	MaxChannels      int
	MaxSamples       int // of the one channel that comes out, and half of what all channels have
}

// format is one that is read.
type format struct {
	is     func(data []byte) bool
	decode func(data []byte, s *sink) error
}

func formats() []format {
	return []format{{isFLAC, decodeFLAC}, {isOgg, decodeOgg}, {isMP3, decodeMP3}}
}

// Is reports whether data begins as a compressed sound does.
func Is(data []byte) bool {
	data, tagged := untagged(data)
	for _, f := range formats() {
		if f.is(data) {
			return true
		}
	}
	return tagged
}

// Decode decodes a file to one channel, the mean of those it has, −1 to 1, of
// rate samples a second. What is cut short is an error. It takes about the
// result's memory twice.
func Decode(data []byte, lim Limits) (rate int, samples []float32, err error) {
	data, _ = untagged(data)
	for _, f := range formats() {
		if !f.is(data) {
			continue
		}
		s := &sink{lim: lim}
		if err := contained(func() error { return f.decode(data, s) }); err != nil {
			return 0, nil, err
		}
		return s.rate, s.samples, s.check()
	}
	return 0, nil, ErrFormat
}

// contained runs a decoder. They index by what a file says, and some of it is
// beyond their tables.
func contained(decode func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the file is damaged: %v", p)
		}
	}()
	return decode()
}

// untagged cuts ID3v2 tags off, which may stand before any format.
func untagged(data []byte) (rest []byte, tagged bool) {
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

// sink takes what a decoder gives.
type sink struct {
	lim            Limits
	rate, channels int
	samples        []float32
}

// open judges what the header says.
func (s *sink) open(rate, channels int) error {
	switch {
	case rate < s.lim.MinRate || rate > s.lim.MaxRate:
		return fmt.Errorf("%d samples a second, %d to %d are read", rate, s.lim.MinRate, s.lim.MaxRate)
	case channels < 1 || channels > s.lim.MaxChannels:
		return fmt.Errorf("%d channels, 1 to %d are read", channels, s.lim.MaxChannels)
	}
	s.rate, s.channels = rate, channels
	return nil
}

// room judges n more samples a channel before they are put.
func (s *sink) room(n int) error {
	most := min(s.lim.MaxSamples, 2*s.lim.MaxSamples/s.channels)
	if n > most-len(s.samples) {
		return fmt.Errorf("more than %d samples of %d channels", most, s.channels)
	}
	return nil
}

// put adds one sample: the sum of all channels.
func (s *sink) put(sum float64) error {
	v := sum / float64(s.channels)
	if math.IsNaN(v) || math.Abs(v) > math.MaxFloat32 {
		return fmt.Errorf("sample %d is %v, which is no sound", len(s.samples), v)
	}
	s.samples = append(s.samples, float32(v))
	return nil
}

// trim takes first samples off the beginning and keeps n of the rest.
func (s *sink) trim(first, n int) {
	first = min(max(first, 0), len(s.samples))
	s.samples = s.samples[first:]
	s.samples = s.samples[:min(max(n, 0), len(s.samples))]
}

func (s *sink) check() error {
	if len(s.samples) == 0 {
		return errors.New("the sound has no samples")
	}
	return nil
}
