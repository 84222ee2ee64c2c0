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

// Options configures [Sense]. N is required.
type Options struct {
	N    int    // held-out examples
	Seed uint64 // selects the examples
	// Kinds are kinds of scene and sound, such as "charts" or "shapes:3"; "audio/words"
	// selects the spoken ones only. If empty, all still images and all sounds that the
	// build has encoders for and that have speech data.
	Kinds []string
	Ask   []string // patterns of questions, such as charts/*; empty: all

	Speech   string   // folder written by mm data speech
	FSDD     string   // folder of recorded digits
	Speakers []string // speakers of FSDD; empty: all

	Looks    []qa.Look             // examples shown with the questions; empty: qa.Actual
	Progress func(done, total int) // may be nil
}

// Sensed is the score of the answers about one medium.
type Sensed struct {
	Look   qa.Look       `json:"look,omitempty"`
	Input  qa.Medium     `json:"input"`
	Scores []train.Score `json:"scores"`
}

// Sense asks all questions about held-out examples. An answer is correct if it ends by itself
// and equals the expected one except for case and space; numbers read off a scale are also
// scored as correct within a twentieth. Results are ordered by looks, then images before
// sounds.
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
		return nil, fmt.Errorf("no question about %d examples matches %v", opt.N, opt.Ask)
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
		example := e
		if look == qa.Another {
			example = s.turn(i + qa.Away(n, len(s.all)))
		}
		p, done, err := shown(example)
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

// askAll asks questions and scores the answers.
func askAll(ctx context.Context, a Answerer, about []talk.Part, turns []qa.Turn, t train.Tally) error {
	for _, q := range slices.Clone(turns) {
		answer, right, err := ask(ctx, a, about, q)
		if err != nil {
			return err
		}
		t.Add(q.Kind, q.Answer, right)
		if q.Measured() {
			t.Add(q.Kind+qa.WithinTwentieth, q.Answer, q.Near(answer))
		}
	}
	return nil
}
