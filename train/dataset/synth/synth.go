// Package synth writes training text from templates: short stories in plain
// words, small sums, tool calls in a form set by the caller, and errands:
// questions with the MM-ABI call that answers them. It replaces a corpus that
// may not be shipped, and puts special tokens in their places for small models.
// Equal seeds yield equal text.
package synth

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Options configure Write.
type Options struct {
	Documents int    `json:"documents,omitempty"` // number; 0: 4,000
	Seed      uint64 `json:"seed,omitempty"`
	Separator string `json:"-"` // after each document; empty: "<|endoftext|>"
	// Calls are templates of documents with a tool call, in which {a} and {b}
	// become numbers below 100 and {sum} their sum. Text that the model does
	// not learn, such as the tool's result, is enclosed in context marks, see
	// train/dataset. If empty, there are no such documents.
	Calls []string `json:"calls,omitempty"`
	// Errands are kinds of questions ([ErrandKinds]) for tools, in varied
	// words. If set, they are five documents in eight.
	Errands []string `json:"errands,omitempty"`
}

// Limits of Options.
const (
	MaxDocuments = 1 << 24 // written by Write
	MaxCalls     = 1 << 10 // templates
	MaxCall      = 1 << 16 // bytes of a template
)

// Validate refuses a number of documents out of range, and templates that are
// too many, too long or without a number.
func (o Options) Validate() error {
	var errs []error
	if o.Documents < 0 || o.Documents > MaxDocuments {
		errs = append(errs, fmt.Errorf("generate: documents out of range: got %d, want at most %d", o.Documents, MaxDocuments))
	}
	if len(o.Calls) > MaxCalls {
		errs = append(errs, fmt.Errorf("generate: %d calls, want at most %d", len(o.Calls), MaxCalls))
	}
	for _, k := range o.Errands {
		if !slices.Contains(ErrandKinds(), k) {
			errs = append(errs, fmt.Errorf("generate: unknown errands %q, want one of %v", k, ErrandKinds()))
		}
	}
	for i, c := range o.Calls {
		if len(c) > MaxCall || !strings.Contains(c, "{a}") && !strings.Contains(c, "{b}") {
			errs = append(errs, fmt.Errorf("generate: call %d: want {a} or {b} in at most %d bytes", i+1, MaxCall))
		}
	}
	return errors.Join(errs...)
}

// Write writes documents to w: three stories in four, the rest sums and, if
// there are templates, calls. Errands replace five stories.
func Write(w io.Writer, opt Options) error {
	if err := opt.Validate(); err != nil {
		return err
	}
	if opt.Documents == 0 {
		opt.Documents = 4000
	}
	if opt.Separator == "" {
		opt.Separator = "<|endoftext|>"
	}
	g := &generator{Rand: rand.New(rand.NewPCG(opt.Seed, 0x6d6d))}
	out := bufio.NewWriter(w)
	for i := range opt.Documents {
		doc := ""
		switch kind := i % 8; {
		case kind < 5 && len(opt.Errands) > 0:
			doc = g.errand(opt.Errands[(i/8*5+kind)%len(opt.Errands)], false).document()
		case kind < 6:
			doc = g.story()
		case kind == 6 || len(opt.Calls) == 0:
			doc = g.sums()
		default:
			doc = g.call(opt.Calls[i/8%len(opt.Calls)])
		}
		if _, err := fmt.Fprintf(out, "%s\n%s\n", doc, opt.Separator); err != nil {
			return err
		}
	}
	return out.Flush()
}

type generator struct {
	*rand.Rand
	wording Wording // of errands
}

func (g *generator) pick(list []string) string { return list[g.IntN(len(list))] }

// hero is the subject of a story.
type hero struct{ name, he, him, his string }

func (g *generator) hero() hero {
	if g.IntN(2) == 0 {
		return hero{g.pick(girls), "she", "her", "her"}
	}
	return hero{g.pick(boys), "he", "him", "his"}
}

// story returns a story with a beginning, an event, and an end that follows
// from it.
func (g *generator) story() string {
	h, f := g.hero(), g.hero()
	for f.name == h.name {
		f = g.hero()
	}
	place, thing, animal, color := g.pick(places), g.pick(things), g.pick(animals), g.pick(colors)
	var s []string
	add := func(format string, args ...any) { s = append(s, fmt.Sprintf(format, args...)) }
	switch g.IntN(3) {
	case 0:
		add("Once upon a time, there was a little %s named %s.", map[bool]string{true: "girl", false: "boy"}[h.he == "she"], h.name)
	case 1:
		add("One day, %s went to the %s with %s mom.", h.name, place, h.his)
	default:
		add("%s had a %s %s.", h.name, color, animal)
		add("%s loved the %s very much.", title(h.he), animal)
	}
	switch g.IntN(4) {
	case 0:
		g.lost(add, h, f, thing, color, place)
	case 1:
		g.encounter(add, h, animal, color, place)
	case 2:
		g.share(add, h, f, thing)
	default:
		g.craft(add, h, f, thing, color)
	}
	add("%s was very %s.", h.name, g.pick([]string{"happy", "glad", "proud"}))
	if g.IntN(2) == 0 {
		add("From that day on, %s always remembered to %s.", h.name, g.pick(lessons))
	}
	return strings.Join(s, " ")
}

type adder func(format string, args ...any)

func (g *generator) lost(add adder, h, f hero, thing, color, place string) {
	add("%s had a %s %s, but one day it was gone.", title(h.he), color, thing)
	add("%s looked under the bed and behind the door, but %s could not find it.", title(h.he), h.he)
	add("\"Where is my %s?\" asked %s.", thing, h.name)
	add("%s friend %s said, \"Let us look in the %s.\"", title(h.his), f.name, place)
	add("They looked and looked, and there it was!")
	add("\"Thank you, %s,\" said %s.", f.name, h.name)
}

func (g *generator) encounter(add adder, h hero, animal, color, place string) {
	add("In the %s, %s saw a %s %s.", place, h.he, color, animal)
	add("The %s was %s and sat under a tree.", animal, g.pick([]string{"sad", "cold", "hungry", "lost", "tired"}))
	add("\"Hello, little %s. Do you want to play with me?\" asked %s.", animal, h.name)
	add("The %s smiled and said, \"Yes, please!\"", animal)
	add("They played all day until the sun went down.")
}

func (g *generator) share(add adder, h, f hero, thing string) {
	add("%s wanted to play with a new %s.", title(h.he), thing)
	add("%s wanted to play with it too.", f.name)
	add("\"It is mine!\" said %s.", h.name)
	add("%s was sad and began to cry.", f.name)
	add("Then %s felt bad. \"I am sorry,\" %s said. \"We can share it.\"", h.name, h.he)
	add("They took turns with the %s and had a lot of fun.", thing)
}

func (g *generator) craft(add adder, h, f hero, thing, color string) {
	add("%s wanted to make a %s %s for %s.", title(h.he), color, thing, f.name)
	add("First it was too small. Then it was too big.")
	add("\"Do not give up,\" said %s dad. \"Try again.\"", h.his)
	add("%s tried again, and this time the %s was just right.", title(h.he), thing)
	add("%s gave %s a big hug.", f.name, h.him)
}

// sums returns a few lines of correct arithmetic.
func (g *generator) sums() string {
	var s []string
	for range 3 + g.IntN(4) {
		a, b := g.IntN(20), g.IntN(20)
		switch g.IntN(3) {
		case 0:
			s = append(s, fmt.Sprintf("%d + %d = %d.", a, b, a+b))
		case 1:
			s = append(s, fmt.Sprintf("%d - %d = %d.", a+b, b, a))
		default:
			h := g.hero()
			thing := g.pick(things)
			s = append(s, fmt.Sprintf("%s has %d %ss and gets %d more. Now %s has %d %ss.", h.name, a, thing, b, h.he, a+b, thing))
		}
	}
	return strings.Join(s, " ")
}

// call fills in a template's numbers.
func (g *generator) call(template string) string {
	a, b := g.IntN(100), g.IntN(100)
	return strings.NewReplacer("{a}", strconv.Itoa(a), "{b}", strconv.Itoa(b), "{sum}", strconv.Itoa(a+b)).Replace(template)
}

// title capitalizes the first letter.
func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
