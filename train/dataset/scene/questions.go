package scene

import "strconv"

// Kinds of questions.
const (
	AskCaption = "caption" // the content of the image
	AskCount   = "count"
	AskShape   = "shape"
	AskColour  = "colour"
	AskPlace   = "place"
	AskSize    = "size"
	AskThere   = "there"   // yes or no
	AskRead    = "read"    // the text
	AskHighest = "highest" // which bar
	AskLowest  = "lowest"
	AskHigher  = "higher" // yes or no
	AskValue   = "value"
	AskMotion  = "motion" // action of a shape
	AskWay     = "way"    // direction of movement
)

// ask adds a question in one of its wordings.
func (p *pen) ask(list []Pair, kind, answer string, wordings ...string) []Pair {
	return append(list, Pair{pick(&p.dice, wordings), answer, kind})
}

// aboutShapes asks unambiguous questions about shapes.
func (p *pen) aboutShapes(shapes []Shape) []Pair {
	q := p.ask(nil, AskCaption, caption(shapes),
		"what is in the picture?", "what do you see?", "describe the picture.", "what does the picture show?")
	q = p.ask(q, AskCount, strconv.Itoa(len(shapes)),
		"how many shapes are there?", "how many shapes do you see?", "count the shapes.")
	s := pick(&p.dice, shapes)
	alone := func(same func(Shape) bool) bool {
		n := 0
		for _, o := range shapes {
			if same(o) {
				n++
			}
		}
		return n == 1
	}
	if alone(func(o Shape) bool { return o.Colour == s.Colour }) {
		q = p.ask(q, AskShape, s.Shape, "what shape is "+s.Colour+"?", "what is the "+s.Colour+" shape?", "which shape is "+s.Colour+"?")
	}
	if alone(func(o Shape) bool { return o.Shape == s.Shape }) {
		q = p.ask(q, AskColour, s.Colour, "what color is the "+s.Shape+"?", "what is the color of the "+s.Shape+"?", "which color has the "+s.Shape+"?")
	}
	name := s.Colour + " " + s.Shape
	q = p.ask(q, AskPlace, s.Place, "where is the "+name+"?", "in what place is the "+name+"?", "where do you see the "+name+"?")
	q = p.ask(q, AskSize, s.Size, "is the "+name+" big or small?", "what size is the "+name+"?")
	return p.askThere(q, shapes)
}

// askThere asks for a present or, equally often, an absent shape.
func (p *pen) askThere(q []Pair, shapes []Shape) []Pair {
	s := pick(&p.dice, shapes)
	answer := "yes"
	if p.one(2) {
		answer = "no"
		has := func(s Shape) bool {
			for _, o := range shapes {
				if o.Shape == s.Shape && o.Colour == s.Colour {
					return true
				}
			}
			return false
		}
		for has(s) {
			if p.one(2) {
				s.Shape = pick(&p.dice, outlines).name
			} else {
				s.Colour = pick(&p.dice, colours).name
			}
		}
	}
	name := article(s.Colour) + " " + s.Shape
	return p.ask(q, AskThere, answer, "is there "+name+"?", "do you see "+name+"?", "does the picture have "+name+"?")
}
