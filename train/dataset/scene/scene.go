// Package scene draws images with ground truth: shapes, bar charts, words,
// numbers and short videos, each with a caption, questions and answers. Modules
// learn to see and to draw from them, and Measure judges drawn images by their
// pixels.
//
// New creates a Source from Options. Make(i) returns scene i, a function of the
// options and i. The two splits differ in
//
//   - the stream of random numbers, for every seed;
//   - fonts: 33 faces of Go, DejaVu and Latin Modern are for training, the 12 of
//     Liberation are held out;
//   - colors: each of the 11 names has separate shades in either split, without
//     a common RGB value, and so have the grounds;
//   - textures: stripes, checks, slopes and specks are for training; rings,
//     bricks and clouds are held out;
//   - made-up words of three letters and more: a fifth of them, by hash, is held
//     out; real words and words of one or two letters are in both;
//   - numbers from 10: those that are 3 modulo 7 are held out;
//   - axes: the one to 30 in steps of ten is held out; its end and its step each
//     occur in both.
//
// Geometry uses integers of 1/256 of a pixel, curves are flattened and the
// rasterizer runs only in its integer mode: a scene has the same bytes on every
// processor, 32-bit ones included.
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

// Splits of Options. They have no scene, no shade of a color and no texture of
// the ground in common.
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
	Video  = "video"  // a video of a moving or changing shape
)

// Limits of Options.
const (
	MinSize = 64  // pixels: the minimum for a legible label
	MaxSize = 512 // the maximum drawn in integers

	MinFrames = 2
	MaxFrames = 64
)

// Options configure New.
type Options struct {
	Split string   // Train (empty: Train) or Held
	Seed  uint64   // other seeds yield other scenes
	Kinds []string // "shapes" or, with a weight, "shapes:3"; empty: all equally
	Size  int      // width and height in pixels; 0: 128
	Plain bool     // plain grounds without noise, so that a prompt determines the image
	Small bool     // two of three texts of Train are small; Held does not change

	Frames int // of a video; 0: 8
}

// Pair is a question about an image and its answer, in lower case.
type Pair struct {
	Ask    string `json:"ask"`
	Answer string `json:"answer"`
	Kind   string `json:"kind"`
}

// Scene is an image and its ground truth.
type Scene struct {
	RGB       []byte   // [H, W, 3]; a video's first frame
	Frames    [][]byte // a video's frames, each [H, W, 3]
	W, H      int
	Kind      string
	Caption   string
	Questions []Pair
	Draw      string // a prompt for this image; "" if there is none
	Truth     Truth
	Marks     []Mark // positions of letters, digits and shapes; nil for a video
}

// Truth describes an image.
type Truth struct {
	Shapes []Shape `json:"shapes,omitempty"` // in reading order of their places; of a video, the initial shape

	Bars  []Bar  `json:"bars,omitempty"` // from the left
	Top   int    `json:"top,omitempty"`  // end of a chart's axis
	Step  int    `json:"step,omitempty"` // distance of ticks
	Title string `json:"title,omitempty"`

	Text   string `json:"text,omitempty"`   // as drawn
	Colour string `json:"colour,omitempty"` // of the text

	Motion string `json:"motion,omitempty"` // action of a video's shape, one of motions
	Then   string `json:"then,omitempty"`   // final color after a change
}

// Shape is a shape in an image.
type Shape struct {
	Shape  string `json:"shape"`  // "circle", one of ShapeNames
	Colour string `json:"colour"` // "red", one of colours
	Place  string `json:"place"`  // "top left", one of places
	Size   string `json:"size"`   // "small" or "big"
	X      int    `json:"x"`      // center of mass, in pixels
	Y      int    `json:"y"`
	R      int    `json:"r"` // distance from the center to the farthest point, in pixels
}

// Source makes scenes. It is safe for concurrent use.
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

// drawers returns the function that draws each kind of scene.
func drawers() map[string]func(*pen) Scene {
	return map[string]func(*pen) Scene{
		Shapes: (*pen).shapes, Charts: (*pen).charts, Words: (*pen).words, Digits: (*pen).digits, Video: (*pen).video,
	}
}

// AllKinds lists the kinds of scenes.
func AllKinds() []string { return []string{Shapes, Charts, Words, Digits, Video} }

// New creates a source. The error joins all faults of the options.
func New(opt Options) (*Source, error) {
	var errs []error
	switch opt.Split {
	case "":
		opt.Split = Train
	case Train, Held:
	default:
		errs = append(errs, fmt.Errorf("unknown split %q: want %s or %s", opt.Split, Train, Held))
	}
	if opt.Size == 0 {
		opt.Size = 128
	}
	if opt.Size < MinSize || opt.Size > MaxSize {
		errs = append(errs, fmt.Errorf("size out of range: got %d pixels, want %d to %d", opt.Size, MinSize, MaxSize))
	}
	if opt.Frames == 0 {
		opt.Frames = 8
	}
	if opt.Frames < MinFrames || opt.Frames > MaxFrames {
		errs = append(errs, fmt.Errorf("frames out of range: got %d, want %d to %d", opt.Frames, MinFrames, MaxFrames))
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

// parseKind parses "shapes" or "shapes:3".
func parseKind(s string) (weighted, error) {
	name, number, has := strings.Cut(s, ":")
	w := weighted{name, 1}
	if _, ok := drawers()[name]; !ok {
		return w, fmt.Errorf("unknown kind %q: want %s", name, strings.Join(AllKinds(), ", "))
	}
	if has {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > 1<<20 {
			return w, fmt.Errorf("kind %s: weight %q: want an integer from 1 to %d", name, number, 1<<20)
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
		stream = ^stream // the splits use different random numbers
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

// mix spreads a number over 64 bits (SplitMix64), so that neighbors are
// independent.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// dice draws random numbers. Bounded draws of math/rand differ between 32 and
// 64 bits.
type dice struct{ pcg rand.PCG }

// n returns a number from 0 to n-1.
func (d *dice) n(n int) int { return int((d.pcg.Uint64() >> 32) * uint64(n) >> 32) }

// span returns a number from…to, inclusive.
func (d *dice) span(from, to int) int { return from + d.n(to-from+1) }

// one returns true once in n times.
func (d *dice) one(n int) bool { return d.n(n) == 0 }

// pick returns a random element of a list.
func pick[T any](d *dice, list []T) T { return list[d.n(len(list))] }

// shuffle shuffles a list.
func shuffle[T any](d *dice, list []T) {
	for i := len(list) - 1; i > 0; i-- {
		j := d.n(i + 1)
		list[i], list[j] = list[j], list[i]
	}
}
