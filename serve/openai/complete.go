package openai

import (
	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/serve/api"
)

// completeRequest is the body of /v1/completions.
type completeRequest struct {
	sampling
	Prompt   prompts `json:"prompt"`
	Suffix   *string `json:"suffix"`
	Echo     bool    `json:"echo"`
	BestOf   *int    `json:"best_of"`
	Logprobs *int    `json:"logprobs"`
}

// asks returns the requests of the prompts, each with as many choices as wanted.
func (q *completeRequest) asks(s *api.Server) ([]*api.Ask, error) {
	m, err := s.Model(q.Model)
	if err != nil {
		return nil, err
	}
	ask := &api.Ask{Model: m}
	if ask.Request.Preferences, err = q.preferences(); err != nil {
		return nil, err
	}
	switch {
	case len(q.Prompt) == 0:
		return nil, badPrompt()
	case q.Suffix != nil && *q.Suffix != "":
		return nil, api.Unsupported("suffix", "suffix: not supported")
	case q.BestOf != nil && *q.BestOf != 1:
		return nil, api.Unsupported("best_of", "best_of: got %d, want 1", *q.BestOf)
	case q.Logprobs != nil && !q.Echo:
		return nil, api.Unsupported("logprobs", "logprobs: supported with echo only")
	}
	var all []*api.Ask
	for _, p := range q.Prompt {
		one := *ask
		one.Request.Plain, one.Request.Tokens = true, p.tokens
		if p.tokens == nil {
			one.Request.Inputs = []talk.Part{{Type: abi.Text, Text: p.text}}
		}
		all = append(all, one.Each(q.choices())...)
	}
	if len(all) > maxPrompts {
		return nil, api.Invalid("prompt", "prompt: got %d choices of all prompts, want at most %d", len(all), maxPrompts)
	}
	return all, nil
}

// textCompletion is an answer, or a chunk of one.
type textCompletion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []textChoice `json:"choices"`
	Usage   *usage       `json:"usage,omitempty"`
}

type textChoice struct {
	Index    int     `json:"index"`
	Text     string  `json:"text"`
	Logprobs any     `json:"logprobs"`
	Finish   *string `json:"finish_reason"`
}

func complete(c *api.Call) error {
	var q completeRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	asks, err := q.asks(c.Server())
	if err != nil {
		return err
	}
	if q.Echo {
		return echo(c, &q, asks)
	}
	base := textCompletion{ID: c.Server().ID("cmpl-"), Object: "text_completion", Created: c.Server().Now().Unix(), Model: asks[0].Model.Name()}
	if q.Stream {
		return streamText(c, asks, base, q.choices(), q.Options != nil && q.Options.Usage)
	}
	results, err := c.AnswerEach(asks, nil)
	if err != nil {
		return err
	}
	for i, r := range results {
		why := finish(r)
		base.Choices = append(base.Choices, textChoice{Index: i, Text: r.Text, Finish: &why})
	}
	base.Usage = usageOf(q.choices(), results...)
	return c.Reply(base)
}

// streamText answers in chunks. Those of several choices alternate.
func streamText(c *api.Call, asks []*api.Ask, base textCompletion, n int, count bool) error {
	st := c.Stream(api.SSE, ": ping\n\n")
	defer st.End()
	send := func(one textChoice) error {
		chunk := base
		chunk.Choices = []textChoice{one}
		return st.Send("", chunk)
	}
	results, err := c.AnswerEach(asks, func(i int, text string) error { return send(textChoice{Index: i, Text: text}) })
	if err != nil {
		return st.Fail("", err)
	}
	for i, r := range results {
		why := finish(r)
		if err := send(textChoice{Index: i, Finish: &why}); err != nil {
			return err
		}
	}
	if count {
		base.Choices, base.Usage = []textChoice{}, usageOf(n, results...)
		if err := st.Send("", base); err != nil {
			return err
		}
	}
	return st.Raw("", "[DONE]")
}
