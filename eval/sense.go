package eval

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/qa"
)

// Options say what Sense asks. The zero value is not ready: N is wanted.
type Options struct {
	N    int    // held-out examples
	Seed uint64 // another seed, other examples
	// Kinds are those of scene and sound, such as "charts" or "shapes:3";
	// "audio/words" is the spoken ones alone. None: all stills that the build can
	// see and all sounds that it can hear and that there is speech for.
	Kinds []string
	Ask   []string // kinds of questions, as patterns such as charts/*; none: all

	Speech   string   // folder of the speech that mm data speech wrote
	FSDD     string   // folder of people's digits
	Speakers []string // those of them who are heard; none: all

	Looks    []qa.Look             // what is shown with the questions; none: qa.Actual
	Progress func(done, total int) // may be nil
}

// Sensed is how often the answers about one medium were right.
type Sensed struct {
	Look   qa.Look       `json:"look,omitempty"`
	Input  qa.Medium     `json:"input"`
	Scores []train.Score `json:"scores"`
}

// Sense asks all questions about held-out examples. An answer is right that ends
// where it should and is word for word the one known, but for case and space;
// numbers read off a scale are counted again as right within a twentieth. The
// result is ordered by looks, then pictures before sounds.
func Sense(ctx context.Context, a Answerer, opt Options) (out []Sensed, err error) {
	s, err := opt.open(a.Build())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	looks := opt.Looks
	if len(looks) == 0 {
		looks = []qa.Look{qa.Actual}
	}
	for l, look := range looks {
		tallies := map[qa.Medium]train.Tally{}
		for i := range opt.N {
			if err := sense(ctx, a, s, i, opt.N, look, tallies); err != nil {
				return nil, fmt.Errorf("example %d: %w", i, err)
			}
			if opt.Progress != nil {
				opt.Progress(l*opt.N+i+1, len(looks)*opt.N)
			}
		}
		for _, m := range []qa.Medium{qa.Image, qa.Audio} {
			if t := tallies[m]; t != nil {
				out = append(out, Sensed{Look: look, Input: m, Scores: t.Scores()})
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no question about %d examples is one of %v", opt.N, opt.Ask)
	}
	return out, nil
}

// sense asks the questions about the i-th of n examples.
func sense(ctx context.Context, a Answerer, s sources, i, n int, look qa.Look, tallies map[qa.Medium]train.Tally) (err error) {
	e := s.turn(i)
	if len(e.Turns) == 0 {
		return nil
	}
	var about []talk.Part
	if look != qa.Nothing {
		seen := e
		if look == qa.Another {
			seen = s.turn(i + qa.Away(n, len(s.all)))
		}
		p, done, err := shown(seen)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, done()) }()
		about = []talk.Part{p}
	}
	if tallies[e.Modality] == nil {
		tallies[e.Modality] = train.Tally{}
	}
	return askAll(ctx, a, about, e.Turns, tallies[e.Modality])
}

// askAll asks questions and counts the answers.
func askAll(ctx context.Context, a Answerer, about []talk.Part, turns []qa.Turn, t train.Tally) error {
	for _, q := range slices.Clone(turns) {
		said, right, err := ask(ctx, a, about, q)
		if err != nil {
			return err
		}
		t.Add(q.Kind, q.Answer, right)
		if q.Measured() {
			t.Add(q.Kind+qa.WithinTwentieth, q.Answer, q.Near(said))
		}
	}
	return nil
}
