package scene

import "slices"

// motions are the motions of videos, as in answers.
var motions = []string{
	"it moves left", "it moves right", "it moves up", "it moves down", "it grows", "it shrinks", "it changes color", "it blinks",
}

// video draws a video of one moving or changing shape.
func (p *pen) video() Scene {
	ground := p.ground(true)
	seen := against(ground)
	o, colour, motion := pick(&p.dice, outlines), pick(&p.dice, seen), pick(&p.dice, motions)
	other := colour
	if motion == "it changes color" {
		for other == colour {
			other = pick(&p.dice, seen)
		}
	}
	paint, then, angle := p.shade(colour), p.shade(other), p.span(-30, 30)
	path := p.path(motion)
	t := Truth{Motion: motion, Shapes: []Shape{{
		Shape: o.name, Colour: colour, X: path[0].at.x >> 8, Y: path[0].at.y >> 8, R: path[0].r >> 8,
	}}}
	t.Shapes[0].Size = "small"
	if path[0].r >= p.px((small+big)/2) {
		t.Shapes[0].Size = "big"
	}
	t.Shapes[0].Place = places[place(t.Shapes[0].X, t.Shapes[0].Y, p.size, p.size)]
	if other != colour {
		t.Then = other
	}
	empty := slices.Clone(p.rgb)
	var frames [][]byte
	for i, step := range path {
		p.rgb = slices.Clone(empty)
		if i >= len(path)/2 {
			paint = then
		}
		if step.seen {
			p.paint(o.placed(step.at, step.r, angle), paint)
		}
		p.finish()
		frames = append(frames, p.rgb)
	}
	p.rgb = frames[0]
	name := article(colour) + " " + o.name
	sc := Scene{Truth: t, Frames: frames, Caption: name + motion[len("it"):]}
	sc.Questions = p.aboutClip(t, o.name, sc.Caption)
	return sc
}

// step is the position of a shape in one frame.
type step struct {
	at   point
	r    int
	seen bool
}

// path returns the motion of a shape, frame by frame.
func (p *pen) path(motion string) []step {
	n, side := p.frames, p.size*unit
	r := p.px(p.span(smallest, biggest))
	edge := r + unit
	from := point{p.span(edge, side-edge), p.span(edge, side-edge)}
	to, last := from, r
	far := side * p.span(35, 60) / 100
	near := p.span(edge, side-edge-far)
	switch motion {
	case "it moves left":
		from.x, to.x = near+far, near
	case "it moves right":
		from.x, to.x = near, near+far
	case "it moves up":
		from.y, to.y = near+far, near
	case "it moves down":
		from.y, to.y = near, near+far
	case "it grows", "it shrinks":
		r, last = p.px(smallest), p.px(biggest)
		edge = last + unit
		from = point{p.span(edge, side-edge), p.span(edge, side-edge)}
		to = from
		if motion == "it shrinks" {
			r, last = last, r
		}
	}
	steps := make([]step, n)
	for i := range steps {
		along := func(a, b int) int { return a + (b-a)*i/(n-1) }
		steps[i] = step{point{along(from.x, to.x), along(from.y, to.y)}, along(r, last), motion != "it blinks" || i%2 == 0}
	}
	return steps
}

// aboutClip asks about the motion and the shape.
func (p *pen) aboutClip(t Truth, shape, caption string) []Pair {
	q := p.ask(nil, AskCaption, caption, "what is in the video?", "what do you see?", "describe the video.", "what does the video show?")
	q = p.ask(q, AskMotion, t.Motion, "what does the "+shape+" do?", "what happens?", "what happens in the video?", "what does it do?")
	switch way := t.Motion[len("it "):]; way {
	case "moves left", "moves right", "moves up", "moves down":
		q = p.ask(q, AskWay, way[len("moves "):], "where does it move?", "where does the "+shape+" go?", "which way does it move?")
	}
	q = p.ask(q, AskShape, shape, "what shape is it?", "which shape do you see?", "what is the shape?")
	if t.Then != "" {
		return p.ask(q, AskColour, t.Then, "what color is it at the end?", "what color is the "+shape+" at the end?")
	}
	return p.ask(q, AskColour, t.Shapes[0].Colour, "what color is it?", "what color is the "+shape+"?")
}
