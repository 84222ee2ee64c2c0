// Package plot draws line charts as SVG files, deterministically.
package plot

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"math"
	"strconv"
	"strings"
)

// Chart is a line chart with its labels.
type Chart struct {
	Title, X, Y string
	Lines       []Line
}

// Line is a curve through points, in order.
type Line struct {
	Name   string
	Color  string // of SVG, such as "#1f77b4"; if empty, black
	Dashed bool
	Points []Point
}

// Point is a point in the units of the chart.
type Point struct{ X, Y float64 }

// The size of the image in SVG units, and the margins of the frame.
const (
	width, height            = 680, 416
	left, right, top, bottom = 64, 20, 36, 48
	ticks                    = 6 // maximum number of steps of an axis
)

// SVG writes the chart. Both axes begin at 0 and end at or above the largest value. Points
// that are NaN, infinite or negative are errors.
func SVG(w io.Writer, c Chart) error {
	var most Point
	for _, l := range c.Lines {
		for _, p := range l.Points {
			if !(p.X >= 0 && p.Y >= 0) || math.IsInf(p.X, 0) || math.IsInf(p.Y, 0) {
				return fmt.Errorf("drawing %q: bad point %v, %v", l.Name, p.X, p.Y)
			}
			most = Point{max(most.X, p.X), max(most.Y, p.Y)}
		}
	}
	x, y := newAxis(most.X, left, width-right), newAxis(most.Y, height-bottom, top)
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(out, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	text(out, width/2, top/2+4, "middle", c.Title)
	text(out, (left+width-right)/2, height-10.0, "middle", c.X)
	fmt.Fprintf(out, `<g transform="rotate(-90 14 %d)">`, (top+height-bottom)/2)
	text(out, 14, (top+height-bottom)/2, "middle", c.Y)
	fmt.Fprintln(out, "</g>")
	for v := range x.steps() {
		fmt.Fprintf(out, `<path d="M%s %dV%d" stroke="#ddd"/>`, at(x.at(v)), top, height-bottom)
		text(out, x.at(v), height-bottom+16, "middle", label(v))
	}
	for v := range y.steps() {
		fmt.Fprintf(out, `<path d="M%d %sH%d" stroke="#ddd"/>`, left, at(y.at(v)), width-right)
		text(out, left-6, y.at(v)+4, "end", label(v))
	}
	for i, l := range c.Lines {
		draw(out, l, i, x, y)
	}
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}

// draw draws a line and its legend.
func draw(w io.Writer, l Line, i int, x, y axis) {
	style := `fill="none" stroke="black"`
	if l.Color != "" {
		style = fmt.Sprintf(`fill="none" stroke="%s"`, html.EscapeString(l.Color))
	}
	if l.Dashed {
		style += ` stroke-dasharray="4 3"`
	}
	var points []string
	for _, p := range l.Points {
		points = append(points, at(x.at(p.X))+","+at(y.at(p.Y)))
	}
	fmt.Fprintf(w, `<polyline %s points="%s"/>`, style, strings.Join(points, " "))
	row := top + 16 + 16*i
	fmt.Fprintf(w, `<path %s d="M%d %dH%d"/>`, style, width-right-150, row-4, width-right-126)
	text(w, width-right-120, float64(row), "start", l.Name)
}

// axis maps values from 0 to end to positions from lo to hi.
type axis struct{ end, step, lo, hi float64 }

// newAxis returns an axis that ends at the first step at or above most. Steps are 1, 2 or 5
// times a power of ten.
func newAxis(most, lo, hi float64) axis {
	if most == 0 {
		most = 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(most/ticks)))
	step := 10 * unit
	for _, k := range []float64{1, 2, 5} {
		if k*unit*ticks >= most {
			step = k * unit
			break
		}
	}
	return axis{end: step * math.Ceil(most/step), step: step, lo: lo, hi: hi}
}

func (a axis) at(v float64) float64 { return a.lo + (a.hi-a.lo)*v/a.end }

// steps iterates over the labeled values.
func (a axis) steps() func(yield func(float64) bool) {
	return func(yield func(float64) bool) {
		for i := 0; float64(i)*a.step <= a.end*(1+1e-9); i++ {
			if !yield(float64(i) * a.step) {
				return
			}
		}
	}
}

// at formats a coordinate, rounded to hundredths.
func at(v float64) string { return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) }

// label formats a value briefly: 250k, 1.5M.
func label(v float64) string {
	unit := ""
	switch {
	case v >= 1e6:
		v, unit = v/1e6, "M"
	case v >= 1e4:
		v, unit = v/1e3, "k"
	}
	return strconv.FormatFloat(v, 'g', 6, 64) + unit
}

func text[N int | float64](w io.Writer, x N, y float64, anchor, s string) {
	fmt.Fprintf(w, `<text x="%s" y="%s" text-anchor="%s">%s</text>`+"\n", at(float64(x)), at(y), anchor, html.EscapeString(s))
}
