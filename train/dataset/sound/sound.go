// Package sound makes sounds with ground truth: tones, sounds of things, digits
// and words, each with a caption, questions and answers. Modules learn from
// them.
//
// New creates a Source from Options. Make(i) returns clip i, a function of the
// options and i. Tones and things are synthesized here. Speech comes from
// espeak-ng, synthesized once into a file ([Synthesize], [Pack]), and from
// people, in recordings of the Free Spoken Digit Dataset. Clips for training
// ([Split] Train) are varied: faster, higher, noisier, through a telephone, in
// a room, so that modules generalize to new voices.
package sound

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Rate is the sample rate in Hz, MaxSamples the maximum length of a clip.
const (
	Rate       = 16000
	MaxSamples = 3 * Rate
)

// Split is the purpose of a source.
type Split = string

// Splits of Options. They have no clip, no voice of espeak-ng and no random
// numbers in common.
const (
	Train Split = "train"
	Held  Split = "held"
)

// Kinds of clips.
const (
	Tones  = "tones"  // one to five beeps, or a tone that rises or falls
	Events = "events" // the sound of a thing: a bell, water, an engine
	Digits = "digits" // one to three digits by a synthesizer
	Words  = "words"  // a word by a synthesizer
	Human  = "human"  // digits by people
)

// AllKinds lists the kinds of clips.
func AllKinds() []string { return []string{Tones, Events, Digits, Words, Human} }

// Options configure New.
type Options struct {
	Split  Split    // Train (empty: Train) or Held
	Seed   uint64   // other seeds yield other clips
	Kinds  []string // "tones" or, with a weight, "digits:3"; empty: all for which there is speech
	Voices []string // variants of espeak-ng such as "f2"; empty: the split's
	Dir    string   // folder of the speech written by Synthesize
	FSDD   string   // folder of recordings named DIGIT_SPEAKER_TAKE.wav
	// Speakers selects speakers of FSDD; empty: all. To hold one out, train on
	// the others.
	Speakers []string
}

// Pair is a question about a clip and its answer, in lower case.
type Pair struct{ Ask, Answer, Kind string }

// Clip is a sound and its ground truth.
type Clip struct {
	PCM       []float32 // −1 to 1, at Rate
	Kind      string
	Caption   string // "three low beeps", "a bell", "a voice says 3 7"
	Text      string // content of speech: digits separated by spaces, or a word
	Questions []Pair
	Voice     string // of speech: "en-us+f2", "fsdd:theo"

	Beeps int    // of tones
	Pitch string // of tones: low, high, rising, falling
	Thing string // of events
}

// Source makes clips. It is safe for concurrent use.
type Source struct {
	opt    Options
	kinds  []weighted
	total  int
	pack   *Pack
	voices []string         // used voices of the pack
	takes  map[string][]int // clips of the pack, by voice and text
	people map[string][]recording
	names  []string // of people
	single []recording
}

type weighted struct {
	kind   string
	weight int
}

// makers returns the function that makes each kind of clip.
func makers() map[string]func(*Source, *mixer) Clip {
	return map[string]func(*Source, *mixer) Clip{
		Tones: (*Source).tones, Events: (*Source).events, Digits: (*Source).digits, Words: (*Source).words, Human: (*Source).human,
	}
}

// New creates a source. The error joins all faults of the options. A source
// with speech must be closed.
func New(opt Options) (*Source, error) {
	var errs []error
	if opt.Split == "" {
		opt.Split = Train
	}
	if opt.Split != Train && opt.Split != Held {
		errs = append(errs, fmt.Errorf("unknown split %q: want %s or %s", opt.Split, Train, Held))
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
		name, text, hasWeight := strings.Cut(k, ":")
		weight := 1
		if hasWeight {
			var err error
			if weight, err = strconv.Atoi(text); err != nil || weight < 1 || weight > 1000 {
				errs = append(errs, fmt.Errorf("kind %q: want a weight of 1 to 1000", k))
				continue
			}
		}
		if makers()[name] == nil {
			errs = append(errs, fmt.Errorf("unknown kind %q: want one of %v", name, AllKinds()))
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

// has reports whether a kind is selected.
func (s *Source) has(kind string) bool {
	return slices.ContainsFunc(s.kinds, func(w weighted) bool { return w.kind == kind })
}

// Close closes the speech. Clips stay valid.
func (s *Source) Close() error {
	if s.pack == nil {
		return nil
	}
	return s.pack.Close()
}

// Make returns clip i. Kinds alternate by weight.
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

// mixer returns the random numbers of clip i.
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

// in returns a number from low to high.
func (m *mixer) in(low, high float64) float64 { return low + (high-low)*m.Float64() }

// between returns an integer from low to high.
func (m *mixer) between(low, high int) int { return low + m.IntN(high-low+1) }

// chance returns true with probability p.
func (m *mixer) chance(p float64) bool { return m.Float64() < p }

// number returns a number up to ten in words.
func number(n int) string {
	return [...]string{"no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"}[n]
}
