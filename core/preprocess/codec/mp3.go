package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/hajimehoshi/go-mp3"
)

// decoderDelay is the delay of an MP3 decoder in samples (528 and one, by
// LAME's convention).
const decoderDelay = 529

// mp3Header is the header of a frame of layer III (ISO/IEC 11172-3, 13818-3).
type mp3Header uint32

func readMP3Header(data []byte) (h mp3Header, ok bool) {
	if len(data) < 4 {
		return 0, false
	}
	h = mp3Header(binary.BigEndian.Uint32(data))
	bitrate := h >> 12 & 15
	ok = h>>21 == 0x7ff && h>>19&3 != 1 && h>>17&3 == 1 && bitrate != 0 && bitrate != 15 && h>>10&3 != 3
	return h, ok
}

// like reports whether version, layer and rate agree.
func (h mp3Header) like(other mp3Header) bool {
	const same = 0xfffe0c00
	return h&same == other&same
}

// low reports whether it is MPEG 2, of half the rates and half the samples.
func (h mp3Header) low() bool { return h>>19&3 != 3 }

func (h mp3Header) rate() int {
	rate := [3]int{44100, 48000, 32000}[h>>10&3]
	switch h >> 19 & 3 {
	case 2:
		rate /= 2
	case 0: // MPEG 2.5
		rate /= 4
	}
	return rate
}

func (h mp3Header) channels() int {
	if h>>6&3 == 3 {
		return 1
	}
	return 2
}

// samples returns the number of samples of a frame.
func (h mp3Header) samples() int {
	if h.low() {
		return 576
	}
	return 1152
}

// size returns the bytes of the frame with its header.
func (h mp3Header) size() int {
	rates := [15]int{0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320}
	if h.low() {
		rates = [15]int{0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160}
	}
	return h.samples()/8*1000*rates[h>>12&15]/h.rate() + int(h>>9&1)
}

// side returns the bytes of the side information, with the checksum before it.
func (h mp3Header) side() int {
	n := 32
	switch {
	case h.low() && h.channels() == 1:
		n = 9
	case h.low() || h.channels() == 1:
		n = 17
	}
	if h>>16&1 == 0 {
		n += 2
	}
	return n
}

// isMP3 requires two matching headers, or a single frame that is the whole
// file: the sync word alone is too short.
func isMP3(data []byte) bool {
	h, ok := readMP3Header(data)
	if !ok {
		return false
	}
	if h.size() >= len(data) {
		return true
	}
	next, ok := readMP3Header(data[h.size():])
	return ok && next.like(h)
}

// padding holds the encoder's note in a first frame without sound.
type padding struct {
	frames     int // number of following frames; 0 if missing
	start, end int // samples without sound; −1 if missing
}

// decodeMP3 decodes MPEG 1 and 2, layer III. If the first frame is the tag of
// LAME and others, the padding is removed: the samples are those that were
// encoded.
func decodeMP3(data []byte, s *sink) error {
	h, _ := readMP3Header(data)
	if h>>19&3 == 0 {
		return fmt.Errorf("unsupported MP3 of MPEG 2.5 (%d Hz): convert it to 16,000 Hz", h.rate())
	}
	if err := s.open(h.rate(), 2); err != nil { // mono is decoded to two channels
		return err
	}
	data = withoutTail(data)
	note, noted := readPadding(data, h)
	if noted {
		data = data[min(h.size(), len(data)):]
		if len(data) == 0 {
			return errors.New("no MP3 frames")
		}
	}
	if most := note.frames * h.samples(); most > s.lim.MaxSamples {
		return s.room(s.lim.MaxSamples + 1)
	}
	if h.low() && h.rate() == 22050 {
		var err error
		if data, err = repack(data, h); err != nil {
			return err
		}
	}
	if err := decodeFrames(data, s); err != nil {
		return err
	}
	if got := len(s.samples) / h.samples(); got < note.frames {
		return fmt.Errorf("file truncated: got %d of %d frames", got, note.frames)
	}
	if note.start >= 0 {
		s.trim(note.start+decoderDelay, len(s.samples)-note.start-note.end)
	}
	return nil
}

func decodeFrames(data []byte, s *sink) error {
	// A reader that cannot seek: otherwise the decoder would scan the file
	// first.
	d, err := mp3.NewDecoder(io.MultiReader(bytes.NewReader(data)))
	if err != nil {
		return fmt.Errorf("reading the MP3: %w", err)
	}
	if d.SampleRate() != s.rate {
		return fmt.Errorf("inconsistent MP3 rates: %d and %d Hz", s.rate, d.SampleRate())
	}
	b := make([]byte, 4*1152)
	for {
		n, err := io.ReadFull(d, b)
		if err := s.room(n / 4); err != nil {
			return err
		}
		for i := 0; i+4 <= n; i += 4 {
			left, right := int16(binary.LittleEndian.Uint16(b[i:])), int16(binary.LittleEndian.Uint16(b[i+2:]))
			if err := s.put(unrounded(left) + unrounded(right)); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the MP3 at sample %d: %w", len(s.samples), err)
		}
	}
}

// unrounded returns the middle of the numbers that the decoder, which multiplies
// by 32,767 and truncates, converts to v.
func unrounded(v int16) float64 {
	half := 0.0
	switch {
	case v > 0 && v < math.MaxInt16:
		half = 0.5
	case v < 0 && v > -math.MaxInt16:
		half = -0.5
	}
	return (float64(v) + half) / math.MaxInt16
}

// readPadding reads the tag in the first frame: Xing's, with the number of
// frames if bit 0 of the flags is set, followed by LAME's, with two 12-bit
// numbers as the padding.
func readPadding(data []byte, h mp3Header) (padding, bool) {
	p := padding{start: -1}
	at := 4 + h.side()
	if len(data) < at+8 || string(data[at:at+4]) != "Xing" && string(data[at:at+4]) != "Info" {
		return p, false
	}
	flags := data[at+7]
	frame := data[:min(h.size(), len(data))]
	at += 8
	for bit, n := range []int{4, 4, 100, 4} { // frames, bytes, seek table, quality
		if flags>>bit&1 == 0 {
			continue
		}
		if bit == 0 && at+4 <= len(frame) {
			if v := binary.BigEndian.Uint32(frame[at:]); v < 1<<28 {
				p.frames = int(v)
			}
		}
		at += n
	}
	const delays = 21 // after the encoder's name and some settings
	if at+delays+3 <= len(frame) && frame[at] != 0 {
		b := frame[at+delays:]
		p.start, p.end = int(b[0])<<4|int(b[1])>>4, int(b[1]&15)<<8|int(b[2])
	}
	return p, true
}

// withoutTail removes tags from the end: ID3v1 and APEv2.
func withoutTail(data []byte) []byte {
	if n := len(data) - 128; n >= 0 && string(data[n:n+3]) == "TAG" {
		data = data[:n]
	}
	if n := len(data) - 32; n >= 0 && string(data[n:n+8]) == "APETAGEX" {
		size := int(binary.LittleEndian.Uint32(data[n+12:])) // with the footer
		if binary.LittleEndian.Uint32(data[n+20:])>>31 != 0 {
			size += 32 // the header
		}
		if size >= 32 && size <= len(data) {
			data = data[:len(data)-size]
		}
	}
	return data
}
