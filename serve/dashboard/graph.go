package dashboard

import (
	"fmt"
	"strings"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/workspace"
)

// drawing is the graph of a build, ready to be drawn.
type drawing struct {
	Width, Height int
	Boxes         []box
	Arrows        []arrow
	Caption       string // the graph in words
}

// box is a module.
type box struct {
	X, Y, W, H int
	Kind       string // for the style
	Role       string
	Name       string
	Lines      []row
}

// row is a line of a box.
type row struct {
	Y    int
	Text string
}

// arrow leads from a box to another.
type arrow struct{ Path, Label string }

// The sizes of boxes.
const (
	boxWidth  = 216
	boxHeight = 112
	boxGapX   = 56
	boxGapY   = 24
	edge      = 12
)

// grid places boxes in columns.
type grid struct {
	d     drawing
	fill  map[int]int // boxes of a column
	words []string
}

// draw draws the graph of a build: inputs on the left, the core in the middle, outputs and
// tools on the right. A module without a build is one box.
func draw(o workspace.Overview) drawing {
	g := &grid{fill: map[int]int{}}
	a := o.Assembly
	if a == nil {
		for _, m := range o.Modules {
			g.put(0, m.Type, builds.Part{Name: m.Name, Version: m.Version, Digest: m.Digest, Quant: m.Quant}, m.Type)
		}
		return g.done()
	}
	core := -1
	if a.HasCore() {
		var lines []string
		if a.Tokens.MaxSeq > 0 {
			lines = append(lines, fmt.Sprintf("at most %d tokens", a.Tokens.MaxSeq))
		}
		if a.KV != "" {
			lines = append(lines, "KV "+string(a.KV))
		}
		core = g.put(2, "core", a.Core, "core", strings.Join(lines, ", "))
		if a.Draft != nil {
			g.join(g.put(2, "draft", *a.Draft, "draft core"), core, "proposes")
		}
		for _, p := range a.Adapters {
			g.join(g.put(2, "adapter", p.Part, "adapter", fmt.Sprintf("scale %g", p.Scale)), core, "changes")
		}
	}
	for _, m := range a.Modalities {
		enc := g.put(0, "encoder", m.Encoder, string(m.Modality)+" encoder")
		if !m.Projects() {
			continue
		}
		var cap string
		if m.TCap > 0 {
			cap = fmt.Sprintf("at most %d positions", m.TCap)
		}
		proj := g.put(1, "projector", m.Projector, "projector", cap)
		g.join(enc, proj, "feeds")
		if core >= 0 {
			g.join(proj, core, "feeds")
		}
	}
	for _, p := range a.Decoders {
		dec := g.put(3, "decoder", p.Part, string(p.Modality)+" decoder")
		if core >= 0 {
			g.join(core, dec, "feeds")
		}
	}
	g.tools(a, core)
	return g.done()
}

// tools draws the router, the skills and the sandbox.
func (g *grid) tools(a *builds.Assembly, core int) {
	router := core
	if a.Router != nil {
		var most string
		if a.Router.MaxCalls > 0 {
			most = fmt.Sprintf("at most %d calls", a.Router.MaxCalls)
		}
		router = g.put(3, "router", a.Router.Part, "router", most)
		if core >= 0 {
			g.join(core, router, "calls")
		}
	}
	for _, p := range a.Skills {
		s := g.put(4, "skill", p.Part, "skill", p.Limits.String())
		if router >= 0 {
			g.join(router, s, "calls")
		}
	}
	if a.Sandbox != nil {
		sandbox := g.put(4, "sandbox", a.Sandbox.Part, "sandbox", a.Sandbox.Limits.String())
		if router >= 0 && len(a.Skills) == 0 {
			g.join(router, sandbox, "calls")
		}
	}
}

// put adds a box to a column and returns its number. A module is drawn once.
func (g *grid) put(column int, kind string, p builds.Part, role string, more ...string) int {
	name := line(p.ID())
	for i, b := range g.d.Boxes {
		if b.Name == name {
			return i
		}
	}
	b := box{
		X: edge + column*(boxWidth+boxGapX), Y: edge + g.fill[column]*(boxHeight+boxGapY), W: boxWidth, H: boxHeight,
		Kind: kind, Role: line(role), Name: narrow(name, 26),
	}
	g.fill[column]++
	what := shipped(p.Files, p.Quant)
	if p.Backend != "" {
		what += " on " + p.Backend
	}
	for _, l := range append([]string{what, short(p.Digest)}, more...) {
		if l == "" {
			continue
		}
		for i := 0; l != "" && i < 2; i++ {
			first, rest := wrap(line(l), 32)
			b.Lines, l = append(b.Lines, row{56 + 15*len(b.Lines), first}), rest
		}
	}
	b.Lines = b.Lines[:min(len(b.Lines), 4)]
	g.d.Boxes = append(g.d.Boxes, b)
	return len(g.d.Boxes) - 1
}

// narrow cuts a text for a box.
func narrow(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// wrap splits a text at a space before n characters.
func wrap(s string, n int) (first, rest string) {
	r := []rune(s)
	if len(r) <= n {
		return s, ""
	}
	at := strings.LastIndexByte(string(r[:n]), ' ')
	if at <= 0 {
		return string(r[:n]), strings.TrimSpace(string(r[n:]))
	}
	return s[:at], strings.TrimSpace(s[at:])
}

// join draws an arrow between boxes.
func (g *grid) join(from, to int, label string) {
	a, b := g.d.Boxes[from], g.d.Boxes[to]
	g.words = append(g.words, a.Name+" "+label+" "+b.Name)
	var path string
	if a.X == b.X { // one above the other: a bow on the left side
		x, y1, y2 := a.X, a.Y+a.H/2, b.Y+b.H/2
		if a.Y > b.Y {
			y2 = b.Y + b.H - 20 - 14*(len(g.words)%2)
		}
		path = fmt.Sprintf("M %d %d C %d %d, %d %d, %d %d", x, y1, x-40, y1, x-40, y2, x-2, y2)
	} else {
		x1, y1, x2, y2 := a.X+a.W, a.Y+a.H/2, b.X-2, b.Y+b.H/2
		bend := (x2 - x1) / 2
		path = fmt.Sprintf("M %d %d C %d %d, %d %d, %d %d", x1, y1, x1+bend, y1, x2-bend, y2, x2, y2)
	}
	g.d.Arrows = append(g.d.Arrows, arrow{path, label})
}

// done sets the size and the caption.
func (g *grid) done() drawing {
	for _, b := range g.d.Boxes {
		g.d.Width, g.d.Height = max(g.d.Width, b.X+b.W+edge), max(g.d.Height, b.Y+b.H+edge)
	}
	var left = g.d.Width
	for _, b := range g.d.Boxes {
		left = min(left, b.X)
	}
	if shift := left - edge; shift > 0 { // without inputs
		for i := range g.d.Boxes {
			g.d.Boxes[i].X -= shift
		}
		g.d.Width -= shift
	}
	g.d.Caption = strings.Join(g.words, "; ")
	return g.d
}
