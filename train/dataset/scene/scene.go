// Package scene draws pictures and writes what is true of them: shapes, bar
// charts, words, numbers and short clips, each with a caption, questions and
// their answers. A module that sees learns from them, one that draws as well,
// and Measure judges what it drew, by its pixels.
//
// New makes a Source from Options; Make(i) gives scene i, which follows from
// the options and i alone. The two splits differ in
//
//   - the stream of random numbers, for every seed;
//   - fonts: 33 faces of Go, DejaVu and Latin Modern train, the 12 of Liberation
//     are held out;
//   - colours: each of the 11 names has shades of its own in either split, no RGB
//     value is in both, and so have the grounds;
//   - textures: stripes, checks, slopes and specks train; rings, bricks and clouds
//     are held out;
//   - made-up words of three letters and more: a fifth of them, by their hash, is
//     held out and the rest train; real words and one or two letters are in both;
//   - numbers from 10 on: those that leave 3 when divided by 7 are held out;
//   - axes: the one to 30 in steps of ten is held out; other ends and steps of it
//     are in both.
//
// Geometry is whole numbers of 1/256 of a pixel, curves are made lines and the
// rasterizer is used where it computes in whole numbers: a scene has the same
// bytes on every processor, of 32 bits too.
package scene

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"

	"mm-abi.org/mm/train/dataset/fonts"
)

// Splits of Options. They share no scene, no shade of a colour and no texture
// of the ground.
const (
	Train = "train"
	Held  = "held"
)

// Kinds of scenes.
const (
	Shapes = "shapes" // one to three shapes
	Charts = "charts" // bar charts
	Words  = "words"  // a word of up to 8 letters
	Digits = "digits" // a number of up to 4 digits
	Video  = "video"  // a clip of a shape that does something
)

// Bounds of Options.
const (
	MinSize = 64  // pixels: the least a label can be read at
	MaxSize = 512 // the most that is drawn in whole numbers

	MinFrames = 2
	MaxFrames = 64
)

// Options for New.
type Options struct {
	Split string   // Train (empty: Train) or Held
	Seed  uint64   // another seed, other scenes
	Kinds []string // "shapes" or, with a weight, "shapes:3"; none: all, alike
	Size  int      // width and height in pixels; 0: 128
	Plain bool     // plain grounds without noise: what a prompt can ask for
	Small bool     // two of three texts of Train that stand alone are small; Held stays as it is

	Frames int // of a clip; 0: 8
}

// Pair is a question about a picture and its answer, in lower case.
type Pair struct {
	Ask    string `json:"ask"`
	Answer string `json:"answer"`
	Kind   string `json:"kind"`
}

// Scene is a picture and what is true of it.
type Scene struct {
	RGB       []byte   // [H, W, 3]; a clip's first frame
	Frames    [][]byte // a clip's frames, each [H, W, 3]
	W, H      int
	Kind      string
	Caption   string
	Questions []Pair
	Draw      string // asks for this very picture; "" where words cannot
	Truth     Truth
	Marks     []Mark // where letters, digits and shapes are; none of a clip
}

// Truth is what a picture shows.
type Truth struct {
	Shapes []Shape `json:"shapes,omitempty"` // in reading order of their places; a clip's shape at first

	Bars  []Bar  `json:"bars,omitempty"` // from the left
	Top   int    `json:"top,omitempty"`  // the end of a chart's axis
	Step  int    `json:"step,omitempty"` // from tick to tick
	Title string `json:"title,omitempty"`

	Text   string `json:"text,omitempty"`   // as it is drawn
	Colour string `json:"colour,omitempty"` // of the text

	Motion string `json:"motion,omitempty"` // what a clip's shape does, one of Motions
	Then   string `json:"then,omitempty"`   // the colour it changes to
}

// Shape is one of a picture's shapes.
type Shape struct {
	Shape  string `json:"shape"`  // "circle", one of ShapeNames
	Colour string `json:"colour"` // "red", one of Colours
	Place  string `json:"place"`  // "top left", one of Places
	Size   string `json:"size"`   // "small" or "big"
	X      int    `json:"x"`      // its centre of mass, in pixels
	Y      int    `json:"y"`
	R      int    `json:"r"` // from there to its farthest point, in pixels
}

// Source gives scenes. It may be used by many goroutines at once.
type Source struct {
	opt   Options
	kinds []weighted
	total int
	fonts []fonts.Font
	pens  sync.Pool // *pen
}

type weighted struct {
	kind   string
	weight int
}

// drawers draw a scene of each kind.
func drawers() map[string]func(*pen) Scene {
	return map[string]func(*pen) Scene{
		Shapes: (*pen).shapes, Charts: (*pen).charts, Words: (*pen).words, Digits: (*pen).digits, Video: (*pen).video,
	}
}

// AllKinds lists the kinds of scenes.
func AllKinds() []string { return []string{Shapes, Charts, Words, Digits, Video} }

// New makes a source; its errors tell all that is wrong with the options.
func New(opt Options) (*Source, error) {
	var errs []error
	switch opt.Split {
	case "":
		opt.Split = Train
	case Train, Held:
	default:
		errs = append(errs, fmt.Errorf("scenes of split %q: want %s or %s", opt.Split, Train, Held))
	}
	if opt.Size == 0 {
		opt.Size = 128
	}
	if opt.Size < MinSize || opt.Size > MaxSize {
		errs = append(errs, fmt.Errorf("scenes of %d pixels: want %d to %d", opt.Size, MinSize, MaxSize))
	}
	if opt.Frames == 0 {
		opt.Frames = 8
	}
	if opt.Frames < MinFrames || opt.Frames > MaxFrames {
		errs = append(errs, fmt.Errorf("clips of %d frames: want %d to %d", opt.Frames, MinFrames, MaxFrames))
	}
	if len(opt.Kinds) == 0 {
		opt.Kinds = AllKinds()
	}
	s := &Source{opt: opt}
	for _, k := range opt.Kinds {
		w, err := parseKind(k)
		if err != nil {
			errs = append(errs, err)
		}
		s.kinds = append(s.kinds, w)
		s.total += w.weight
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var err error
	if opt.Split == Held {
		s.fonts, err = fonts.HeldOut()
	} else {
		s.fonts, err = fonts.Training()
	}
	return s, err
}

// parseKind reads "shapes" or "shapes:3".
func parseKind(s string) (weighted, error) {
	name, number, has := strings.Cut(s, ":")
	w := weighted{name, 1}
	if _, ok := drawers()[name]; !ok {
		return w, fmt.Errorf("scenes of kind %q: there are %s", name, strings.Join(AllKinds(), ", "))
	}
	if has {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > 1<<20 {
			return w, fmt.Errorf("scenes of kind %s: weight %q: want a whole number of 1 to %d", name, number, 1<<20)
		}
		w.weight = n
	}
	return w, nil
}

// Make draws scene i.
func (s *Source) Make(i int) Scene {
	p, ok := s.pens.Get().(*pen)
	if !ok {
		p = newPen(s)
	}
	defer s.pens.Put(p)
	stream := uint64(i)
	if s.opt.Split == Held {
		stream = ^stream // no scene of one split is drawn from the other's numbers
	}
	p.pcg.Seed(mix(s.opt.Seed), mix(stream))
	at := p.n(s.total)
	kind := s.kinds[0].kind
	for _, k := range s.kinds {
		if kind = k.kind; at < k.weight {
			break
		}
		at -= k.weight
	}
	p.rgb, p.marks = make([]byte, 3*s.opt.Size*s.opt.Size), nil
	scene := drawers()[kind](p)
	scene.Marks = p.marks
	scene.RGB, scene.W, scene.H, scene.Kind = p.rgb, s.opt.Size, s.opt.Size, kind
	p.rgb = nil
	return scene
}

// mix spreads a number over 64 bits (SplitMix64), so that neighbours share
// nothing.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// dice draws numbers. math/rand's own bounded draws differ between 32 and 64
// bits.
type dice struct{ pcg rand.PCG }

// n is a number of 0 to n-1.
func (d *dice) n(n int) int { return int((d.pcg.Uint64() >> 32) * uint64(n) >> 32) }

// span is a number of from to to, both of them possible.
func (d *dice) span(from, to int) int { return from + d.n(to-from+1) }

// one in n times true.
func (d *dice) one(n int) bool { return d.n(n) == 0 }

// pick is one of a list.
func pick[T any](d *dice, list []T) T { return list[d.n(len(list))] }

// shuffle orders a list by chance.
func shuffle[T any](d *dice, list []T) {
	for i := len(list) - 1; i > 0; i-- {
		j := d.n(i + 1)
		list[i], list[j] = list[j], list[i]
	}
}
