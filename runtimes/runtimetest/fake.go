package runtimetest

import (
	"context"
	"errors"
	"strings"

	"mm-abi.org/mm/runtimes"
)

// Fake is a backend that recites a text, a word a token, whatever it is fed.
type Fake struct {
	Text    string
	Missing error // what Probe says; nil: available
	MaxSeq  int   // words a sequence holds; 0: 1,000
}

// Name is "fake".
func (f *Fake) Name() string { return "fake" }

// Probe returns Missing.
func (f *Fake) Probe(context.Context) error { return f.Missing }

// OpenGenerator begins a sequence. It wants a file in format gguf, which it
// does not read.
func (f *Fake) OpenGenerator(_ context.Context, w runtimes.Weights, _ runtimes.Settings) (runtimes.Generator, error) {
	if w.Paths["gguf"] == "" {
		return nil, &runtimes.Unavailable{What: w.Part.ID(), Why: "no file"}
	}
	room := f.MaxSeq
	if room == 0 {
		room = 1000
	}
	return &recital{words: strings.SplitAfter(f.Text, " "), room: room}, nil
}

type recital struct {
	words []string
	room  int
	taken int
}

// Feed counts words.
func (r *recital) Feed(_ context.Context, s runtimes.Segment) (int, error) {
	n := len(strings.Fields(s.Text+s.Marked)) + len(s.Tokens) + len(s.Vectors)
	if r.taken+n > r.room {
		return 0, errors.New("the sequence is full")
	}
	r.taken += n
	return n, nil
}

// Generate recites.
func (r *recital) Generate(ctx context.Context, opt runtimes.Generation, emit func(runtimes.Token) error) (runtimes.Stop, error) {
	for i, w := range r.words {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if opt.MaxTokens > 0 && i == opt.MaxTokens || r.taken == r.room {
			return runtimes.StopLength, nil
		}
		r.taken++
		for _, s := range opt.Stop {
			if before, _, ok := strings.Cut(w, s); ok {
				if before == "" {
					return runtimes.StopWord, nil
				}
				return runtimes.StopWord, emit(runtimes.Token{ID: int32(i), Text: before})
			}
		}
		if err := emit(runtimes.Token{ID: int32(i), Text: w}); err != nil {
			return "", err
		}
	}
	return runtimes.StopEnd, nil
}

// Close does nothing.
func (r *recital) Close() error { return nil }
