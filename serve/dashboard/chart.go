package dashboard

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"mm-abi.org/mm/eval"
	"mm-abi.org/mm/internal/fsx"
)

// chart is a budget over versions.
type chart struct {
	Name   string
	Least  bool
	Points []point
	Limit  string // of the newest version
	Line   string // of the SVG
	Steps  string // the limits
	Ticks  []tick
	Width  int
	Height int
	Words  string
}

// point is a measured figure.
type point struct {
	Label   string
	Link    string
	Shown   string // "": not measured
	Limit   string
	Passed  bool
	X, Y, T int // T: of the limit
	L       int // of the label
}

// tick is a mark of an axis.
type tick struct {
	X, Y   int
	Label  string
	Anchor string
}

// The sizes of charts.
const (
	chartWidth  = 424
	chartHeight = 200
	chartLeft   = 70
	chartRight  = 12
	chartTop    = 16
	chartBottom = 32
)

// budgets sets the charts of budgets, each over the versions that report it.
func (s *site) budgets(reports []eval.Report) {
	type entry struct {
		label, link string
		rows        []eval.Row
	}
	var all []entry
	used := map[int]bool{}
	for _, v := range s.Versions {
		for i, r := range reports {
			if v.is(r.Source.Digest, r.Source.Target) {
				all, used[i] = append(all, entry{v.Label(), v.Path, r.Rows}), true
			}
		}
	}
	for i, r := range reports {
		if !used[i] {
			all = append(all, entry{line(strings.TrimSpace(r.Source.Model + " " + r.Source.Target)), "", r.Rows})
		}
	}
	var names []string
	for _, e := range all {
		for _, r := range e.rows {
			names = append(names, r.Budget)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		c := chart{Name: line(name), Width: chartWidth, Height: chartHeight}
		var rows []eval.Row
		for _, e := range all {
			for _, r := range e.rows {
				if r.Budget != name {
					continue
				}
				p := point{Label: e.label, Link: e.link, Limit: r.Shown(r.Limit), Passed: r.Passed}
				if r.Value != nil {
					p.Shown = r.Shown(*r.Value)
				}
				if r.Passed {
					s.Kept++
				} else {
					s.Missed++
				}
				c.Least, c.Limit = r.Least, p.Limit
				c.Points, rows = append(c.Points, p), append(rows, r)
			}
		}
		c.scale(rows)
		s.Charts = append(s.Charts, c)
	}
}

// scale places the points of a chart.
func (c *chart) scale(rows []eval.Row) {
	top := 0.0
	for _, r := range rows {
		top = max(top, r.Limit)
		if r.Value != nil {
			top = max(top, *r.Value)
		}
	}
	if top <= 0 || math.IsInf(top, 0) || math.IsNaN(top) {
		top = 1
	}
	top *= 1.1
	y := func(x float64) int {
		x = min(max(x, 0), top)
		return chartHeight - chartBottom - int(math.Round(x/top*(chartHeight-chartTop-chartBottom)))
	}
	wide := chartWidth - chartLeft - chartRight
	var words, lines, steps []string
	pen := "M"
	for i := range c.Points {
		p, r := &c.Points[i], rows[i]
		p.X = chartLeft + wide/2
		if len(rows) > 1 {
			p.X = chartLeft + 48 + (wide-96)*i/(len(rows)-1)
		}
		p.T = y(r.Limit)
		half := 24
		steps = append(steps, fmt.Sprintf("M %d %d H %d", p.X-half, p.T, p.X+half))
		x, anchor := p.X, "middle"
		if i == 0 && len(rows) > 1 {
			x, anchor = chartLeft, "start"
		} else if i == len(rows)-1 && len(rows) > 1 {
			x, anchor = chartWidth-chartRight, "end"
		}
		c.Ticks = append(c.Ticks, tick{x, chartHeight - 10, narrow(p.Label, max(8, 54/len(rows))), anchor})
		if r.Value == nil {
			pen = "M"
			words = append(words, p.Label+": not measured")
			continue
		}
		p.Y = y(*r.Value)
		if p.L = p.Y - 10; p.T <= p.Y && p.Y-p.T < 26 { // not over the limit
			p.L = p.Y + 20
		}
		lines, pen = append(lines, fmt.Sprintf("%s %d %d", pen, p.X, p.Y)), "L"
		words = append(words, p.Label+": "+p.Shown)
	}
	c.Line, c.Steps, c.Words = strings.Join(lines, " "), strings.Join(steps, " "), strings.Join(words, "; ")
	row := eval.Row{Bytes: len(rows) > 0 && rows[0].Bytes}
	for i := range 3 {
		x := top / 1.1 * float64(i) / 2
		label := row.Shown(x)
		if row.Bytes {
			label = fsx.FormatSize(int64(x))
		}
		c.Ticks = append(c.Ticks, tick{0, y(x), label, "end"})
	}
}

// plot shows the figures of a row with their intervals on one axis.
type plot struct {
	Width, Height int
	Marks         []mark
	Ticks         []tick
	Words         string
}

// mark is a figure with its interval.
type mark struct {
	Label        string
	X, Low, High int
	Y            int
}

// The sizes of plots.
const (
	plotLeft  = 230
	plotWidth = 720
	plotStep  = 32
)

// plotted places the figures of a row.
func plotted(r *Row) (p plot) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, c := range r.Cells {
		if c.Figure != nil {
			low, high = min(low, c.Figure.Low, c.Figure.Value), max(high, c.Figure.High, c.Figure.Value)
		}
	}
	if math.IsInf(low, 0) || math.IsInf(high, 0) {
		return p
	}
	if low >= 0 && high <= 1 {
		low, high = 0, 1
	}
	if high <= low {
		low, high = low-1, high+1
	}
	x := func(v float64) int {
		return plotLeft + int(math.Round((v-low)/(high-low)*(plotWidth-plotLeft-edge*2)))
	}
	p.Width = plotWidth
	var words []string
	for _, c := range r.Cells {
		if c.Figure == nil {
			continue
		}
		f := c.Figure
		p.Marks = append(p.Marks, mark{narrow(c.Column.Label, 30), x(f.Value), x(f.Low), x(f.High), 20 + plotStep*len(p.Marks)})
		words = append(words, fmt.Sprintf("%s: %s, from %s to %s", c.Column.Label, number(f.Value), number(f.Low), number(f.High)))
	}
	p.Height = 20 + plotStep*len(p.Marks) + 20
	for i := range 5 {
		v := low + (high-low)*float64(i)/4
		p.Ticks = append(p.Ticks, tick{x(v), p.Height - 6, fmt.Sprintf("%.3g", v), "middle"})
	}
	p.Words = strings.Join(words, "; ")
	return p
}
