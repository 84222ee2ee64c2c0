package openai

import (
	"bytes"
	"encoding/json"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/serve/api"
)

// completeRequest is the body of /v1/completions.
type completeRequest struct {
	sampling
	Prompt   prompt  `json:"prompt"`
	Suffix   *string `json:"suffix"`
	Echo     bool    `json:"echo"`
	BestOf   *int    `json:"best_of"`
	Logprobs *int    `json:"logprobs"`
}

// prompt is a text, or an array of one text.
type prompt string

// UnmarshalJSON reads a string or an array of one.
func (p *prompt) UnmarshalJSON(data []byte) error {
	var list []json.RawMessage
	if json.Unmarshal(data, &list) == nil && !bytes.Equal(data, []byte("null")) {
		if len(list) != 1 {
			return api.Unsupported("prompt", "prompt: got %d elements, want one text", len(list))
		}
		data = list[0]
	}
	var text *string
	if json.Unmarshal(data, &text) != nil || text == nil {
		return api.Unsupported("prompt", "prompt: want a text; token ids are not supported")
	}
	*p = prompt(*text)
	return nil
}

func (q *completeRequest) ask(s *api.Server) (*api.Ask, error) {
	m, err := s.Model(q.Model)
	if err != nil {
		return nil, err
	}
	ask := &api.Ask{Model: m}
	if ask.Request.Preferences, err = q.preferences(); err != nil {
		return nil, err
	}
	switch {
	case q.Suffix != nil && *q.Suffix != "":
		return nil, api.Unsupported("suffix", "suffix: not supported")
	case q.Echo:
		return nil, api.Unsupported("echo", "echo: not supported")
	case q.BestOf != nil && *q.BestOf != 1:
		return nil, api.Unsupported("best_of", "best_of: got %d, want 1", *q.BestOf)
	case q.Logprobs != nil && *q.Logprobs != 0:
		return nil, api.Unsupported("logprobs", "logprobs: not supported")
	}
	ask.Request.Plain, ask.Request.Inputs = true, []talk.Part{{Type: abi.Text, Text: string(q.Prompt)}}
	return ask, nil
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
	ask, err := q.ask(c.Server())
	if err != nil {
		return err
	}
	asks := ask.Each(q.choices())
	base := textCompletion{ID: c.Server().ID("cmpl-"), Object: "text_completion", Created: c.Server().Now().Unix(), Model: ask.Model.Name()}
	if q.Stream {
		return streamText(c, asks, base, q.Options != nil && q.Options.Usage)
	}
	results, err := c.AnswerEach(asks, nil)
	if err != nil {
		return err
	}
	for i, r := range results {
		why := finish(r)
		base.Choices = append(base.Choices, textChoice{Index: i, Text: r.Text, Finish: &why})
	}
	base.Usage = usageOf(results...)
	return c.Reply(base)
}

// streamText answers in chunks. Those of several choices alternate.
func streamText(c *api.Call, asks []*api.Ask, base textCompletion, count bool) error {
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
		base.Choices, base.Usage = []textChoice{}, usageOf(results...)
		if err := st.Send("", base); err != nil {
			return err
		}
	}
	return st.Raw("", "[DONE]")
}
