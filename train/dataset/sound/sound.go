// Package sound makes sounds and writes what is true of them: tones, sounds of
// things, spoken digits and words, each with a caption, questions and their
// answers. A module that hears learns from them.
//
// New makes a Source from Options; Make(i) gives clip i, which follows from the
// options and i alone. Tones and things are made here. Speech is espeak-ng's,
// synthesised once into a file ([Synthesise], [Pack]), and people's, from
// recordings of the Free Spoken Digit Dataset; clips for training are bent
// ([Split] Train): faster, higher, noisier, through a telephone, in a room, so
// that a voice that was never heard has a chance.
package sound

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Rate is the samples of a second, MaxSamples the most of a clip.
const (
	Rate       = 16000
	MaxSamples = 3 * Rate
)

// Split says what a source is for.
type Split = string

// Splits of Options. They share no clip, no voice of espeak-ng and none of the
// numbers that sounds are made of.
const (
	Train Split = "train"
	Held  Split = "held"
)

// Kinds of clips.
const (
	Tones  = "tones"  // one to five beeps, or a tone that rises or falls
	Events = "events" // the sound of one thing: a bell, water, an engine
	Digits = "digits" // one to three spoken digits
	Words  = "words"  // a spoken word
	Human  = "human"  // digits spoken by people
)

// AllKinds lists the kinds of clips.
func AllKinds() []string { return []string{Tones, Events, Digits, Words, Human} }

// Options for New.
type Options struct {
	Split  Split    // Train (empty: Train) or Held
	Seed   uint64   // another seed, other clips
	Kinds  []string // "tones" or, with a weight, "digits:3"; none: all there is speech for
	Voices []string // variants of espeak-ng such as "f2"; none: the split's
	Dir    string   // folder of the speech that Synthesise wrote
	FSDD   string   // folder of recordings named DIGIT_SPEAKER_TAKE.wav
	// Speakers are those of FSDD whose recordings are taken; none: all. To leave
	// one out of training, train on the others and hold this one.
	Speakers []string
}

// Pair is a question about a clip and its answer, in lower case.
type Pair struct{ Ask, Answer, Kind string }

// Clip is a sound and what is true of it.
type Clip struct {
	PCM       []float32 // −1 to 1, Rate samples a second
	Kind      string
	Caption   string // "three low beeps", "a bell", "a voice says 3 7"
	Text      string // what is spoken: digits with spaces between them, or a word
	Questions []Pair
	Voice     string // of speech: "en-us+f2", "fsdd:theo"

	Beeps int    // of tones
	Pitch string // of tones: low, high, rising, falling
	Thing string // of events
}

// Source gives clips. It may be used by many goroutines at once.
type Source struct {
	opt    Options
	kinds  []weighted
	total  int
	pack   *Pack
	voices []string         // those of the pack that are used
	takes  map[string][]int // clips of the pack, by voice and text
	people map[string][]recording
	names  []string // of people
	single []recording
}

type weighted struct {
	kind   string
	weight int
}

// makers make a clip of each kind.
func makers() map[string]func(*Source, *mixer) Clip {
	return map[string]func(*Source, *mixer) Clip{
		Tones: (*Source).tones, Events: (*Source).events, Digits: (*Source).digits, Words: (*Source).words, Human: (*Source).human,
	}
}

// New makes a source; its errors tell all that is wrong with the options. It is
// to be closed where it has speech.
func New(opt Options) (*Source, error) {
	var errs []error
	if opt.Split == "" {
		opt.Split = Train
	}
	if opt.Split != Train && opt.Split != Held {
		errs = append(errs, fmt.Errorf("sounds of split %q: want %s or %s", opt.Split, Train, Held))
	}
	if len(opt.Kinds) == 0 {
		opt.Kinds = []string{Tones, Events}
		if opt.Dir != "" {
			opt.Kinds = append(opt.Kinds, Digits, Words)
		}
		if opt.FSDD != "" {
			opt.Kinds = append(opt.Kinds, Human)
		}
	}
	s := &Source{opt: opt}
	for _, k := range opt.Kinds {
		name, text, given := strings.Cut(k, ":")
		weight := 1
		if given {
			var err error
			if weight, err = strconv.Atoi(text); err != nil || weight < 1 || weight > 1000 {
				errs = append(errs, fmt.Errorf("sounds of kind %q: a weight is 1 to 1000", k))
				continue
			}
		}
		if makers()[name] == nil {
			errs = append(errs, fmt.Errorf("sounds of kind %q: want one of %v", name, AllKinds()))
			continue
		}
		s.kinds = append(s.kinds, weighted{name, weight})
		s.total += weight
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := s.openSpeech(); err != nil {
		return nil, err
	}
	return s, nil
}

// has reports whether a kind is asked for.
func (s *Source) has(kind string) bool {
	return slices.ContainsFunc(s.kinds, func(w weighted) bool { return w.kind == kind })
}

// Close gives the speech back. Clips stay.
func (s *Source) Close() error {
	if s.pack == nil {
		return nil
	}
	return s.pack.Close()
}

// Make is clip i: of the kinds in turn, as often as their weights say.
func (s *Source) Make(i int) Clip {
	m := s.mixer(i)
	at := i % s.total
	if at < 0 {
		at += s.total
	}
	kind := ""
	for _, w := range s.kinds {
		if at < w.weight {
			kind = w.kind
			break
		}
		at -= w.weight
	}
	c := makers()[kind](s, m)
	c.Kind = kind
	return c
}

// mixer is the source of what is random in clip i.
func (s *Source) mixer(i int) *mixer {
	salt := uint64(0x736f756e64)
	if s.opt.Split == Held {
		salt = 0x68656c64
	}
	return &mixer{Rand: rand.New(rand.NewPCG(s.opt.Seed^salt<<20, uint64(i))), i: i, train: s.opt.Split == Train}
}

// mixer makes one clip.
type mixer struct {
	*rand.Rand
	i     int
	train bool
}

// in is a number from low to high.
func (m *mixer) in(low, high float64) float64 { return low + (high-low)*m.Float64() }

// between is a whole number from low to high.
func (m *mixer) between(low, high int) int { return low + m.IntN(high-low+1) }

// chance is true with probability p.
func (m *mixer) chance(p float64) bool { return m.Float64() < p }

// numbers are those up to ten in words.
func number(n int) string {
	return [...]string{"no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"}[n]
}
