package preprocess

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/gif"
	"time"

	"mm-abi.org/mm/internal/fsx"
)

// maxDrawn limits the pixels of all frames of a GIF together: the last frame
// requires drawing all before it, and a frame of a few bytes may be as large as
// the screen.
const maxDrawn = 1 << 31

// Disposal methods of a frame (GIF89a, 23.c.iv).
const (
	toBackground = 2
	toPrevious   = 3
)

// gifFrame is the location of a frame in the file.
type gifFrame struct {
	box        image.Rectangle // on the screen
	disposal   byte
	delay      time.Duration
	control    []byte // its graphic control extension, if any
	descriptor []byte // the image descriptor up to the end of the last block
}

// animation draws the frames of a GIF.
type animation struct {
	head   []byte // signature, screen and global colors
	frames []gifFrame
	screen *Raster
	before []byte // the screen without frame at, to restore
	at     int    // the frame on the screen; −1: none yet
}

// openGIF finds the frames of a GIF by the lengths of its blocks, without
// decoding.
func openGIF(data []byte) (*Frames, error) {
	a := &animation{at: -1}
	w, h, err := a.scan(data)
	if err != nil {
		return nil, fmt.Errorf("reading the animation: %w", err)
	}
	f := &Frames{W: w, H: h, n: len(a.frames), at: a.show}
	for _, fr := range a.frames {
		f.Times = append(f.Times, f.Duration)
		f.Duration += fr.delay
	}
	return f, nil
}

func (a *animation) scan(data []byte) (w, h int, err error) {
	const screen = 13 // signature and logical screen descriptor
	if len(data) < screen {
		return 0, 0, errors.New("file truncated")
	}
	w, h = int(binary.LittleEndian.Uint16(data[6:])), int(binary.LittleEndian.Uint16(data[8:]))
	if err := within(w, h); err != nil {
		return 0, 0, err
	}
	at := screen + colours(data[10])
	if at > len(data) {
		return 0, 0, errors.New("file truncated")
	}
	a.head = data[:at]
	drawn, control := int64(0), []byte(nil)
	for at < len(data) {
		from := at
		switch data[at] {
		case 0x21: // an extension: its label, then blocks
			if at, err = blocks(data, at+2); err != nil {
				return 0, 0, err
			}
			if data[from+1] == 0xf9 {
				if at-from != 8 || data[from+2] != 4 {
					return 0, 0, fmt.Errorf("bad control block of frame %d: got %d bytes", len(a.frames), at-from)
				}
				control = data[from:at]
			}
		case 0x2c:
			if len(data)-at < 10 {
				return 0, 0, errors.New("file truncated")
			}
			le := binary.LittleEndian
			x, y := int(le.Uint16(data[at+1:])), int(le.Uint16(data[at+3:]))
			fr := gifFrame{box: image.Rect(x, y, x+int(le.Uint16(data[at+5:])), y+int(le.Uint16(data[at+7:]))), control: control}
			if !fr.box.In(image.Rect(0, 0, w, h)) || fr.box.Empty() {
				return 0, 0, fmt.Errorf("frame %d: bounds %v exceed the screen of %d × %d", len(a.frames), fr.box, w, h)
			}
			// One byte between color table and blocks is the code size.
			if at, err = blocks(data, at+10+colours(data[at+9])+1); err != nil {
				return 0, 0, err
			}
			fr.descriptor, control = data[from:at], nil
			fr.setTiming()
			drawn += int64(fr.box.Dx()) * int64(fr.box.Dy())
			if drawn > maxDrawn || len(a.frames) == maxFrames {
				return 0, 0, fmt.Errorf("%d frames of %d pixels exceed the limit", len(a.frames)+1, drawn)
			}
			a.frames = append(a.frames, fr)
		case 0x3b:
			at = len(data)
		default:
			return 0, 0, fmt.Errorf("unknown block %#x after frame %d", data[at], len(a.frames))
		}
	}
	if len(a.frames) == 0 {
		return 0, 0, errors.New("no frames")
	}
	return w, h, nil
}

// setTiming reads delay and disposal. Delays under 20 ms become 100 ms, as in
// browsers.
func (f *gifFrame) setTiming() {
	f.delay = 100 * time.Millisecond
	if f.control == nil {
		return
	}
	f.disposal = f.control[3] >> 2 & 7
	if ticks := binary.LittleEndian.Uint16(f.control[4:]); ticks > 1 {
		f.delay = time.Duration(ticks) * 10 * time.Millisecond
	}
}

// colours returns the size of a color table by its flags.
func colours(flags byte) int {
	if flags&0x80 == 0 {
		return 0
	}
	return 3 << (flags&7 + 1)
}

// blocks returns the end of the data blocks that begin at at.
func blocks(data []byte, at int) (int, error) {
	for at < len(data) {
		n := int(data[at])
		at += 1 + n
		if n == 0 {
			return at, nil
		}
	}
	return 0, errors.New("file truncated")
}

// show returns the screen with frame i.
func (a *animation) show(ctx context.Context, i int) (*Raster, error) {
	if i < a.at || a.screen == nil {
		w, h := int(binary.LittleEndian.Uint16(a.head[6:])), int(binary.LittleEndian.Uint16(a.head[8:]))
		a.screen, a.at = &Raster{W: w, H: h, C: 3, Pix: make([]byte, 3*w*h)}, -1
	}
	for a.at < i {
		if err := a.draw(ctx, a.at+1); err != nil {
			a.screen = nil // drop the partial drawing
			return nil, fmt.Errorf("reading frame %d: %w", a.at+1, err)
		}
	}
	return &Raster{W: a.screen.W, H: a.screen.H, C: 3, Pix: bytes.Clone(a.screen.Pix)}, nil
}

// draw disposes of the current frame and draws the next. Pixels that no frame
// covers are black.
func (a *animation) draw(ctx context.Context, i int) error {
	if a.at >= 0 {
		switch last := a.frames[a.at]; last.disposal {
		case toBackground:
			for y := last.box.Min.Y; y < last.box.Max.Y; y++ {
				clear(a.screen.Pix[3*(y*a.screen.W+last.box.Min.X):][:3*last.box.Dx()])
			}
		case toPrevious:
			copy(a.screen.Pix, a.before)
		}
	}
	f := &a.frames[i]
	one := bytes.Join([][]byte{a.head, f.control, f.descriptor, {0x3b}}, nil)
	m, err := gif.Decode(fsx.Reader{Context: ctx, R: few{bytes.NewReader(one)}})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	p, ok := m.(*image.Paletted)
	if !ok || p.Rect != f.box {
		return errors.New("frame does not match its header")
	}
	if f.disposal == toPrevious {
		a.before = append(a.before[:0], a.screen.Pix...)
	}
	table := make([][4]uint8, 256)
	for k, c := range p.Palette {
		r, g, b, alpha := c.RGBA()
		table[k] = [4]uint8{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), uint8(alpha >> 8)}
	}
	for y := range f.box.Dy() {
		row := a.screen.Pix[3*((f.box.Min.Y+y)*a.screen.W+f.box.Min.X):]
		for x, k := range p.Pix[y*p.Stride:][:f.box.Dx()] {
			if c := table[k]; c[3] != 0 {
				row[3*x], row[3*x+1], row[3*x+2] = c[0], c[1], c[2]
			}
		}
	}
	a.at = i
	return nil
}

// opaqueGIF returns the file without the transparency of its first frame, and
// the transparent color, or 0: Pillow's convert("RGB") shows transparent pixels
// in their color of the palette. A malformed file is returned as it is.
func opaqueGIF(data []byte) (opaque []byte, index uint8) {
	if len(data) < 13 {
		return data, 0
	}
	opaque = bytes.Clone(data)
	for at := 13 + colours(data[10]); at+8 <= len(data) && data[at] == 0x21; {
		if data[at+1] == 0xf9 && data[at+2] == 4 {
			index = data[at+6] * (data[at+3] & 1)
			opaque[at+3] &^= 1
		}
		var err error
		if at, err = blocks(data, at+2); err != nil {
			return data, 0
		}
	}
	return opaque, index
}

// onScreen returns a GIF's first frame on a screen of w × h of one color.
func onScreen(m image.Image, index uint8, w, h int) (image.Image, error) {
	p, ok := m.(*image.Paletted)
	screen := image.Rect(0, 0, w, h)
	if !ok || p.Rect == screen {
		return m, nil
	}
	if int(index) >= len(p.Palette) {
		return nil, fmt.Errorf("color %d around the frame exceeds the palette of %d", index, len(p.Palette))
	}
	out := image.NewPaletted(screen, p.Palette)
	for i := range out.Pix {
		out.Pix[i] = index
	}
	for y := p.Rect.Min.Y; y < p.Rect.Max.Y; y++ {
		copy(out.Pix[out.PixOffset(p.Rect.Min.X, y):], p.Pix[p.PixOffset(p.Rect.Min.X, y):][:p.Rect.Dx()])
	}
	return out, nil
}
