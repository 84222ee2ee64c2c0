package scene

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Mark is a drawn sign and the pixel of its center.
type Mark struct {
	Sign   string // one of Signs: a lower-case letter, a digit, a shape, the top of a bar
	Colour string // name of the color; "" if it has none
	X, Y   int
	Slot   int // slot of the reading; 0: none
}

// mark records a sign at a point, in 1/256 of a pixel.
func (p *pen) mark(sign, colour string, at point, slot int) {
	p.marks = append(p.marks, Mark{sign, colour, at.x >> 8, at.y >> 8, slot})
}

// write paints a text and records its letters in the reading from slot on, if
// slot is not 0. colour is the name of c, if it has one.
func (p *pen) write(l lettering, c rgb, colour string, slot int) {
	p.paint(l.contours, c)
	for i, s := range l.signs {
		at := 0
		if slot > 0 {
			at = slot + i
		}
		p.mark(strings.ToLower(string(s.char)), colour, s.at, at)
	}
}

// A reading describes an image by [Slots] signs at fixed positions, as a target
// for an encoder without a language model. It has rows of [Row] signs. Row 0 is
// the kind, the number of things, the color of a text, an axis's end as three
// digits and a chart's title. Rows 1 to 7 are
//
//   - of shapes: size, color, shape, place;
//   - of a chart, one row per bar: three letters of its label, three digits of
//     its value, its color, whether it is the highest or the lowest;
//   - of a text, one row: its letters or digits.
//
// Letters and digits are left-aligned; other positions have the empty sign.
const (
	Row   = 8
	Slots = 8 * Row
)

// BarTop is the sign of the center of a bar's upper edge, used only in marks.
const BarTop = "bar"

// Positions in a row.
const (
	rowCount, rowColour, rowTop, rowTitle   = 1, 2, 3, 6
	barValue, barColour, barFlag            = 3, 6, 7
	shapeSize, shapeHue, shapeName, shapeAt = 0, 1, 2, 3
)

// Signs returns all signs of readings, the empty sign first.
func Signs() []string {
	s := append([]string{""}, Shapes, Charts, Words, Digits)
	s = append(s, strings.Split(letters, "")...)
	for d := range 10 {
		s = append(s, strconv.Itoa(d))
	}
	for _, c := range colours {
		s = append(s, c.name)
	}
	s = append(s, ShapeNames()...)
	s = append(s, places[:]...)
	s = append(s, "small", "big", AskHighest, AskLowest, BarTop)
	return append(s, titles...)
}

// Reading returns the image as [Slots] signs, or nil for a video.
func (s Scene) Reading() []string {
	if s.Kind == Video {
		return nil
	}
	r := make([]string, Slots)
	t := s.Truth
	spell := func(at int, text string) {
		for i, c := range strings.Split(strings.ToLower(text), "") {
			r[at+i] = c
		}
	}
	r[0], r[rowColour] = s.Kind, t.Colour
	switch s.Kind {
	case Shapes:
		r[rowCount] = strconv.Itoa(len(t.Shapes))
		for i, o := range t.Shapes {
			copy(r[(i+1)*Row:], []string{o.Size, o.Colour, o.Shape, o.Place})
		}
	case Charts:
		r[rowCount], r[rowTitle] = strconv.Itoa(len(t.Bars)), t.Title
		spell(rowTop, strconv.Itoa(t.Top))
		low, high := extremes(t.Bars)
		for i, b := range t.Bars {
			at := (i + 1) * Row
			spell(at, b.Label)
			spell(at+barValue, strconv.Itoa(b.Value))
			r[at+barColour] = b.Colour
		}
		r[(low+1)*Row+barFlag], r[(high+1)*Row+barFlag] = AskLowest, AskHighest
	default:
		r[rowCount] = strconv.Itoa(len(t.Text))
		spell(Row, t.Text)
	}
	return r
}

// extremes returns the indices of the lowest and the highest bar.
func extremes(bars []Bar) (low, high int) {
	for i, b := range bars {
		if b.Value < bars[low].Value {
			low = i
		}
		if b.Value > bars[high].Value {
			high = i
		}
	}
	return low, high
}

// Owner returns the thing to which slot i of the reading belongs, as in a
// question: a bar by its label, except in the label itself; a shape by its
// color and form, in either of these by the other. It is "" if slot i belongs
// to no thing.
func (s Scene) Owner(i int) string {
	n, at := i/Row-1, i%Row
	switch {
	case n >= 0 && n < len(s.Truth.Bars) && at >= barValue:
		return strings.ToLower(s.Truth.Bars[n].Label)
	case n >= 0 && n < len(s.Truth.Shapes):
		o := s.Truth.Shapes[n]
		switch at {
		case shapeHue:
			return o.Shape
		case shapeName:
			return o.Colour
		case shapeSize, shapeAt:
			return o.Colour + " " + o.Shape
		}
	}
	return ""
}

// Levels is the number of steps of a bar's share of its axis.
const Levels = 64

// Level returns the height, 0 to Levels-1, of the bar whose value begins at
// slot i of the reading; negative if there is none.
func (s Scene) Level(i int) int {
	if n := i/Row - 1; i%Row == barValue && n >= 0 && n < len(s.Truth.Bars) {
		return min(s.Truth.Bars[n].Value*Levels/s.Truth.Top, Levels-1)
	}
	return -1
}

// Most is the highest value of a bar.
const Most = 100

// Value returns the value, 0 to Most, of the bar with a digit at slot i of the
// reading; negative if there is none.
func (s Scene) Value(i int) int {
	if n := i/Row - 1; i%Row >= barValue && i%Row < barColour && n >= 0 && n < len(s.Truth.Bars) {
		return s.Truth.Bars[n].Value
	}
	return -1
}

// Verdict is the comparison of one property of an image.
type Verdict struct {
	Kind  string // charts/value
	Want  string // right answer: signs separated by spaces
	Right bool
}

// Judge compares a reading with the truth. Values within a twentieth are
// counted separately.
func (s Scene) Judge(r []string) []Verdict {
	want := s.Reading()
	var out []Verdict
	// slots judges n slots from each of the positions.
	slots := func(what string, n int, from ...int) {
		v := Verdict{Kind: s.Kind + "/" + what, Right: true}
		for _, at := range from {
			v.Want += strings.Join(want[at:at+n], " ") + " "
			v.Right = v.Right && slices.Equal(want[at:at+n], r[at:at+n])
		}
		out = append(out, v)
	}
	slots(AskCount, 1, rowCount)
	switch s.Kind {
	case Shapes:
		var rows []int
		for i := range s.Truth.Shapes {
			rows = append(rows, (i+1)*Row)
		}
		shifted := func(by int) (at []int) {
			for _, row := range rows {
				at = append(at, row+by)
			}
			return at
		}
		slots(AskCaption, shapeName+1-shapeHue, shifted(shapeHue)...)
		slots(AskPlace, 1, shifted(shapeAt)...)
		slots(AskSize, 1, shifted(shapeSize)...)
	case Charts:
		low, high := extremes(s.Truth.Bars)
		for i, b := range s.Truth.Bars {
			at := (i + 1) * Row
			slots("label", barValue, at)
			slots(AskValue, barColour-barValue, at+barValue)
			value, err := strconv.Atoi(strings.Join(r[at+barValue:at+barColour], ""))
			out = append(out, Verdict{s.Kind + "/" + AskValue + " ±5%", strconv.Itoa(b.Value), err == nil && math.Abs(float64(value-b.Value)) <= float64(b.Value)/20})
			slots(AskColour, 1, at+barColour)
		}
		for _, one := range []struct {
			flag string
			bar  int
		}{{AskHighest, high}, {AskLowest, low}} {
			at := (one.bar + 1) * Row
			slots(one.flag, barValue, at)
			v := &out[len(out)-1]
			v.Right = v.Right && r[at+barFlag] == one.flag
		}
	default:
		slots(AskRead, Row, Row)
		slots(AskColour, 1, rowColour)
	}
	return out
}
