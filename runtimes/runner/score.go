package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/talk"
)

// Encode returns the tokens of a text that is continued without a chat template,
// after BOS if the model needs it.
func (r *Runner) Encode(ctx context.Context, text string) ([]int32, error) {
	if err := r.vocabularyLoaded(ctx); err != nil {
		return nil, err
	}
	var ids []int32
	for _, p := range r.talk.Plain(text).Pieces {
		ids = append(ids, p.Tokens...)
	}
	return ids, nil
}

// Tokenizer returns the tokenizer of the core.
func (r *Runner) Tokenizer(ctx context.Context) (*tokenizer.Tokenizer, error) {
	if err := r.vocabularyLoaded(ctx); err != nil {
		return nil, err
	}
	return r.talk.Tokenizer(), nil
}

// tokenPrompt returns the prompt of tokens that a client chose.
func (r *Runner) tokenPrompt(tokens []int32) (talk.Prompt, error) {
	if err := r.checkTokens(tokens); err != nil || len(tokens) == 0 {
		return talk.Prompt{Begins: true}, err
	}
	return talk.Prompt{Pieces: []talk.Piece{{Tokens: tokens}}}, nil
}

// checkTokens reports a token that the vocabulary lacks.
func (r *Runner) checkTokens(tokens []int32) error {
	size := r.talk.Tokenizer().Size()
	for _, id := range tokens {
		if id < 0 || int(id) >= size {
			return fmt.Errorf("%w: got %d, the vocabulary has %d", ErrToken, id, size)
		}
	}
	return nil
}

// ErrToken reports an id outside the vocabulary of the model.
var ErrToken = errors.New("unknown token")

// vocabularyLoaded reads the tokenizer, or reports that the core has none.
func (r *Runner) vocabularyLoaded(ctx context.Context) error {
	if err := r.loadTokenizer(ctx); err != nil {
		return err
	}
	if r.talk == nil {
		return &runtimes.Unavailable{What: "text", Why: r.build.Assembly.Core.ID() + " has no tokenizer", Hint: "import the model with its tokenizer"}
	}
	return nil
}

// Context returns the number of positions that a sequence of the core holds.
func (r *Runner) Context(ctx context.Context) (int, error) {
	if err := r.Load(ctx); err != nil {
		return 0, err
	}
	return r.model.Shape().Context, nil
}

// Score returns the log probability of each token from the index from on, after
// those before it, with the top most likely tokens of each place. The first token
// of a text has no probability: from is at least 1. Concurrent calls share the
// steps of the engine.
func (r *Runner) Score(ctx context.Context, tokens []int32, from, top int) ([]TokenScore, error) {
	if from < 1 || from > len(tokens) {
		return nil, fmt.Errorf("first scored token: got %d, want 1 to %d", from, len(tokens))
	}
	if err := r.vocabularyLoaded(ctx); err != nil {
		return nil, err
	}
	if err := r.checkTokens(tokens); err != nil {
		return nil, err
	}
	if err := r.Load(ctx); err != nil {
		return nil, err
	}
	if most := r.model.Shape().Context; len(tokens) > most {
		return nil, fmt.Errorf("%w: %d tokens exceed the %d positions of a sequence", runtimes.ErrFull, len(tokens), most)
	}
	if from == len(tokens) {
		return nil, nil
	}
	// The last token is scored, but not read.
	p := &positions{width: r.model.Shape().Width, goesOn: true}
	p.say(tokens[:from-1])
	s, _, err := r.begin(ctx, p, false, noOwner)
	if err != nil {
		return nil, err
	}
	s.owner = noOwner
	defer r.put(s)
	if err := s.Truncate(from - 1); err != nil {
		return nil, err
	}
	s.held = s.held[:from-1]
	return s.score(ctx, tokens, from, top, r.talk.Tokenizer())
}

// score reads the tokens from the one before from on, which the sequence lacks, and
// scores each successor.
func (s *session) score(ctx context.Context, tokens []int32, from, top int, tok *tokenizer.Tokenizer) ([]TokenScore, error) {
	out := make([]TokenScore, len(tokens)-from)
	read := tokens[from-1 : len(tokens)-1]
	err := runtimes.Predict(ctx, s.Sequence, read, func(i int, logits []float32) {
		out[i] = scoreOf(tok, logits, tokens[from+i], top)
	})
	if err != nil {
		return nil, fmt.Errorf("scoring %d tokens: %w", len(out), err)
	}
	s.held = append(s.held, read...)
	return out, nil
}

// scoreOf returns the score of a token by the logits of its place.
func scoreOf(tok *tokenizer.Tokenizer, logits []float32, id int32, most int) TokenScore {
	sum := logSum(logits)
	one := func(id int32) TokenScore {
		return TokenScore{ID: id, Piece: tok.Piece(id), LogProb: float64(logits[id]) - sum}
	}
	out := one(id)
	for _, at := range top(logits, most) {
		out.Top = append(out.Top, one(at))
	}
	return out
}

// Greedy reports whether each token is the most likely one; the scores must have been
// requested with at least one of the most likely tokens.
func Greedy(scores []TokenScore) bool {
	return !slices.ContainsFunc(scores, func(t TokenScore) bool { return len(t.Top) == 0 || t.Top[0].ID != t.ID })
}
