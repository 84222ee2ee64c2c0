package openai

import (
	"context"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/serve/api"
)

// maxLegacy bounds logprobs of a completion.
const maxLegacy = 20

// legacy are the log probabilities of a completion: lists by token, the first null.
type legacy struct {
	Tokens  []string             `json:"tokens"`
	Logs    []*float64           `json:"token_logprobs"`
	Top     []map[string]float64 `json:"top_logprobs"`
	Offsets []int                `json:"text_offset"`
}

// least replaces the log probability of zero: JSON has no infinity.
const least = -9999

// add appends a token at an offset of the text.
func (l *legacy) add(t runner.TokenScore, scored bool, offset int) {
	l.Tokens, l.Offsets = append(l.Tokens, label(t)), append(l.Offsets, offset)
	if !scored {
		l.Logs, l.Top = append(l.Logs, nil), append(l.Top, nil)
		return
	}
	log := max(t.LogProb, least)
	top := map[string]float64{label(t): log}
	for _, o := range t.Top {
		name := label(o)
		if _, twice := top[name]; twice && o.ID != t.ID { // another token of this text
			name = fmt.Sprintf("token_id:%d", o.ID)
		}
		top[name] = max(o.LogProb, least)
	}
	l.Logs, l.Top = append(l.Logs, &log), append(l.Top, top)
}

// label returns the text of a token, or its id if the text is a part of a character.
func label(t runner.TokenScore) string {
	if !utf8.ValidString(t.Piece) {
		return fmt.Sprintf("token_id:%d", t.ID)
	}
	return t.Piece
}

// checkEcho refuses what echo does not support.
func checkEcho(q *completeRequest, temperature float32) error {
	switch {
	case q.MaxTokens == nil || *q.MaxTokens < 0 || *q.MaxTokens > 1:
		return api.Unsupported("max_tokens", "max_tokens: want 0 or 1 with echo")
	case q.Stream:
		return api.Unsupported("stream", "stream: not supported with echo")
	case q.Logprobs != nil && (*q.Logprobs < 0 || *q.Logprobs > maxLegacy):
		return api.Invalid("logprobs", "logprobs: got %d, want 0 to %d", *q.Logprobs, maxLegacy)
	case temperature != 0:
		return api.Unsupported("temperature", "temperature: want 0 with echo")
	case q.choices() != 1:
		return api.Unsupported("n", "n: want 1 with echo")
	}
	return nil
}

// echo scores the prompts and, if a token is wanted, the most likely next one.
func echo(c *api.Call, q *completeRequest, asks []*api.Ask) error {
	if err := checkEcho(q, asks[0].Request.Preferences.Temperature); err != nil {
		return err
	}
	more, top := *q.MaxTokens == 1, 0
	if q.Logprobs != nil {
		top = *q.Logprobs
	}
	base := textCompletion{ID: c.Server().ID("cmpl-"), Object: "text_completion", Created: c.Server().Now().Unix(), Model: asks[0].Model.Name()}
	u := usage{Details: map[string]int{"cached_tokens": 0}, Generated: map[string]int{"reasoning_tokens": 0}}
	err := c.Borrow(asks[0], func(ctx context.Context, a api.Scorer) error {
		tok, err := a.Tokenizer(ctx)
		if err != nil {
			return err
		}
		for i, ask := range asks {
			ids, err := tokensOf(ctx, a, ask)
			if err != nil {
				return err
			}
			one, err := echoed(ctx, a, tok, ids, top, more)
			if err != nil {
				return err
			}
			if q.Logprobs == nil {
				one.Logprobs = nil
			}
			one.Index = i
			base.Choices = append(base.Choices, one)
			u.Prompt += len(ids)
			if more {
				u.Completion++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	u.Total = u.Prompt + u.Completion
	base.Usage = &u
	return c.Reply(base)
}

// tokensOf returns the tokens of a request.
func tokensOf(ctx context.Context, a api.Scorer, ask *api.Ask) ([]int32, error) {
	ids := ask.Request.Tokens
	if ids == nil {
		var err error
		if ids, err = a.Encode(ctx, ask.Request.Inputs[0].Text); err != nil {
			return nil, err
		}
	}
	if len(ids) == 0 {
		return nil, api.Invalid("prompt", "prompt: empty")
	}
	return ids, nil
}

// echoed returns a prompt with its log probabilities, and the next token if more is set.
func echoed(ctx context.Context, a api.Scorer, tok *tokenizer.Tokenizer, ids []int32, top int, more bool) (textChoice, error) {
	why, read := "length", ids
	if more { // the place after the prompt is scored for any token
		read = append(append([]int32{}, ids...), ids[0])
	}
	scores, err := a.Score(ctx, read, 1, max(top, 1))
	if err != nil {
		return textChoice{}, err
	}
	var text strings.Builder
	var l legacy
	add := func(t runner.TokenScore, scored bool) {
		t.Top = t.Top[:min(len(t.Top), top)]
		l.add(t, scored, utf8.RuneCountInString(text.String()))
		text.WriteString(t.Piece)
	}
	add(runner.TokenScore{ID: ids[0], Piece: tok.Piece(ids[0])}, false)
	for i, s := range scores {
		if i == len(ids)-1 {
			next := s.Top[0]
			next.Top = s.Top
			if s = next; math.IsInf(s.LogProb, 0) {
				s.LogProb = least
			}
			if tok.Ends(s.ID) {
				why = "stop"
			}
		}
		add(s, true)
	}
	return textChoice{Text: strings.ToValidUTF8(text.String(), "\uFFFD"), Logprobs: &l, Finish: &why}, nil
}
