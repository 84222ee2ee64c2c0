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

// positions is a prompt in the form that a sequence reads.
type positions struct {
	in    []runtimes.Positions
	ids   []int32 // all ids; for a vector, the id of its input
	width int
	deep  int // further vectors of a position
	// goesOn is set if this is only the start of a prompt.
	goesOn bool
	// prefix is set if all positions see each other.
	prefix bool
	// assumed are assumptions about encoders, without duplicates.
	assumed []string
}

func (p *positions) len() int { return len(p.ids) }

// context describes the positions.
func (p *positions) context(tok *tokenizer.Tokenizer) []part.Position {
	var out []part.Position
	inputs := int32(0)
	for _, in := range p.in {
		for _, id := range in.Tokens {
			out = append(out, part.Position{ID: id, Piece: piece(tok, id), From: part.FromPrompt})
		}
		for range len(in.Vectors) / p.numbers(in) {
			out = append(out, part.Position{ID: inputs, From: part.FromInput})
		}
		if in.Tokens == nil {
			inputs++
		}
	}
	return out
}

// piece returns the text of a token, with incomplete characters replaced.
func piece(tok *tokenizer.Tokenizer, id int32) string {
	return strings.ToValidUTF8(tok.Piece(id), "\uFFFD")
}

// numbers returns the length of a vector.
func (p *positions) numbers(in runtimes.Positions) int {
	if in.Deep {
		return p.width * (1 + p.deep)
	}
	return p.width
}

// from returns the positions after the first n.
func (p *positions) from(n int) []runtimes.Positions {
	var out []runtimes.Positions
	for _, in := range p.in {
		width := p.numbers(in)
		size := len(in.Tokens) + len(in.Vectors)/width
		skip := min(n, size)
		n -= skip
		if skip == size {
			continue
		}
		if skip > 0 { // of tokens or a line of vectors: a sequence keeps all of a grid or none
			in.Tokens, in.Vectors = in.Tokens[min(skip, len(in.Tokens)):], in.Vectors[min(skip*width, len(in.Vectors)):]
		}
		out = append(out, in)
	}
	return out
}

// say appends tokens.
func (p *positions) say(tokens []int32) {
	p.in = append(p.in, runtimes.Positions{Tokens: tokens, Mutual: p.prefix})
	p.ids = append(p.ids, tokens...)
}

// show appends the vectors of a run of an input.
func (p *positions) show(e *media.Encoded, run int, mutual bool) error {
	in := runtimes.Positions{Mutual: mutual || p.prefix, Grid: e.Grid, Deep: e.Deep > 0}
	width := p.numbers(in)
	if e.Width != width || e.Deep > 0 && e.Deep != p.deep {
		return fmt.Errorf("encoding the %s input: %s returns vectors of width %d for %d layers, the core has width %d for %d", e.Part.Type, e.Parts()[1], e.Width, 1+e.Deep, p.width, 1+p.deep)
	}
	for _, text := range e.Assumed {
		if !slices.Contains(p.assumed, text) {
			p.assumed = append(p.assumed, text)
		}
	}
	n := len(e.Numbers) / width
	if g := e.Grid; n%e.Runs != 0 || g != [3]int{} && n != g[0]*g[1]*g[2] {
		return fmt.Errorf("encoding the %s input: %d vectors for %d runs, grid %v", e.Part.Type, n, e.Runs, g)
	}
	n /= e.Runs
	in.Vectors = e.Numbers[run*n*width : (run+1)*n*width]
	p.in = append(p.in, in)
	p.ids = append(p.ids, slices.Repeat([]int32{e.ID}, n)...)
	return nil
}

// read makes a sequence hold a prompt. Before it waits for an input, it feeds the positions
// that are available, concurrently with the encoders.
func (r *Runner) read(ctx context.Context, prompt talk.Prompt, c *media.Encoding, hidden bool, owner string) (s *session, p *positions, reused int, err error) {
	p = &positions{width: r.model.Shape().Width, deep: r.model.Shape().Deep}
	p.prefix = slices.ContainsFunc(prompt.Pieces, func(x talk.Piece) bool { return x.Part != nil && r.senses.Prefix(x.Part.Type) })
	var e *media.Encoded
	inputs := c.Inputs
	for _, piece := range prompt.Pieces {
		if piece.Part == nil {
			p.say(piece.Tokens)
			continue
		}
		if piece.Run == 0 {
			e, inputs = inputs[0], inputs[1:]
		}
		if !e.Ready() && !p.prefix { // meanwhile, read the positions before it
			p.goesOn = true
			if s == nil {
				s, reused, err = r.begin(ctx, p, hidden, owner)
			} else {
				err = s.read(ctx, p)
			}
			if err != nil {
				return s, p, reused, err
			}
		}
		if err = e.Wait(ctx); err == nil {
			err = p.show(e, piece.Run, r.senses.Mutual(piece.Part.Type))
		}
		if err != nil {
			return s, p, reused, err
		}
	}
	if p.len() == 0 {
		return s, p, 0, fmt.Errorf("empty prompt: the model needs a first token")
	}
	if s == nil {
		s, reused, err = r.begin(ctx, p, hidden, owner)
		return s, p, reused, err
	}
	return s, p, reused, s.read(ctx, p)
}

// begin takes a sequence for a prompt and feeds it.
func (r *Runner) begin(ctx context.Context, p *positions, hidden bool, owner string) (*session, int, error) {
	s, err := r.take(ctx, p, hidden, owner)
	if err != nil {
		return nil, 0, err
	}
	reused, err := s.begin(ctx, p)
	return s, reused, err
}

// session is a sequence and the positions that it holds.
type session struct {
	runtimes.Sequence
	held   []int32
	hidden bool   // the sequence keeps the states of its positions
	owner  string // of its text
}

// common returns the length of the common prefix. At least one position of a complete prompt
// is left to be read, for its logits.
func (s *session) common(in *positions) int {
	most := len(in.ids)
	if in.prefix {
		return 0 // positions depend on those after them
	}
	if !in.goesOn {
		most--
	}
	n := 0
	for n < len(s.held) && n < most && s.held[n] == in.ids[n] {
		n++
	}
	return n
}

// begin makes the sequence hold a prompt, or its start, and returns the number of positions
// reused.
func (s *session) begin(ctx context.Context, in *positions) (reused int, err error) {
	reused = s.common(in)
	if err := s.Truncate(reused); err != nil {
		return 0, err
	}
	reused = min(reused, s.Len())
	s.held = s.held[:reused]
	err = s.read(ctx, in)
	if q, ok := s.Sequence.(runtimes.Sharer); ok && err == nil && reused < in.len() {
		reused += q.Shared()
	}
	return reused, err
}

// read feeds the missing positions of a prompt.
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

// more feeds the drawn tokens that the sequence lacks since it held n positions, then ids.
func (s *session) more(ctx context.Context, n int, drawn, ids []int32) error {
	ids = append(slices.Clone(drawn[len(s.held)-n:]), ids...)
	if err := s.Feed(ctx, runtimes.Positions{Tokens: ids}); err != nil {
		return fmt.Errorf("feeding the answer of a tool: %w", err)
	}
	s.held = append(s.held, ids...)
	return nil
}

// keep truncates the sequence to at most n positions.
func (s *session) keep(n int) error {
	n = min(n, s.Len(), len(s.held))
	if s.Len() > n {
		if err := s.Truncate(n); err != nil {
			return err
		}
	}
	s.held = s.held[:min(n, s.Len())]
	return nil
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

// inputs reads the inputs of a prompt that are not text, if they fit.
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

// roomy reports inputs that do not fit the sequence, before anything is read or loaded, by
// the maximum of positions of each.
func (r *Runner) roomy(prompt talk.Prompt, in []media.Medium) error {
	most := r.build.Assembly.Tokens.MaxSeq
	if most <= 0 || len(in) == 0 {
		return nil // the core reports it
	}
	text, places := 0, 0
	for _, piece := range prompt.Pieces {
		text += len(piece.Tokens)
	}
	for _, m := range in {
		places += min(max(m.Places, 0), most)
	}
	if text+places >= most {
		return fmt.Errorf("%w: %d positions of %d inputs and %d tokens of text exceed max_seq %d", runtimes.ErrFull, places, len(in), text, most)
	}
	return nil
}

// take returns a sequence for a prompt: the idle one with the longest common prefix, a new one
// while there may be more, or the least recently used one. If a kept sequence begins with more
// of the prompt, it is restored.
func (r *Runner) take(ctx context.Context, in *positions, hidden bool, owner string) (*session, error) {
	var found kept
	if !hidden && !in.prefix {
		found = r.kept.find(owner, in)
	}
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
	if most+leastKept <= found.n {
		best = -1
	}
	// A few common positions, such as BOS or the start of a template, are not worth the
	// loss of another conversation's sequence.
	if best >= 0 && 2*most < min(in.len(), len(r.idle[best].held)) && (len(r.idle) < r.opt.Sequences || r.kept != nil) {
		best = -1
	}
	var full *session // to be closed
	if best < 0 && len(r.idle) >= r.opt.Sequences {
		if best = 0; r.idle[0].hidden != hidden || r.kept != nil {
			full, best = r.idle[0], -1
			r.idle = slices.Delete(r.idle, 0, 1) // clears the place
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
		if err := r.retire(full); err != nil {
			return nil, err
		}
	}
	q, err := r.model.NewSequence(ctx, runtimes.SequenceOptions{Hidden: hidden})
	if err != nil {
		return nil, fmt.Errorf("creating a sequence: %w", err)
	}
	s := &session{Sequence: q, hidden: hidden}
	r.kept.restore(found, in, s)
	return s, nil
}

// put returns a sequence to the idle ones.
func (r *Runner) put(s *session) {
	r.mu.Lock()
	full := r.closed || len(r.idle) >= r.opt.Sequences
	if !full {
		r.idle = append(r.idle, s)
	}
	r.mu.Unlock()
	if full {
		_ = r.retire(s) // the answer is complete
	}
}
