package scene

import (
	"bufio"
	"bytes"
	"compress/flate"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

//go:embed faces.bin
var faceFile []byte

//go:embed faces.txt
var notices string

// Notices are the licences of the fonts that letters are drawn after.
func Notices() string { return notices }

// em is the size that outlines of letters are in.
const em = 1024

// glyph is one character's outline, made of lines, from its origin on the
// baseline, y downwards; and how far the next one is from it.
type glyph struct {
	contours [][]point
	advance  int
}

// face is the letters of one font.
type face struct {
	name   string
	glyphs map[rune]glyph
}

// FaceNames lists the fonts of a split.
func FaceNames(split string) ([]string, error) {
	faces, err := readFaces(faceFile, split == Held)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(faces))
	for i, f := range faces {
		names[i] = f.name
	}
	return names, nil
}

// Bounds of a file of faces, far above what it has.
const (
	maxFaces  = 1 << 10
	maxGlyphs = 1 << 10
	maxOps    = 1 << 12
	maxExtent = 1 << 14
)

var errFaces = errors.New("damaged outlines of letters")

// readFaces reads the faces of one split; tools/faces tells the form.
func readFaces(file []byte, held bool) ([]face, error) {
	r := faceReader{in: bufio.NewReader(flate.NewReader(bytes.NewReader(file)))}
	var faces []face
	for range r.count(maxFaces) {
		split := r.count(1)
		name := make([]byte, r.count(255))
		if _, err := io.ReadFull(r.in, name); err != nil {
			r.err = errors.Join(r.err, err)
		}
		f := face{string(name), map[rune]glyph{}}
		for range r.count(maxGlyphs) {
			c := rune(r.count(1 << 20))
			f.glyphs[c] = r.glyph()
		}
		if r.err != nil {
			return nil, fmt.Errorf("%w: %w", errFaces, r.err)
		}
		if (split == 1) == held {
			faces = append(faces, f)
		}
	}
	if len(faces) == 0 {
		return nil, errFaces
	}
	return faces, nil
}

// faceReader reads numbers until the first that cannot be.
type faceReader struct {
	in  *bufio.Reader
	err error
}

// count reads a number of 0 to most; 0 after an error.
func (r *faceReader) count(most uint64) int {
	v, err := binary.ReadUvarint(r.in)
	if err == nil && v > most {
		err = fmt.Errorf("%d of at most %d", v, most)
	}
	if r.err == nil {
		r.err = err
	}
	if r.err != nil {
		return 0
	}
	return int(v)
}

// signed reads a number of at most maxExtent either way.
func (r *faceReader) signed() int {
	v, err := binary.ReadVarint(r.in)
	if err == nil && (v > maxExtent || v < -maxExtent) {
		err = fmt.Errorf("length %d", v)
	}
	if r.err == nil {
		r.err = err
	}
	if r.err != nil {
		return 0
	}
	return int(v)
}

// glyph reads one outline and makes lines of its curves.
func (r *faceReader) glyph() glyph {
	g := glyph{advance: r.signed()}
	var at point
	read := func() point {
		at = point{at.x + r.signed(), at.y + r.signed()}
		return at
	}
	for range r.count(maxOps) {
		from := at
		op := r.count(3)
		if op == 0 {
			g.contours = append(g.contours, []point{read()})
			continue
		}
		if len(g.contours) == 0 {
			r.err = errors.Join(r.err, errors.New("a line from nowhere"))
			return g
		}
		c := &g.contours[len(g.contours)-1]
		switch op {
		case 1:
			*c = append(*c, read())
		case 2:
			a, b := read(), read()
			const n = 5
			for i := 1; i <= n; i++ {
				j := n - i
				*c = append(*c, point{
					divide(j*j*from.x+2*i*j*a.x+i*i*b.x, n*n),
					divide(j*j*from.y+2*i*j*a.y+i*i*b.y, n*n)})
			}
		default:
			a, b, d := read(), read(), read()
			const n = 7
			for i := 1; i <= n; i++ {
				j := n - i
				*c = append(*c, point{
					divide(j*j*j*from.x+3*i*j*j*a.x+3*i*i*j*b.x+i*i*i*d.x, n*n*n),
					divide(j*j*j*from.y+3*i*j*j*a.y+3*i*i*j*b.y+i*i*i*d.y, n*n*n)})
			}
		}
	}
	return g
}

// divide is v/d, rounded to the nearest.
func divide(v, d int) int {
	if v < 0 {
		return -((-v + d/2) / d)
	}
	return (v + d/2) / d
}

// style says how a text looks.
type style struct {
	face  face
	em    int // height of the font, in 1/256 of a pixel
	wide  int // its letters' width, of 256
	space int // between letters, of the em's 1024
	angle int // of 1024 of a circle
}

// lettering is a text's outline.
type lettering struct {
	contours [][]point
	lo, hi   point // what its ink lies between
	signs    []sign
}

// sign is a letter and the middle of its ink.
type sign struct {
	char rune
	at   point
}

// letter sets a text from the origin on.
func (p *pen) letter(text string, st style) lettering {
	l := lettering{lo: point{1 << 30, 1 << 30}, hi: point{-1 << 30, -1 << 30}}
	x := 0
	for _, c := range text {
		g, ok := st.face.glyphs[c]
		if !ok {
			panic(fmt.Sprintf("scene: %s has no %q", st.face.name, c))
		}
		lo, hi := point{1 << 30, 1 << 30}, point{-1 << 30, -1 << 30}
		for _, contour := range g.contours {
			out := make([]point, len(contour))
			for i, q := range contour {
				q = point{(x + q.x) * st.em / em * st.wide / 256, q.y * st.em / em}.rotated(st.angle)
				out[i] = q
				lo, hi = point{min(lo.x, q.x), min(lo.y, q.y)}, point{max(hi.x, q.x), max(hi.y, q.y)}
			}
			l.contours = append(l.contours, out)
		}
		l.signs = append(l.signs, sign{c, point{(lo.x + hi.x) / 2, (lo.y + hi.y) / 2}})
		l.lo, l.hi = point{min(l.lo.x, lo.x), min(l.lo.y, lo.y)}, point{max(l.hi.x, hi.x), max(l.hi.y, hi.y)}
		x += g.advance + st.space
	}
	return l
}

func (l lettering) width() int  { return l.hi.x - l.lo.x }
func (l lettering) height() int { return l.hi.y - l.lo.y }

// moved is the lettering with each point moved.
func (l lettering) moved(by point) lettering {
	for _, c := range l.contours {
		for i := range c {
			c[i] = point{c[i].x + by.x, c[i].y + by.y}
		}
	}
	for i := range l.signs {
		l.signs[i].at = point{l.signs[i].at.x + by.x, l.signs[i].at.y + by.y}
	}
	l.lo, l.hi = point{l.lo.x + by.x, l.lo.y + by.y}, point{l.hi.x + by.x, l.hi.y + by.y}
	return l
}
