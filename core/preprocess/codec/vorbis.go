package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/jfreymuth/vorbis"
)

// decodeOgg decodes a Vorbis stream (Vorbis I) in an Ogg file. The pages
// determine its start and end within its packets (A.2 of the specification).
func decodeOgg(data []byte, s *sink) error {
	o := &ogg{data: data}
	d, err := openVorbis(o, s)
	if err != nil {
		return err
	}
	buffer := make([]float32, d.BufferSize())
	first, placed := int64(0), false // the position of the first decoded sample
	for {
		p, ok, err := o.next()
		if err != nil {
			return fmt.Errorf("reading the Ogg file at sample %d: %w", len(s.samples), err)
		}
		if !ok {
			return nil
		}
		if len(p.data) > 0 { // empty packets are skipped
			out, err := d.DecodeInto(p.data, buffer)
			if err != nil {
				return fmt.Errorf("reading the Vorbis packet at sample %d: %w", len(s.samples), err)
			}
			if err := s.putAll(out); err != nil {
				return err
			}
		}
		if p.end < 0 {
			continue
		}
		got := int64(len(s.samples))
		if !placed {
			first, placed = p.end-got, true
			if first < 0 && !p.last { // samples before position 0 are dropped
				s.trim(int(-first), len(s.samples))
				first = 0
			} else if p.last {
				first = max(first, 0)
			}
		}
		if p.last {
			s.trim(0, int(min(p.end-first, int64(len(s.samples)))))
			return nil
		}
	}
}

func (s *sink) putAll(v []float32) error {
	if err := s.room(len(v) / s.channels); err != nil {
		return err
	}
	for ; len(v) >= s.channels; v = v[s.channels:] {
		sum := 0.0
		for _, x := range v[:s.channels] {
			sum += float64(x)
		}
		if err := s.put(sum); err != nil {
			return err
		}
	}
	return nil
}

// openVorbis reads the three headers, ignoring the comments.
func openVorbis(o *ogg, s *sink) (*vorbis.Decoder, error) {
	d := &vorbis.Decoder{}
	for i := range 3 {
		p, ok, err := o.next()
		if err != nil {
			return nil, fmt.Errorf("reading the Ogg headers: %w", err)
		}
		kind := byte(2*i + 1)
		if !ok || len(p.data) < 7 || p.data[0] != kind || string(p.data[1:7]) != "vorbis" {
			if i == 0 && (bytes.HasPrefix(p.data, []byte("OpusHead")) || bytes.HasPrefix(p.data, []byte("\x7fFLAC"))) {
				return nil, errors.New("unsupported Ogg file of Opus or FLAC, want Vorbis")
			}
			return nil, errors.New("missing Vorbis headers in the Ogg file")
		}
		body := p.data[7:]
		switch i {
		case 0:
			err = judgeIdentification(body, s)
		case 1:
			continue
		case 2:
			err = judgeSetup(body)
		}
		if err == nil {
			err = d.ReadHeader(p.data)
		}
		if err != nil {
			return nil, fmt.Errorf("damaged or unsupported headers of Vorbis: %w", err)
		}
	}
	return d, nil
}

// judgeIdentification checks channels, rate and block sizes (4.2.2 of the
// specification).
func judgeIdentification(b []byte, s *sink) error {
	if len(b) < 23 {
		return errors.New("the first header is truncated")
	}
	rate := binary.LittleEndian.Uint32(b[5:])
	if err := s.open(int(min(rate, math.MaxInt32)), int(b[4])); err != nil {
		return err
	}
	if short, long := b[21]&15, b[21]>>4; short < 6 || long > 13 || short > long {
		return fmt.Errorf("bad blocks of 2^%d and 2^%d samples", short, long)
	}
	return nil
}

// Limits of all codebooks of a stream together. Those of libvorbis have up to
// 7,000 entries in a book, 8 dimensions, and 70,000 numbers.
const (
	maxEntries    = 1 << 16
	maxDimensions = 64
	maxNumbers    = 1 << 21
)

// bits reads bits from the lowest bit of each byte on.
type bits struct {
	data []byte
	at   int // bit
	over bool
}

func (b *bits) read(n int) uint32 {
	if n > 8*len(b.data)-b.at {
		b.at, b.over = 8*len(b.data), true
		return 0
	}
	var v uint32
	for i := range n {
		v |= uint32(b.data[(b.at+i)/8]>>((b.at+i)%8)&1) << i
	}
	b.at += n
	return v
}

// judgeSetup walks the codebooks of a setup header (3.2.1 of the specification)
// as the decoder will: the decoder allocates tables by them, and stops neither
// at the end of the header nor at an empty book.
func judgeSetup(header []byte) error {
	b := &bits{data: header}
	entries, numbers := 0, 0
	for book := range int(b.read(8)) + 1 {
		n, m, err := judgeBook(b, maxEntries-entries, maxNumbers-numbers)
		if err == nil && b.over {
			err = errors.New("the header is truncated")
		}
		if err != nil {
			return fmt.Errorf("codebook %d: %w", book, err)
		}
		entries, numbers = entries+n, numbers+m
	}
	return nil
}

func judgeBook(b *bits, entriesLeft, numbersLeft int) (entries, numbers int, err error) {
	if b.read(24) != 0x564342 {
		return 0, 0, errors.New("bad codebook magic")
	}
	dimensions := int(b.read(16))
	entries = int(b.read(24))
	switch {
	case dimensions < 1 || dimensions > maxDimensions:
		return 0, 0, fmt.Errorf("bad dimensions: got %d, want 1 to %d", dimensions, maxDimensions)
	case entries < 2 || entries > entriesLeft:
		return 0, 0, fmt.Errorf("bad entry count: got %d, want 2 to %d", entries, entriesLeft)
	}
	if err := judgeLengths(b, entries); err != nil {
		return 0, 0, err
	}
	kind := b.read(4)
	if kind == 0 {
		return entries, 0, nil
	}
	if kind > 2 {
		return 0, 0, fmt.Errorf("unknown lookup %d", kind)
	}
	numbers = entries * dimensions
	if numbers > numbersLeft {
		return 0, 0, fmt.Errorf("too many numbers: got %d, limit %d", numbers, numbersLeft)
	}
	b.read(32) // the smallest
	b.read(32) // the step
	width := int(b.read(4)) + 1
	b.read(1)
	values := numbers
	if kind == 1 {
		values = int(math.Floor(math.Pow(float64(entries), 1/float64(dimensions))))
	}
	for range values {
		b.read(width)
	}
	return entries, numbers, nil
}

// judgeLengths checks the lengths of the code words: at least one, none longer
// than 32 bits.
func judgeLengths(b *bits, entries int) error {
	used := 0
	if b.read(1) == 0 {
		sparse := b.read(1) == 1
		for range entries {
			if !sparse || b.read(1) == 1 {
				b.read(5)
				used++
			}
		}
	} else {
		length := int(b.read(5)) + 1
		for used < entries {
			wide := 0
			for left := entries - used; left > 0; left >>= 1 {
				wide++
			}
			n := int(b.read(wide))
			if n > entries-used || length > 32 {
				return errors.New("invalid code word lengths")
			}
			used += n
			length++
		}
	}
	if used == 0 || b.over {
		return errors.New("no code words")
	}
	return nil
}
