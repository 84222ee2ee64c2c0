package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
)

// Scorer scores and continues texts; [runner.Runner] implements it.
type Scorer interface {
	Answer(ctx context.Context, req runner.Request, emit func(text string) error) (*runner.Answer, error)
	Encode(ctx context.Context, text string) ([]int32, error)
	Score(ctx context.Context, tokens []int32, from, top int) ([]runner.TokenScore, error)
}

// Reader is a [Scorer] with its vocabulary; [runner.Runner] implements it.
type Reader interface {
	Scorer
	Tokenizer(ctx context.Context) (*tokenizer.Tokenizer, error)
	Context(ctx context.Context) (positions int, err error)
}

// Local is a model in this process.
type Local struct {
	scorer Scorer
	most   int // tokens that are scored at a time
	prefix int32
	bare   *tokenizer.Tokenizer // encodes texts without BOS; nil: the runner does
}

// LocalOptions configures [NewLocal].
type LocalOptions struct {
	Most int // tokens of a text; 0: the positions of the core
	// Bare omits BOS and reads the control tokens that a text spells, as the harness
	// does over an API.
	Bare bool
}

// NewLocal returns the model of a runner. A text without context is scored after BOS or,
// without BOS, EOS.
func NewLocal(ctx context.Context, r Reader, opt LocalOptions) (*Local, error) {
	tok, err := r.Tokenizer(ctx)
	if err != nil {
		return nil, err
	}
	context, err := r.Context(ctx)
	if err != nil {
		return nil, err
	}
	l := &Local{scorer: r, most: context, prefix: prefixOf(tok)}
	if opt.Most > 0 {
		l.most = min(opt.Most, context)
	}
	if opt.Bare {
		l.bare = tok
	}
	return l, nil
}

// prefixOf returns the token before a text.
func prefixOf(tok *tokenizer.Tokenizer) int32 {
	s := tok.Special()
	for _, id := range []int32{s.BOS, s.EOS} {
		if id != tokenizer.None {
			return id
		}
	}
	return tokenizer.None
}

// split returns the tokens of a context with a continuation, and how many are of the
// context. White space at the end of the context belongs to the continuation.
func (l *Local) split(ctx context.Context, text, rest string) (ids []int32, from int, err error) {
	if text == "" {
		if ids, err = l.Encoded(ctx, rest); err != nil {
			return nil, 0, err
		}
		if len(ids) == 0 || ids[0] != l.prefix {
			ids = append([]int32{l.prefix}, ids...)
		}
		return ids, 1, nil
	}
	kept := strings.TrimRightFunc(text, pySpace)
	before, err := l.Encoded(ctx, kept)
	if err != nil {
		return nil, 0, err
	}
	ids, err = l.Encoded(ctx, text+rest)
	return ids, min(len(before), len(ids)), err
}

func pySpace(r rune) bool { return strings.ContainsRune(" \t\n\v\f\r\x1c\x1d\x1e\x1f\u0085\u00a0", r) }

// Encoded returns the tokens of a text.
func (l *Local) Encoded(ctx context.Context, text string) ([]int32, error) {
	if l.bare != nil {
		return l.bare.Encode(text, tokenizer.Options{Special: true}), nil
	}
	return l.scorer.Encode(ctx, text)
}

// Score returns the log likelihoods of continuations of a context.
func (l *Local) Score(ctx context.Context, text string, rest []string) ([]Scored, error) {
	out := make([]Scored, len(rest))
	for i, r := range rest {
		ids, from, err := l.split(ctx, text, r)
		if err != nil {
			return nil, err
		}
		if extra := len(ids) - l.most; extra > 0 {
			ids, from, out[i].Cut = ids[extra:], max(1, from-extra), true
		}
		if from < 1 {
			return nil, fmt.Errorf("context %.40q has no tokens", text)
		}
		scores, err := l.scorer.Score(ctx, ids, from, 1)
		if err != nil {
			return nil, err
		}
		for _, s := range scores {
			out[i].LogProb += s.LogProb
		}
		out[i].Greedy = runner.Greedy(scores)
	}
	return out, nil
}

// Rolling returns the log likelihood of a text, in windows if it is longer than the
// context: each token is scored once, those of a later window after as many tokens as
// fit.
func (l *Local) Rolling(ctx context.Context, text string) (float64, error) {
	ids, err := l.Encoded(ctx, text)
	if err != nil {
		return 0, err
	}
	if l.prefix == tokenizer.None {
		return 0, &runtimes.Unavailable{What: "the likelihood of a text", Why: "the vocabulary has neither BOS nor EOS to begin it", Hint: ""}
	}
	if len(ids) > 0 && ids[0] == l.prefix {
		ids = ids[1:]
	}
	sum, window := 0.0, l.most-1
	for done := 0; done < len(ids); {
		end := min(len(ids), done+window)
		read, from := append([]int32{l.prefix}, ids[:end]...), 1
		if done > 0 {
			read = slices.Clone(ids[end-window-1 : end])
			from = len(read) - (end - done)
		}
		scores, err := l.scorer.Score(ctx, read, from, 0)
		if err != nil {
			return 0, err
		}
		for _, s := range scores {
			sum += s.LogProb
		}
		done = end
	}
	return sum, nil
}

// Generate continues a prompt. With images or sounds it is a turn of a conversation.
func (l *Local) Generate(ctx context.Context, p Prompt) (string, error) {
	req := runner.Request{
		Preferences:  runner.Preferences{MaxTokens: p.MaxTokens, Stop: p.Until},
		ToolsAllowed: []string{}, Plain: len(p.Media) == 0 && !p.Tools,
	}
	if p.Tools {
		req.ToolsAllowed = nil
	}
	for _, m := range p.Media {
		req.Inputs = append(req.Inputs, talk.Part{Type: abi.Modality(m.Kind), Path: m.Path, Data: m.Data})
	}
	if l.bare != nil && req.Plain {
		var err error
		if req.Tokens, err = l.Encoded(ctx, p.Text); err != nil {
			return "", err
		}
	}
	req.Inputs = append(req.Inputs, talk.Part{Type: abi.Text, Text: p.Text})
	a, err := l.scorer.Answer(ctx, req, nil)
	if err != nil {
		return "", err
	}
	for _, c := range a.Called {
		if p.Trace != nil {
			p.Trace(Called{Name: c.Call.Name, Arguments: valid(c.Call.Arguments), Answer: c.Line})
		}
	}
	return a.Text, nil
}

// valid returns arguments as they are, or as a text if the model wrote no JSON.
func valid(arguments json.RawMessage) json.RawMessage {
	if json.Valid(arguments) {
		return arguments
	}
	quoted, err := json.Marshal(string(arguments))
	if err != nil {
		return nil
	}
	return quoted
}
