package scene

import (
	"slices"
	"strconv"
	"strings"
)

// Each prompt determines a chart up to shade and letters: an axis to 100 with
// ticks of 20 and room for five bars of one color, filled from the left.
const (
	plotTop   = 100
	plotStep  = 20
	plotBars  = 5 // at most
	plotValue = 5 // values are multiples of it
	plotHigh  = 60
)

// Its position, of 128.
const (
	plotLeft, plotRight   = 24, 124
	plotUpper, plotBottom = 8, 108
	plotWide              = 14 // width of a bar
)

// plot draws a bar chart and its prompt.
func (p *pen) plot() Scene {
	ground := p.ground(false)
	t := Truth{Top: plotTop, Step: plotStep, Bars: p.columns()}
	colour := pick(&p.dice, against(ground))
	for i := range t.Bars {
		t.Bars[i].Colour = colour
	}
	p.drawPlot(&t, rgb{20, 20, 20})
	p.finish()
	parts := make([]string, len(t.Bars))
	for i, b := range t.Bars {
		parts[i] = b.Label + " " + strconv.Itoa(b.Value)
	}
	request := pick(&p.dice, []string{"draw ", "please draw ", "make "}) + article(colour) + " bar chart: " + strings.Join(parts, ", ")
	return Scene{Truth: t, Caption: ofBars(t), Questions: p.aboutChart(t, false), Draw: request}
}

// columns returns bars with labels a, b, c and so on, or short words. The
// highest is at least plotHigh, so that heights are distinguishable.
func (p *pen) columns() []Bar {
	bars := make([]Bar, p.span(leastBars, plotBars))
	labels := strings.Split(letters, "")
	if p.one(2) {
		labels = slices.Clone(subjects)
		shuffle(&p.dice, labels)
	}
	for {
		values := make([]int, len(bars))
		for i := range bars {
			bars[i] = Bar{Label: labels[i], Value: p.span(1, plotTop/plotValue) * plotValue}
			values[i] = bars[i].Value
		}
		slices.Sort(values)
		if n := len(values); values[0] < values[1] && values[n-2] < values[n-1] && values[n-1] >= plotHigh {
			return bars
		}
	}
}

// drawPlot draws axes, ticks, labels and bars.
func (p *pen) drawPlot(t *Truth, ink rgb) {
	px := func(v int) int { return p.px(v * unit) }
	ax := axes{px(plotLeft), px(plotRight), px(plotUpper), px(plotBottom), scale{t.Top, t.Step}, ink, max(p.px(unit), unit)}
	text := style{font: p.fonts[0], em: p.px(10 * unit), wide: 256}
	for v := 0; v <= t.Top; v += t.Step {
		p.tick(ax, v, text)
	}
	slot, paint := (ax.right-ax.left)/plotBars, p.shade(t.Bars[0].Colour)
	for i, b := range t.Bars {
		p.bar(ax, i, ax.left+slot*i+(slot-px(plotWide))/2, px(plotWide), b, paint, p.letter(b.Label, text))
	}
	p.lines(ax)
}
