package preprocess

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/bmp"
	"golang.org/x/image/webp"

	"mm-abi.org/mm/internal/fsx"
)

// MaxPixels is the limit of pixels of an image, read or created.
const MaxPixels = 1 << 26

// ErrFormat reports an unknown image format.
var ErrFormat = errors.New("not a PNG, JPEG, GIF, WebP or BMP")

// ErrAnimated reports an animated WebP.
var ErrAnimated = errors.New("unsupported animated WebP: give one of its images, or the video as a GIF, a Y4M file or a folder of images")

// Raster is an image of 8 bits per channel: rows from the top, pixels from the
// left, channels within a pixel.
type Raster struct {
	W, H, C int
	Pix     []uint8
}

// decoder reads one format.
type decoder struct {
	magic  string // '?' is any byte
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
}

// decoders returns the supported formats with their magic bytes.
func decoders() []decoder {
	return []decoder{
		{"\x89PNG\r\n\x1a\n", png.DecodeConfig, png.Decode},
		{"\xff\xd8\xff", jpeg.DecodeConfig, jpeg.Decode},
		{"GIF8?a", gif.DecodeConfig, gif.Decode},
		{"RIFF????WEBP", webp.DecodeConfig, webp.Decode},
		{"BM????\x00\x00\x00\x00", bmp.DecodeConfig, bmp.Decode},
	}
}

// IsImage reports whether data begins with the magic of an image format.
func IsImage(data []byte) bool { return decoderOf(data) != nil }

func decoderOf(data []byte) *decoder {
	all := decoders()
	for i := range all {
		if matches(data, all[i].magic) {
			return &all[i]
		}
	}
	return nil
}

func matches(data []byte, magic string) bool {
	if len(data) < len(magic) {
		return false
	}
	for i := range len(magic) {
		if magic[i] != '?' && magic[i] != data[i] {
			return false
		}
	}
	return true
}

// DecodeImage decodes a PNG, JPEG, GIF (its first frame), WebP or BMP to red,
// green and blue. It checks the size in the header before decoding. The EXIF
// orientation is applied; transparency is dropped, as Pillow's convert("RGB")
// does.
func DecodeImage(data []byte) (*Raster, error) {
	return DecodeImageIf(data, func(int, int, int) error { return nil })
}

// DecodeImageIf is [DecodeImage] for callers with less memory: admit gets the
// width, the height and the number of decoder passes before a pixel is decoded,
// and its error aborts.
func DecodeImageIf(data []byte, admit func(w, h, passes int) error) (*Raster, error) {
	return decode(context.Background(), data, admit)
}

// errSized ends a decoder after the header.
var errSized = errors.New("size read")

// ImageSize returns the width and the height of what DecodeImage returns, from the
// header.
func ImageSize(data []byte) (w, h int, err error) {
	_, err = decode(context.Background(), data, func(x, y, _ int) error {
		w, h = x, y
		return errSized
	})
	if !errors.Is(err, errSized) {
		return 0, 0, err
	}
	if orientation(data) > 4 { // on its side
		w, h = h, w
	}
	return w, h, nil
}

// few reads in small steps: a few bytes of an image may expand to many pixels,
// and between two reads a cancellation is noticed.
type few struct{ io.Reader }

func (f few) Read(p []byte) (int, error) { return f.Reader.Read(p[:min(len(p), 512)]) }

// decode is [DecodeImageIf] with a context.
func decode(ctx context.Context, data []byte, admit func(w, h, passes int) error) (*Raster, error) {
	d := decoderOf(data)
	if d == nil {
		return nil, ErrFormat
	}
	if animated(data) {
		return nil, ErrAnimated
	}
	c, err := d.config(bytes.NewReader(data))
	if err == nil && matches(data, "RIFF") {
		err = checkRIFF(data)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the image header: %w", err)
	}
	if err := within(c.Width, c.Height); err != nil {
		return nil, err
	}
	passes := 1
	switch {
	case matches(data, "RIFF"):
		err = webpFrames(data)
	case matches(data, "\xff\xd8"):
		passes, err = jpegScans(data, c)
	}
	if err != nil {
		return nil, err
	}
	if err := admit(c.Width, c.Height, passes); err != nil {
		return nil, err
	}
	isGIF := matches(data, "GIF8?a")
	source, around := data, uint8(0)
	if isGIF {
		source, around = opaqueGIF(data)
	}
	m, err := d.decode(fsx.Reader{Context: ctx, R: few{bytes.NewReader(source)}})
	if ctx.Err() != nil { // decoders drop it
		return nil, ctx.Err()
	}
	if err == nil && isGIF {
		m, err = onScreen(m, around, c.Width, c.Height)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the image: %w", err)
	}
	b := m.Bounds()
	if err := within(b.Dx(), b.Dy()); err != nil {
		return nil, err
	}
	r, err := rgb(ctx, m, matches(data, "RIFF"))
	if err != nil {
		return nil, err
	}
	return orient(r, orientation(data)), nil
}

func within(w, h int) error {
	if w < 1 || h < 1 {
		return fmt.Errorf("bad image size %d × %d", w, h)
	}
	if int64(w) > MaxPixels || int64(h) > MaxPixels || int64(w)*int64(h) > MaxPixels {
		return fmt.Errorf("image of %d × %d exceeds the limit of %d pixels", w, h, MaxPixels)
	}
	return nil
}

// maxScanned limits the pixels of all scans of a JPEG together: a scan of a
// hundred bytes covers the whole image.
const maxScanned = 1 << 31

// jpegScans counts a JPEG's scans and checks the limit.
func jpegScans(data []byte, c image.Config) (int, error) {
	n := int64(0)
	for at := 2; at+4 <= len(data); {
		switch marker := data[at+1]; {
		case data[at] != 0xff, marker == 0xff:
			at++
		case marker == 0 || marker >= 0xd0 && marker <= 0xd7: // within a scan
			at += 2
		case marker == 0xd9:
			at = len(data)
		default:
			if marker == 0xda {
				n++
			}
			at += 2 + int(binary.BigEndian.Uint16(data[at+2:]))
		}
	}
	if n*int64(c.Width)*int64(c.Height) > maxScanned {
		return 0, fmt.Errorf("%d scans of %d × %d pixels exceed the limit of %d pixels", n, c.Width, c.Height, maxScanned)
	}
	return int(n), nil
}

// checkRIFF refuses a file shorter than the size in its header: the decoder does not
// read to the end.
func checkRIFF(data []byte) error {
	if want := uint64(binary.LittleEndian.Uint32(data[4:])) + 8; want > uint64(len(data)) {
		return fmt.Errorf("file truncated: %d bytes, header says %d", len(data), want)
	}
	return nil
}

// animated reports whether data begins as an animated WebP, with an ANIM chunk
// (WebP container specification).
func animated(data []byte) bool {
	if !matches(data, "RIFF????WEBP") {
		return false
	}
	for at := uint64(12); at+8 <= uint64(len(data)); {
		if string(data[at:at+4]) == "ANIM" {
			return true
		}
		size := uint64(binary.LittleEndian.Uint32(data[at+4:]))
		at += 8 + size + size&1
	}
	return false
}

// webpFrames checks the frames of a WebP by their own headers: the decoder does
// not allocate by the size in an extended file's header.
func webpFrames(data []byte) error {
	for at := 12; at+8 <= len(data); {
		size := int(binary.LittleEndian.Uint32(data[at+4:]))
		body := data[at+8:]
		if size < len(body) {
			body = body[:size]
		}
		switch id := string(data[at : at+4]); {
		case id == "VP8 " && len(body) >= 10:
			if err := within(int(binary.LittleEndian.Uint16(body[6:])&0x3fff), int(binary.LittleEndian.Uint16(body[8:])&0x3fff)); err != nil {
				return err
			}
		case (id == "VP8L" || id == "ALPH") && len(body) >= 5 && body[0] == 0x2f:
			bits := binary.LittleEndian.Uint32(body[1:])
			if err := within(int(bits&0x3fff)+1, int(bits>>14&0x3fff)+1); err != nil {
				return err
			}
		}
		at += 8 + size + size&1
	}
	return nil
}

// rgb copies the colors of an image without transparency; webp is the format
// whose YCbCr has the range of video.
func rgb(ctx context.Context, m image.Image, webp bool) (*Raster, error) {
	b := m.Bounds()
	out := &Raster{W: b.Dx(), H: b.Dy(), C: 3, Pix: make([]uint8, 3*b.Dx()*b.Dy())}
	i := 0
	put := func(r, g, b uint8) {
		out.Pix[i], out.Pix[i+1], out.Pix[i+2] = r, g, b
		i += 3
	}
	var palette [256]color.NRGBA
	var sampled *chroma
	switch m := m.(type) {
	case *image.Paletted:
		for i, c := range m.Palette {
			palette[i] = color.NRGBAModel.Convert(c).(color.NRGBA)
		}
	case *image.YCbCr:
		sampled = newChroma(m, webp)
	case *image.NYCbCrA: // of WebP alone
		sampled = newChroma(&m.YCbCr, webp)
	}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if sampled != nil {
			at := sampled.row(y - b.Min.Y)
			for x := range b.Dx() {
				put(at(x))
			}
			continue
		}
		for x := b.Min.X; x < b.Max.X; x++ {
			switch m := m.(type) {
			case *image.Paletted:
				c := palette[m.ColorIndexAt(x, y)]
				put(c.R, c.G, c.B)
			case *image.Gray:
				v := m.GrayAt(x, y).Y
				put(v, v, v)
			case *image.NRGBA:
				c := m.NRGBAAt(x, y)
				put(c.R, c.G, c.B)
			case *image.NRGBA64:
				c := m.NRGBA64At(x, y)
				put(uint8(c.R>>8), uint8(c.G>>8), uint8(c.B>>8))
			default:
				c := color.NRGBAModel.Convert(m.At(x, y)).(color.NRGBA)
				put(c.R, c.G, c.B)
			}
		}
	}
	return out, nil
}

// gray returns the image's luma (ITU-R 601), one channel.
func (r *Raster) gray() *Raster {
	out := &Raster{W: r.W, H: r.H, C: 1, Pix: make([]uint8, r.W*r.H)}
	for i := range out.Pix {
		p := r.Pix[i*r.C:]
		out.Pix[i] = uint8((uint32(p[0])*19595 + uint32(p[1])*38470 + uint32(p[2])*7471 + 0x8000) >> 16)
	}
	return out
}
