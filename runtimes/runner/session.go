package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/media"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/talk"
)

// positions is a prompt as a sequence takes it.
type positions struct {
	in    []runtimes.Positions
	ids   []int32 // all of them; that of its feature where one is a vector
	width int
	// goesOn says that this is the beginning of a prompt.
	goesOn bool
	// assumed are what the manifests of encoders did not say, each once.
	assumed []string
}

func (p *positions) len() int { return len(p.ids) }

// context tells what the positions are.
func (p *positions) context(tok *tokenizer.Tokenizer) []part.Position {
	var out []part.Position
	inputs := int32(0)
	for _, in := range p.in {
		for _, id := range in.Tokens {
			out = append(out, part.Position{ID: id, Piece: piece(tok, id), From: part.FromPrompt})
		}
		for range len(in.Vectors) / p.width {
			out = append(out, part.Position{ID: inputs, From: part.FromInput})
		}
		if in.Tokens == nil {
			inputs++
		}
	}
	return out
}

// piece is what a token spells; half a character is replaced.
func piece(tok *tokenizer.Tokenizer, id int32) string {
	return strings.ToValidUTF8(tok.Piece(id), "\uFFFD")
}

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

// say adds tokens.
func (p *positions) say(tokens []int32) {
	p.in = append(p.in, runtimes.Positions{Tokens: tokens})
	p.ids = append(p.ids, tokens...)
}

// show adds the vectors of an input.
func (p *positions) show(e *media.Encoded) error {
	if e.Width != p.width {
		return fmt.Errorf("reading the %s input: %s gives vectors of %d numbers, the core is %d wide", e.Part.Type, e.Parts()[1], e.Width, p.width)
	}
	for _, text := range e.Assumed {
		if !slices.Contains(p.assumed, text) {
			p.assumed = append(p.assumed, text)
		}
	}
	p.in = append(p.in, runtimes.Positions{Vectors: e.Numbers})
	p.ids = append(p.ids, slices.Repeat([]int32{e.ID}, len(e.Numbers)/p.width)...)
	return nil
}

// read makes a sequence hold a prompt: what is known of it each time that there is
// an input to wait for, beside the encoders of the rest.
func (r *Runner) read(ctx context.Context, prompt talk.Prompt, c *media.Encoding, hidden bool) (s *session, p *positions, reused int, err error) {
	p = &positions{width: r.model.Shape().Width}
	inputs := c.Inputs
	for _, piece := range prompt.Pieces {
		if piece.Part == nil {
			p.say(piece.Tokens)
			continue
		}
		e := inputs[0]
		inputs = inputs[1:]
		if !e.Ready() { // there is time to read what stands before it
			p.goesOn = true
			if s == nil {
				s, reused, err = r.begin(ctx, p, hidden)
			} else {
				err = s.read(ctx, p)
			}
			if err != nil {
				return s, p, reused, err
			}
		}
		if err = e.Wait(ctx); err == nil {
			err = p.show(e)
		}
		if err != nil {
			return s, p, reused, err
		}
	}
	if p.len() == 0 {
		return s, p, 0, fmt.Errorf("nothing to read: the model begins no text by itself")
	}
	if s == nil {
		s, reused, err = r.begin(ctx, p, hidden)
		return s, p, reused, err
	}
	return s, p, reused, s.read(ctx, p)
}

// begin takes a sequence for a prompt and makes it hold that.
func (r *Runner) begin(ctx context.Context, p *positions, hidden bool) (*session, int, error) {
	s, err := r.take(ctx, p, hidden)
	if err != nil {
		return nil, 0, err
	}
	reused, err := s.begin(ctx, p)
	return s, reused, err
}

// session is a sequence and what it holds.
type session struct {
	runtimes.Sequence
	held   []int32
	hidden bool // it keeps the states of its positions
}

// common is the number of positions that are there already. Of a whole prompt
// one is always left to be read, for what follows it.
func (s *session) common(in *positions) int {
	most := len(in.ids)
	if !in.goesOn {
		most--
	}
	n := 0
	for n < len(s.held) && n < most && s.held[n] == in.ids[n] {
		n++
	}
	return n
}

// begin makes the sequence hold a prompt, or its beginning, and gives the number
// of positions it held before.
func (s *session) begin(ctx context.Context, in *positions) (reused int, err error) {
	reused = s.common(in)
	if err := s.Truncate(reused); err != nil {
		return 0, err
	}
	s.held = s.held[:reused]
	return reused, s.read(ctx, in)
}

// read feeds what the sequence lacks of a prompt.
func (s *session) read(ctx context.Context, in *positions) error {
	from := len(s.held)
	if from == in.len() {
		return nil
	}
	if err := s.Feed(ctx, in.from(from)...); err != nil {
		return fmt.Errorf("feeding the prompt: %w", err)
	}
	s.held = append(s.held, in.ids[from:]...)
	return nil
}

// more feeds what was drawn since the sequence held n positions and is not in it,
// and ids behind it.
func (s *session) more(ctx context.Context, n int, drawn, ids []int32) error {
	ids = append(slices.Clone(drawn[len(s.held)-n:]), ids...)
	if err := s.Feed(ctx, runtimes.Positions{Tokens: ids}); err != nil {
		return fmt.Errorf("feeding the answer of a tool: %w", err)
	}
	s.held = append(s.held, ids...)
	return nil
}

// keep has the sequence hold its first n positions at most.
func (s *session) keep(n int) error {
	n = min(n, s.Len(), len(s.held))
	s.held = s.held[:n]
	if s.Len() == n {
		return nil
	}
	return s.Truncate(n)
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

// inputs reads the inputs of a prompt that are no text, if there is room for
// them.
func (r *Runner) inputs(ctx context.Context, prompt talk.Prompt) ([]media.Medium, error) {
	in, err := r.senses.Judge(prompt)
	if err == nil {
		err = r.roomy(prompt, in)
	}
	if err == nil {
		err = r.senses.Read(ctx, in)
	}
	return in, err
}

// roomy reports inputs that the sequence has no room for, before anything is
// read or loaded: each is counted with all the places that it may take.
func (r *Runner) roomy(prompt talk.Prompt, in []media.Medium) error {
	most := r.build.Assembly.Tokens.MaxSeq
	if most <= 0 || len(in) == 0 {
		return nil // the core knows
	}
	text, places := 0, 0
	for _, piece := range prompt.Pieces {
		text += len(piece.Tokens)
	}
	for _, m := range in {
		places += min(max(m.Places, 0), most)
	}
	if text+places >= most {
		return fmt.Errorf("%w: %d places of %d inputs and %d tokens of text, of a max_seq of %d", runtimes.ErrFull, places, len(in), text, most)
	}
	return nil
}

// take gives a sequence for a prompt: the idle one that has most of it, a new
// one while there may be more, or the one that was not used for longest.
func (r *Runner) take(ctx context.Context, in *positions, hidden bool) (*session, error) {
	r.mu.Lock()
	best, most := -1, 0
	for i, s := range r.idle {
		if s.hidden != hidden {
			continue
		}
		if n := s.common(in); n > most {
			best, most = i, n
		}
	}
	// A few positions in common, BOS or a template's first words, are not
	// worth another conversation's place.
	if best >= 0 && 2*most < min(in.len(), len(r.idle[best].held)) && len(r.idle) < r.opt.Sequences {
		best = -1
	}
	var full *session // gives its place
	if best < 0 && len(r.idle) >= r.opt.Sequences {
		if best = 0; r.idle[0].hidden != hidden {
			full, r.idle, best = r.idle[0], slices.Delete(r.idle, 0, 1), -1
		}
	}
	if best >= 0 {
		s := r.idle[best]
		r.idle = slices.Delete(r.idle, best, best+1)
		r.mu.Unlock()
		return s, nil
	}
	r.mu.Unlock()
	if full != nil {
		if err := full.Close(); err != nil {
			return nil, err
		}
	}
	q, err := r.model.NewSequence(ctx, runtimes.SequenceOptions{Hidden: hidden})
	if err != nil {
		return nil, fmt.Errorf("beginning a sequence: %w", err)
	}
	return &session{Sequence: q, hidden: hidden}, nil
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
