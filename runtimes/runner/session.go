package runner

import (
	"context"
	"fmt"
	"slices"

	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/talk"
)

// positions is a prompt as a sequence takes it.
type positions struct {
	in    []runtimes.Positions
	ids   []int32 // all of them; that of its feature where one is a vector
	width int
	// assumed are what the manifests of encoders did not say, each once.
	assumed []string
}

func (p *positions) len() int { return len(p.ids) }

// from is what follows the first n positions.
func (p *positions) from(n int) []runtimes.Positions {
	var out []runtimes.Positions
	for _, in := range p.in {
		size := len(in.Tokens) + len(in.Vectors)/p.width
		skip := min(n, size)
		n -= skip
		switch {
		case skip == size:
		case in.Tokens != nil:
			out = append(out, runtimes.Positions{Tokens: in.Tokens[skip:]})
		default:
			out = append(out, runtimes.Positions{Vectors: in.Vectors[skip*p.width:]})
		}
	}
	return out
}

// positions fills the holes of a prompt.
func (r *Runner) positions(ctx context.Context, prompt talk.Prompt, in []medium) (*positions, error) {
	p := &positions{width: r.model.Shape().Width}
	for _, piece := range prompt.Pieces {
		if piece.Part == nil {
			p.in = append(p.in, runtimes.Positions{Tokens: piece.Tokens})
			p.ids = append(p.ids, piece.Tokens...)
			continue
		}
		f, err := r.project(ctx, in[0], p.width)
		if err != nil {
			return nil, err
		}
		in = in[1:]
		for _, text := range f.assumed {
			if !slices.Contains(p.assumed, text) {
				p.assumed = append(p.assumed, text)
			}
		}
		p.in = append(p.in, runtimes.Positions{Vectors: f.vectors})
		p.ids = append(p.ids, slices.Repeat([]int32{f.id}, len(f.vectors)/p.width)...)
	}
	return p, nil
}

// session is a sequence and what it holds.
type session struct {
	runtimes.Sequence
	held []int32
}

// common is the number of positions that are there already. One is always
// left to be read, for what follows it.
func (s *session) common(in *positions) int {
	n := 0
	for n < len(s.held) && n < len(in.ids)-1 && s.held[n] == in.ids[n] {
		n++
	}
	return n
}

// begin makes the sequence hold the prompt and gives the number of positions
// it held before.
func (s *session) begin(ctx context.Context, in *positions) (reused int, err error) {
	if in.len() == 0 {
		return 0, fmt.Errorf("nothing to read: the model begins no text by itself")
	}
	reused = s.common(in)
	if err := s.Truncate(reused); err != nil {
		return 0, err
	}
	s.held = s.held[:reused]
	if err := s.Feed(ctx, in.from(reused)...); err != nil {
		return reused, fmt.Errorf("feeding the prompt: %w", err)
	}
	s.held = append(s.held, in.ids[reused:]...)
	return reused, nil
}

// generate continues the sequence.
func (s *session) generate(ctx context.Context, opt runtimes.Generation, emit func(int32) error) (runtimes.Stop, error) {
	stop, err := s.Generate(ctx, opt, func(id int32) error {
		s.held = append(s.held, id)
		return emit(id)
	})
	s.held = s.held[:min(s.Len(), len(s.held))]
	if stop == runtimes.StopContext {
		stop = runtimes.StopLength
	}
	return stop, err
}

// take gives a sequence for a prompt: the idle one that has most of it, a new
// one while there may be more, or the one that was not used for longest.
func (r *Runner) take(ctx context.Context, in *positions) (*session, error) {
	r.mu.Lock()
	best, most := -1, 0
	for i, s := range r.idle {
		if n := s.common(in); n > most {
			best, most = i, n
		}
	}
	// A few positions in common, BOS or a template's first words, are not
	// worth another conversation's place.
	if best >= 0 && 2*most < min(in.len(), len(r.idle[best].held)) && len(r.idle) < r.opt.Sequences {
		best = -1
	}
	if best < 0 && len(r.idle) >= r.opt.Sequences {
		best = 0
	}
	if best >= 0 {
		s := r.idle[best]
		r.idle = slices.Delete(r.idle, best, best+1)
		r.mu.Unlock()
		return s, nil
	}
	r.mu.Unlock()
	q, err := r.model.NewSequence(ctx, runtimes.SequenceOptions{})
	if err != nil {
		return nil, fmt.Errorf("beginning a sequence: %w", err)
	}
	return &session{Sequence: q}, nil
}

// put gives a sequence back.
func (r *Runner) put(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.idle) >= r.opt.Sequences {
		s.Close()
		return
	}
	r.idle = append(r.idle, s)
}
