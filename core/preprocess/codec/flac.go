package codec

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/mewkiz/flac"
)

func isFLAC(data []byte) bool { return bytes.HasPrefix(data, []byte("fLaC")) }

// decodeFLAC decodes a native FLAC stream (RFC 9639) of up to 24 bits. Of its
// metadata only STREAMINFO is read.
func decodeFLAC(data []byte, s *sink) error {
	stream, err := flac.New(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("reading the FLAC header: %w", err)
	}
	info := stream.Info
	if err := s.open(int(info.SampleRate), int(info.NChannels)); err != nil {
		return err
	}
	if info.NSamples > uint64(s.lim.MaxSamples) {
		return s.room(s.lim.MaxSamples + 1)
	}
	for info.NSamples == 0 || uint64(len(s.samples)) < info.NSamples {
		f, err := stream.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading the FLAC frame at sample %d: %w", len(s.samples), err)
		}
		if f.BitsPerSample == 0 { // as in STREAMINFO
			f.BitsPerSample = info.BitsPerSample
		}
		switch {
		case f.SampleRate != 0 && f.SampleRate != info.SampleRate || f.Channels.Count() != s.channels || f.BitsPerSample != info.BitsPerSample:
			return fmt.Errorf("FLAC frame at sample %d does not match the header: got %d channels of %d bits at %d Hz, want %d of %d at %d",
				len(s.samples), f.Channels.Count(), f.BitsPerSample, f.SampleRate, s.channels, info.BitsPerSample, info.SampleRate)
		case f.BlockSize == 0:
			return errors.New("empty FLAC frame")
		}
		if err := s.room(int(f.BlockSize)); err != nil {
			return err
		}
		if err := f.Parse(); err != nil {
			return fmt.Errorf("reading the FLAC frame at sample %d: %w", len(s.samples), err)
		}
		full := float64(int64(1) << (info.BitsPerSample - 1))
		for i := range int(f.BlockSize) {
			sum := 0.0
			for _, c := range f.Subframes {
				sum += float64(c.Samples[i])
			}
			if err := s.put(sum / full); err != nil {
				return err
			}
		}
	}
	if n := uint64(len(s.samples)); n < info.NSamples {
		return fmt.Errorf("file truncated: got %d of %d samples", n, info.NSamples)
	}
	if info.NSamples > 0 {
		s.trim(0, int(info.NSamples))
	}
	return nil
}
