// Y4M is raw video, YUV4MPEG2 (mjpegtools, yuv4mpeg(5)): a line of text with
// sizes, rate and sampling, and frames: a line that begins with FRAME, then the
// samples of luma and of both color differences. A [Y4MReader] finds the start
// of each frame and reads one on demand; it holds one frame at a time.
//
// Values missing in the header have the usual defaults: ITU-R BT.601 colors,
// and studio range (luma 16 to 235) unless XCOLORRANGE=FULL. One color sample
// applies to all the pixels that share it.

package codec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// Y4MMagic is the magic of a file.
const Y4MMagic = "YUV4MPEG2"

// Limits of a file: bytes of a line, pixels of a frame, frames.
const (
	maxLine   = 1024
	MaxPixels = 1 << 26
	MaxFrames = 1 << 20
)

// Y4MHeader is the first line of a file.
type Y4MHeader struct {
	W, H int
	// Rate is Num / Den frames per second.
	Num, Den int64
	// Across and Down are how many pixels share a color sample, in a row and in
	// a column; 0: monochrome.
	Across, Down int
	Full         bool // luma is 0 to 255
}

// samplings maps the supported values of C, with 8-bit samples. The suffix of
// 420 is the position of color samples within their pixels.
func samplings() map[string][2]int {
	return map[string][2]int{
		"420": {2, 2}, "420jpeg": {2, 2}, "420mpeg2": {2, 2}, "420paldv": {2, 2},
		"422": {2, 1}, "444": {1, 1}, "mono": {0, 0},
	}
}

// ParseY4MHeader parses the first line, without its newline.
func ParseY4MHeader(line string) (Y4MHeader, error) {
	words := strings.Split(line, " ")
	if words[0] != Y4MMagic {
		return Y4MHeader{}, errors.New("not a YUV4MPEG2 file")
	}
	h := Y4MHeader{Num: 25, Den: 1, Across: 2, Down: 2}
	for _, w := range words[1:] {
		if w == "" {
			continue
		}
		var err error
		switch value := w[1:]; w[0] {
		case 'W':
			h.W, err = side(value)
		case 'H':
			h.H, err = side(value)
		case 'F':
			h.Num, h.Den, err = rate(value)
		case 'C':
			c, ok := samplings()[value]
			if !ok {
				err = fmt.Errorf("unsupported sampling %q, want 420, 422, 444 or mono of 8 bits", value)
			}
			h.Across, h.Down = c[0], c[1]
		case 'X':
			switch value {
			case "COLORRANGE=FULL":
				h.Full = true
			case "COLORRANGE=LIMITED":
				h.Full = false
			}
		}
		if err != nil {
			return Y4MHeader{}, err
		}
	}
	switch {
	case h.W == 0 || h.H == 0:
		return Y4MHeader{}, errors.New("missing width or height")
	case int64(h.W)*int64(h.H) > MaxPixels:
		return Y4MHeader{}, fmt.Errorf("frames of %d × %d exceed the limit of %d pixels", h.W, h.H, MaxPixels)
	}
	return h, nil
}

func side(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || n == 0 || n > MaxPixels {
		return 0, fmt.Errorf("bad width or height %q", s)
	}
	return int(n), nil
}

// rate parses a fraction; 0:0 is an unknown rate, replaced by 25.
func rate(s string) (num, den int64, err error) {
	a, b, _ := strings.Cut(s, ":")
	num, err = strconv.ParseInt(a, 10, 32)
	if err == nil {
		den, err = strconv.ParseInt(b, 10, 32)
	}
	if num == 0 && den == 0 && err == nil {
		return 25, 1, nil
	}
	if err != nil || num <= 0 || den <= 0 {
		return 0, 0, fmt.Errorf("bad frame rate %q", s)
	}
	return num, den, nil
}

// planes returns the samples of luma and of one color difference of a frame.
func (h Y4MHeader) planes() (luma, colour int) {
	luma = h.W * h.H
	if h.Across == 0 {
		return luma, 0
	}
	return luma, ((h.W + h.Across - 1) / h.Across) * ((h.H + h.Down - 1) / h.Down)
}

// Time returns the start of frame i.
func (h Y4MHeader) Time(i int) time.Duration {
	return time.Duration(math.Round(float64(i) * float64(h.Den) / float64(h.Num) * 1e9))
}

// Y4MReader reads the frames of one file. It is not safe for concurrent use.
type Y4MReader struct {
	Y4MHeader
	src    io.ReaderAt
	frames []int64 // offset of each frame's samples
	raw    []byte
}

// NewY4MReader reads the header of the size bytes of src and finds the frames.
// Each must have the full size.
func NewY4MReader(src io.ReaderAt, size int64) (*Y4MReader, error) {
	line, at, err := readLine(src, 0, size)
	if err != nil {
		return nil, fmt.Errorf("reading the header: %w", err)
	}
	r := &Y4MReader{src: src}
	if r.Y4MHeader, err = ParseY4MHeader(line); err != nil {
		return nil, err
	}
	luma, colour := r.planes()
	need := int64(luma + 2*colour)
	for at < size {
		line, next, err := readLine(src, at, size)
		if err != nil {
			return nil, fmt.Errorf("reading frame %d: %w", len(r.frames), err)
		}
		if word, _, _ := strings.Cut(line, " "); word != "FRAME" {
			return nil, fmt.Errorf("frame %d: missing FRAME", len(r.frames))
		}
		if need > size-next {
			return nil, fmt.Errorf("file truncated: frame %d has %d of %d bytes", len(r.frames), size-next, need)
		}
		if len(r.frames) == MaxFrames {
			return nil, fmt.Errorf("too many frames: limit %d", MaxFrames)
		}
		r.frames = append(r.frames, next)
		at = next + need
	}
	if len(r.frames) == 0 {
		return nil, errors.New("no frames")
	}
	return r, nil
}

// readLine returns the line at at without its newline, and the start of the
// next.
func readLine(src io.ReaderAt, at, size int64) (string, int64, error) {
	b := make([]byte, min(maxLine, size-at))
	n, err := src.ReadAt(b, at)
	if n < len(b) {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return "", 0, err
	}
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return "", 0, errors.New("unterminated line")
	}
	return string(b[:end]), at + int64(end) + 1, nil
}

// Len returns the number of frames.
func (r *Y4MReader) Len() int { return len(r.frames) }

// RGB returns frame i as red, green and blue, 3·W·H bytes.
func (r *Y4MReader) RGB(i int) ([]byte, error) {
	luma, colour := r.planes()
	if r.raw == nil {
		r.raw = make([]byte, luma+2*colour)
	}
	if n, err := r.src.ReadAt(r.raw, r.frames[i]); n < len(r.raw) {
		return nil, fmt.Errorf("reading frame %d: %w", i, err)
	}
	cb, cr := r.raw[luma:luma+colour], r.raw[luma+colour:]
	out := make([]byte, 3*luma)
	for y := range r.H {
		for x := range r.W {
			u, v := byte(128), byte(128)
			if r.Across > 0 {
				at := y/r.Down*((r.W+r.Across-1)/r.Across) + x/r.Across
				u, v = cb[at], cr[at]
			}
			i := y*r.W + x
			r.colour(out[3*i:], r.raw[i], u, v)
		}
	}
	return out, nil
}

// colour converts a pixel to red, green and blue (ITU-R BT.601), in steps of
// 2⁻¹⁶. Studio range is expanded to 0 to 255.
func (h Y4MHeader) colour(out []byte, y, cb, cr byte) {
	const half = 1 << 15
	l, u, v := int32(y), int32(cb)-128, int32(cr)-128
	if h.Full {
		l <<= 16
		out[0], out[1], out[2] = clamp(l+91881*v+half), clamp(l-22554*u-46802*v+half), clamp(l+116130*u+half)
		return
	}
	l = (l - 16) * 76309
	out[0], out[1], out[2] = clamp(l+104597*v+half), clamp(l-25675*u-53279*v+half), clamp(l+132201*u+half)
}

func clamp(v int32) byte { return byte(min(max(v>>16, 0), 255)) }
