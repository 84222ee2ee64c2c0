package scene

import (
	"slices"
	"strconv"
	"strings"
)

// scales are the ends of axes and the steps of their ticks. The axis to 30 with
// ticks of 10 is held out; the other held-out ends and steps occur in both
// splits.
var scales = struct{ train, held []scale }{
	train: []scale{{10, 2}, {10, 5}, {12, 3}, {12, 4}, {12, 6}, {14, 7}, {15, 5}, {16, 4}, {16, 8}, {18, 6}, {18, 9}, {20, 4}, {20, 5}, {20, 10},
		{21, 7}, {24, 6}, {24, 8}, {24, 12}, {25, 5}, {27, 9}, {28, 7}, {30, 5}, {30, 6}, {30, 15}, {32, 8}, {33, 11}, {35, 7}, {36, 9}, {36, 12},
		{40, 8}, {40, 10}, {40, 20}, {42, 14}, {44, 11}, {45, 9}, {45, 15}, {48, 12}, {50, 10}, {50, 25}, {51, 17}, {54, 18}, {60, 10}, {60, 12},
		{60, 15}, {60, 20}, {60, 30}, {63, 21}, {65, 13}, {66, 22}, {70, 10}, {70, 14}, {70, 35}, {72, 18}, {72, 24}, {75, 15}, {75, 25}, {80, 10},
		{80, 16}, {80, 20}, {80, 40}, {84, 12}, {85, 17}, {90, 15}, {90, 18}, {90, 30}, {95, 19}, {100, 20}, {100, 25}, {100, 50}},
	held: []scale{{20, 5}, {30, 10}, {50, 10}, {80, 20}, {100, 20}, {100, 25}},
}

type scale struct{ top, step int }

// titles of charts.
var titles = []string{"apples", "books", "cars", "cats", "days", "dogs", "fish", "games", "money", "rain", "sales", "snow", "time", "trees", "votes"}

// subjects are short words for labels.
var subjects = []string{
	"ann", "ben", "bob", "bus", "car", "cat", "cow", "day", "dog", "eat", "egg", "fox", "fun", "hat", "hen", "ice", "jam", "joe", "kim",
	"leo", "max", "mia", "mom", "dad", "owl", "pen", "pet", "pig", "red", "run", "sam", "sea", "sky", "sue", "sun", "tea", "tim", "tom", "toy", "zoe",
}

// Bar is a bar of a chart.
type Bar struct {
	Label  string `json:"label"` // as drawn
	Value  int    `json:"value"`
	Colour string `json:"colour"`
}

// Limits of charts.
const (
	leastBars = 2
	mostBars  = 7
)

// charts draws a bar chart.
func (p *pen) charts() Scene {
	if p.plain {
		return p.plot()
	}
	ground := p.ground(false)
	seen := against(ground)
	list := scales.train
	if p.held {
		list = scales.held
	}
	sc := pick(&p.dice, list)
	t := Truth{Top: sc.top, Step: sc.step, Bars: p.bars(sc)}
	if p.one(3) {
		t.Title = pick(&p.dice, titles)
	}
	one, mixed := pick(&p.dice, seen), p.one(3)
	for i := range t.Bars {
		t.Bars[i].Colour = one
		if mixed {
			t.Bars[i].Colour = pick(&p.dice, seen)
		}
	}
	p.chart(ground, sc, &t)
	p.finish()
	return Scene{Truth: t, Caption: ofBars(t), Questions: p.aboutChart(t, mixed)}
}

// bars returns bars with distinct labels, one visibly the highest and one
// visibly the lowest.
func (p *pen) bars(sc scale) []Bar {
	bars := make([]Bar, p.span(leastBars, mostBars))
	var labels []string
	switch {
	case len(bars) <= 4 && p.one(2):
		labels = slices.Clone(subjects)
		shuffle(&p.dice, labels)
	case p.one(2):
		labels = strings.Split(letters, "") // in order, from a random letter
		labels = labels[p.n(len(labels)-len(bars)+1):]
	default:
		labels = strings.Split(letters, "")
		shuffle(&p.dice, labels)
	}
	upper := p.one(2)
	for i := range bars {
		bars[i].Label = labels[i]
		if upper {
			bars[i].Label = strings.ToUpper(labels[i])
		}
	}
	least, gap := (sc.top+19)/20, (sc.top*4+99)/100
	for {
		values := make([]int, len(bars))
		for i := range bars {
			bars[i].Value = p.span(least, sc.top)
			values[i] = bars[i].Value
		}
		slices.Sort(values)
		if n := len(values); values[1]-values[0] >= gap && values[n-1]-values[n-2] >= gap {
			return bars
		}
	}
}

// chart draws axes, ticks, labels and bars.
func (p *pen) chart(ground rgb, sc scale, t *Truth) {
	ink := rgb{20, 20, 20}
	if distance(ink, ground) < minContrast {
		ink = rgb{235, 235, 235}
	}
	ticks := style{font: pick(&p.dice, p.fonts), em: p.px(p.span(9, 11) * unit), wide: 256}
	st := ticks
	st.em = p.px(p.span(11, 13) * unit)
	px := func(v int) int { return p.px(v * unit) }
	left, right, top, bottom := px(p.span(23, 27)), px(p.span(120, 125)), px(p.span(6, 10)), px(p.span(106, 112))
	if t.Title != "" {
		l := p.letter(t.Title, st)
		l = l.moved(point{(left+right)/2 - (l.lo.x+l.hi.x)/2, px(4) - l.lo.y})
		p.write(l, ink, "", 0)
		top = px(p.span(18, 22))
	}
	ax := axes{left, right, top, bottom, sc, ink, max(p.px(unit), unit)}
	grid := p.one(2)
	for v := 0; v <= sc.top; v += sc.step {
		if y := ax.at(v); grid {
			p.paint(box(left, y-ax.line/2, right, y+ax.line/2), mixed(ground, ink, 50))
		}
		p.tick(ax, v, ticks)
	}
	paint := p.shade(t.Bars[0].Colour)
	slot := (right - left) / len(t.Bars)
	bar := slot * p.span(50, 80) / 100
	for i, b := range t.Bars {
		x := left + slot*i + (slot-bar)/2
		if i > 0 && b.Colour != t.Bars[i-1].Colour {
			paint = p.shade(b.Colour)
		}
		l := p.letter(b.Label, st)
		if l.width() > slot-px(2) {
			narrow := st
			narrow.em = st.em * (slot - px(2)) / l.width()
			l = p.letter(b.Label, narrow)
		}
		p.bar(ax, i, x, bar, b, paint, l)
	}
	p.lines(ax)
}

// mixed returns a color between two, with part/255 of the second.
func mixed(a, b rgb, part int) rgb {
	pix := []byte{a[0], a[1], a[2]}
	blend(pix, b, part)
	return rgb(pix)
}

// ofBars returns a chart's caption.
func ofBars(t Truth) string { return "a bar chart with " + strconv.Itoa(len(t.Bars)) + " bars" }

// aboutChart asks about the bars and the axis.
func (p *pen) aboutChart(t Truth, mixed bool) []Pair {
	q := p.ask(nil, AskCaption, ofBars(t),
		"what is in the picture?", "what do you see?", "describe the picture.", "what does the picture show?")
	q = p.ask(q, AskCount, strconv.Itoa(len(t.Bars)),
		"how many bars are there?", "how many bars do you see?", "count the bars.", "how many bars has the chart?")
	low, high := t.Bars[0], t.Bars[0]
	for _, b := range t.Bars {
		if b.Value < low.Value {
			low = b
		}
		if b.Value > high.Value {
			high = b
		}
	}
	name := func(b Bar) string { return strings.ToLower(b.Label) }
	q = p.ask(q, AskHighest, name(high),
		"which bar is the highest?", "what is the highest bar?", "which bar is highest?", "which one has the most?")
	q = p.ask(q, AskLowest, name(low),
		"which bar is the lowest?", "what is the lowest bar?", "which bar is lowest?", "which one has the least?")
	bars := slices.Clone(t.Bars)
	shuffle(&p.dice, bars)
	for _, b := range bars[:min(len(bars), 3)] {
		q = p.ask(q, AskValue, strconv.Itoa(b.Value),
			"what is the value of "+name(b)+"?", "how high is "+name(b)+"?", "how much is "+name(b)+"?", "what is the value of the bar "+name(b)+"?")
	}
	a, b := bars[0], bars[1]
	if a.Value != b.Value {
		answer := "no"
		if a.Value > b.Value {
			answer = "yes"
		}
		q = p.ask(q, AskHigher, answer, "is "+name(a)+" higher than "+name(b)+"?", "is the bar "+name(a)+" higher than "+name(b)+"?")
	}
	if mixed {
		q = p.ask(q, AskColour, a.Colour, "what color is "+name(a)+"?", "what color is the bar "+name(a)+"?")
	} else {
		q = p.ask(q, AskColour, a.Colour, "what color are the bars?", "what is the color of the bars?")
	}
	if t.Title != "" {
		q = p.ask(q, AskRead, t.Title, "what is the title?", "what is the chart about?")
	}
	return q
}
