// Package fonts holds the outlines of 45 fonts as lines: 33 to draw training
// images with, 12 held out to test with. tools/faces extracts them (make faces).
package fonts

import (
	"bufio"
	"bytes"
	"compress/flate"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

//go:embed faces.bin
var file []byte

//go:embed faces.txt
var notices string

// Notices returns the licenses of the fonts.
func Notices() string { return notices }

// Em is the size of the em that outlines and advances are measured in.
const Em = 1024

// Font is a font: its name and its glyphs.
type Font struct {
	Name   string
	Glyphs map[rune]Glyph
}

// Glyph is the outline of a character: closed contours of straight lines, x from
// the origin and y down from the baseline.
type Glyph struct {
	Contours [][][2]int
	Advance  int // distance to the origin of the next character
}

// Training returns the fonts for training, which all callers share.
func Training() ([]Font, error) { return training() }

// HeldOut returns the fonts for tests, none of which is in Training. All callers
// share them.
func HeldOut() ([]Font, error) { return heldOut() }

var (
	training = sync.OnceValues(func() ([]Font, error) { return read(file, false) })
	heldOut  = sync.OnceValues(func() ([]Font, error) { return read(file, true) })
)

// Limits of a font file, far above those of the embedded one.
const (
	maxFonts  = 1 << 10
	maxName   = 255
	maxGlyphs = 1 << 10
	maxRune   = 1 << 20
	maxOps    = 1 << 12
	maxExtent = 1 << 14
)

var errDamaged = errors.New("damaged font file")

// read decodes the fonts of one split. tools/faces documents the format.
func read(file []byte, heldOut bool) ([]Font, error) {
	r := reader{in: bufio.NewReader(flate.NewReader(bytes.NewReader(file)))}
	var fonts []Font
	for range r.count(maxFonts) {
		split := r.count(1)
		name := make([]byte, r.count(maxName))
		if _, err := io.ReadFull(r.in, name); err != nil {
			r.err = errors.Join(r.err, err)
		}
		f := Font{string(name), map[rune]Glyph{}}
		for range r.count(maxGlyphs) {
			c := rune(r.count(maxRune))
			f.Glyphs[c] = r.glyph()
		}
		if r.err != nil {
			return nil, fmt.Errorf("%w: %w", errDamaged, r.err)
		}
		if (split == 1) == heldOut {
			fonts = append(fonts, f)
		}
	}
	if len(fonts) == 0 {
		return nil, errDamaged
	}
	return fonts, nil
}

// reader decodes numbers until the first invalid one.
type reader struct {
	in  *bufio.Reader
	err error
}

// count reads a number from 0 to most. After an error it returns 0.
func (r *reader) count(most uint64) int {
	v, err := binary.ReadUvarint(r.in)
	if err == nil && v > most {
		err = fmt.Errorf("count %d, want at most %d", v, most)
	}
	if r.err == nil {
		r.err = err
	}
	if r.err != nil {
		return 0
	}
	return int(v)
}

// signed reads a number from -maxExtent to maxExtent.
func (r *reader) signed() int {
	v, err := binary.ReadVarint(r.in)
	if err == nil && (v > maxExtent || v < -maxExtent) {
		err = fmt.Errorf("length %d, want at most %d", v, maxExtent)
	}
	if r.err == nil {
		r.err = err
	}
	if r.err != nil {
		return 0
	}
	return int(v)
}

// glyph reads one outline and flattens its curves to lines.
func (r *reader) glyph() Glyph {
	g := Glyph{Advance: r.signed()}
	var at [2]int
	next := func() [2]int {
		at = [2]int{at[0] + r.signed(), at[1] + r.signed()}
		return at
	}
	for range r.count(maxOps) {
		from := at
		op := r.count(3)
		if op == 0 {
			g.Contours = append(g.Contours, [][2]int{next()})
			continue
		}
		if len(g.Contours) == 0 {
			r.err = errors.Join(r.err, errors.New("segment before the first move"))
			return g
		}
		c := &g.Contours[len(g.Contours)-1]
		switch op {
		case 1:
			*c = append(*c, next())
		case 2:
			a, b := next(), next()
			const n = 5
			for i := 1; i <= n; i++ {
				*c = append(*c, [2]int{quadratic(n, i, from[0], a[0], b[0]), quadratic(n, i, from[1], a[1], b[1])})
			}
		default:
			a, b, d := next(), next(), next()
			const n = 7
			for i := 1; i <= n; i++ {
				*c = append(*c, [2]int{cubic(n, i, from[0], a[0], b[0], d[0]), cubic(n, i, from[1], a[1], b[1], d[1])})
			}
		}
	}
	return g
}

// quadratic evaluates a Bézier curve of degree 2 at i/n.
func quadratic(n, i, p, a, b int) int {
	j := n - i
	return divide(j*j*p+2*i*j*a+i*i*b, n*n)
}

// cubic evaluates a Bézier curve of degree 3 at i/n.
func cubic(n, i, p, a, b, d int) int {
	j := n - i
	return divide(j*j*j*p+3*i*j*j*a+3*i*i*j*b+i*i*i*d, n*n*n)
}

// divide returns v/d, rounded to nearest.
func divide(v, d int) int {
	if v < 0 {
		return -((-v + d/2) / d)
	}
	return (v + d/2) / d
}
