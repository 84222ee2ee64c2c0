package preprocess

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Limits of a sound: Hz, channels, and samples after mixing and resampling (two
// hours and a quarter at 16 kHz).
const (
	minRate     = 1000
	maxRate     = 384000
	maxChannels = 64
	maxSamples  = 1 << 27
)

// maxSample is the limit of float samples: undivided 32-bit integers are below
// it. The power of larger samples would overflow.
const maxSample = 1 << 32

// ErrNoWAV reports a file that is not RIFF WAVE.
var ErrNoWAV = errors.New("not a RIFF WAVE file")

// Wave is a sound of one channel, −1 to 1.
type Wave struct {
	Rate    int // samples per second
	Samples []float32
}

// IsWAV reports whether data begins with the magic of a WAVE file or of its
// 64-bit form (EBU Tech 3306).
func IsWAV(data []byte) bool { return matches(data, "RIFF????WAVE") || isRF64(data) }

func isRF64(data []byte) bool { return matches(data, "RF64????WAVE") }

// The format codes of a fmt chunk (RFC 2361; mmreg.h).
const (
	wavPCM        = 1
	wavFloat      = 3
	wavALaw       = 6
	wavMuLaw      = 7
	wavExtensible = 0xfffe
)

// unknown is the length that SoX and espeak-ng write to a pipe.
const unknown = 1<<31 - 1<<12

// wavFormat is a fmt chunk.
type wavFormat struct {
	code, channels, bits int
	rate                 int
	block                int // bytes of one sample of all channels
}

// DecodeWAV decodes a WAVE or RF64 file of PCM (8, 16, 24, 32 bits), A-law,
// µ-law or IEEE floats (32, 64), plain or extensible, and mixes its channels to
// their mean. An empty, a truncated and a non-finite sound are errors. A length
// of 2³²−1 or 2³¹−4096, as written by programs that have not counted yet, means
// the rest of the file.
func DecodeWAV(data []byte) (*Wave, error) {
	if !IsWAV(data) {
		return nil, ErrNoWAV
	}
	r := wavReader{long: isRF64(data)}
	for at := 12; at+8 <= len(data); {
		id, size := string(data[at:at+4]), uint64(binary.LittleEndian.Uint32(data[at+4:]))
		body := data[at+8:]
		if id == "data" {
			size = r.length(size, uint64(len(body)))
		}
		if size > uint64(len(body)) {
			if r.samples != nil { // bytes after the samples that are not a chunk
				break
			}
			return nil, fmt.Errorf("chunk %q truncated: size %d, %d bytes left", id, size, len(body))
		}
		if err := r.chunk(id, body[:size]); err != nil {
			return nil, err
		}
		at += 8 + int(size) + int(size&1)
	}
	if r.samples == nil {
		return nil, errors.New("missing samples")
	}
	return r.format.decode(r.samples)
}

// wavReader collects the chunks of a file.
type wavReader struct {
	format  *wavFormat
	samples []byte
	long    bool   // an RF64 file
	size    uint64 // of the samples in an RF64 file; 0 before its ds64 chunk
}

// length returns the length of the samples from that of their chunk, of which
// rest bytes follow.
func (r *wavReader) length(size, rest uint64) uint64 {
	switch {
	case size == math.MaxUint32 && r.long:
		return r.size
	case size == math.MaxUint32 || size == unknown && size > rest:
		return rest
	}
	return size
}

func (r *wavReader) chunk(id string, body []byte) error {
	switch id {
	case "ds64":
		if r.long && len(body) >= 16 {
			r.size = binary.LittleEndian.Uint64(body[8:])
		}
	case "fmt ":
		if r.format != nil {
			return errors.New("duplicate fmt chunk")
		}
		f, err := parseFormat(body)
		r.format = &f
		return err
	case "data":
		if r.format == nil {
			return errors.New("samples before the fmt chunk")
		}
		if r.samples != nil {
			return errors.New("duplicate data chunk")
		}
		r.samples = body
	}
	return nil
}

func parseFormat(b []byte) (wavFormat, error) {
	if len(b) < 16 {
		return wavFormat{}, fmt.Errorf("bad fmt chunk of %d bytes", len(b))
	}
	le := binary.LittleEndian
	f := wavFormat{
		code: int(le.Uint16(b)), channels: int(le.Uint16(b[2:])), rate: int(le.Uint32(b[4:])),
		block: int(le.Uint16(b[12:])), bits: int(le.Uint16(b[14:])),
	}
	if f.code == wavExtensible {
		// The subformat is the code and the rest of a fixed GUID.
		const rest = "\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71"
		if len(b) < 40 || string(b[26:40]) != rest {
			return f, errors.New("unsupported extensible format, want PCM, A-law, µ-law or float")
		}
		f.code = int(le.Uint16(b[24:]))
	}
	ok := f.code == wavPCM && (f.bits == 8 || f.bits == 16 || f.bits == 24 || f.bits == 32) || f.code == wavFloat && (f.bits == 32 || f.bits == 64) ||
		(f.code == wavALaw || f.code == wavMuLaw) && f.bits == 8
	switch {
	case !ok:
		return f, fmt.Errorf("unsupported samples of format %d with %d bits, want PCM of 8 to 32 bits, A-law, µ-law or floats", f.code, f.bits)
	case f.channels < 1 || f.channels > maxChannels:
		return f, fmt.Errorf("bad channel count: got %d, want 1 to %d", f.channels, maxChannels)
	case f.rate < minRate || f.rate > maxRate:
		return f, fmt.Errorf("bad sample rate: got %d, want %d to %d", f.rate, minRate, maxRate)
	case f.block != f.channels*f.bits/8:
		return f, fmt.Errorf("block size mismatch: %d channels of %d bits in blocks of %d bytes", f.channels, f.bits, f.block)
	}
	return f, nil
}

func tooManySamples[N int | int64](n N) bool { return n > maxSamples }

func (f *wavFormat) decode(b []byte) (*Wave, error) {
	n := len(b) / f.block
	switch {
	case n == 0:
		return nil, errors.New("empty sound")
	case len(b)%f.block != 0:
		return nil, fmt.Errorf("file truncated: %d bytes of samples in blocks of %d", len(b), f.block)
	case tooManySamples(n):
		return nil, fmt.Errorf("too many samples: got %d, limit %d", n, maxSamples)
	}
	w := &Wave{Rate: f.rate, Samples: make([]float32, n)}
	width := f.bits / 8
	for i := range w.Samples {
		sum := 0.0
		for c := range f.channels {
			sum += f.sample(b[i*f.block+c*width:])
		}
		v := sum / float64(f.channels)
		if !(math.Abs(v) <= maxSample) { // NaN as well
			return nil, fmt.Errorf("bad sample %d: %v", i, v)
		}
		w.Samples[i] = float32(v)
	}
	return w, nil
}

func (f *wavFormat) sample(b []byte) float64 {
	le := binary.LittleEndian
	switch {
	case f.code == wavFloat && f.bits == 32:
		return float64(math.Float32frombits(le.Uint32(b)))
	case f.code == wavFloat:
		return math.Float64frombits(le.Uint64(b))
	case f.code == wavALaw:
		return float64(aLaw(b[0])) / (1 << 15)
	case f.code == wavMuLaw:
		return float64(muLaw(b[0])) / (1 << 15)
	case f.bits == 8:
		return (float64(b[0]) - 128) / 128
	case f.bits == 16:
		return float64(int16(le.Uint16(b))) / (1 << 15)
	case f.bits == 24:
		return float64(int32(uint32(b[0])<<8|uint32(b[1])<<16|uint32(b[2])<<24)>>8) / (1 << 23)
	}
	return float64(int32(le.Uint32(b))) / (1 << 31)
}

// aLaw expands a sample of 8 bits to one of 16 (ITU-T G.711).
func aLaw(code byte) int {
	code ^= 0x55
	v := int(code&15)<<4 + 8
	if exp := code >> 4 & 7; exp > 0 {
		v = (v + 0x100) << (exp - 1)
	}
	if code < 0x80 {
		return -v
	}
	return v
}

// muLaw expands a sample of 8 bits to one of 16 (ITU-T G.711).
func muLaw(code byte) int {
	code = ^code
	v := (int(code&15)<<3+0x84)<<(code>>4&7) - 0x84
	if code >= 0x80 {
		return -v
	}
	return v
}

// EncodeWAV encodes samples of one channel as 16-bit PCM, clamped to −1 and 1.
func EncodeWAV(w *Wave) []byte {
	le := binary.LittleEndian
	n := uint32(2 * len(w.Samples))
	b := make([]byte, 0, 44+n)
	b = le.AppendUint32(append(b, "RIFF"...), 36+n)
	b = le.AppendUint32(append(b, "WAVEfmt "...), 16)
	b = le.AppendUint16(le.AppendUint16(b, wavPCM), 1)
	b = le.AppendUint32(le.AppendUint32(b, uint32(w.Rate)), uint32(2*w.Rate))
	b = le.AppendUint16(le.AppendUint16(b, 2), 16)
	b = le.AppendUint32(append(b, "data"...), n)
	for _, v := range w.Samples {
		s := math.RoundToEven(float64(v) * (1 << 15))
		if !(s >= math.MinInt16) { // NaN as well
			s = math.MinInt16
		}
		b = le.AppendUint16(b, uint16(int16(min(s, math.MaxInt16))))
	}
	return b
}
