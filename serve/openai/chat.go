package openai

import (
	"encoding/json"

	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/serve/api"
)

// chatRequest is the body of /v1/chat/completions.
type chatRequest struct {
	sampling
	Messages   []message       `json:"messages"`
	MaxOutput  *int            `json:"max_completion_tokens"`
	Tools      []tool          `json:"tools"`
	ToolChoice json.RawMessage `json:"tool_choice"`
	Functions  json.RawMessage `json:"functions"`
	Format     *struct {
		Type   string `json:"type"`
		Schema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
	Logprobs    *bool    `json:"logprobs"`
	TopLogprobs *int     `json:"top_logprobs"`
	Modalities  []string `json:"modalities"`
}

// ask translates a request.
func (q *chatRequest) ask(s *api.Server) (*api.Ask, error) {
	m, err := s.Model(q.Model)
	if err != nil {
		return nil, err
	}
	ask := &api.Ask{Model: m}
	if ask.Request.Preferences, err = q.preferences(); err != nil {
		return nil, err
	}
	if err := limit("max_completion_tokens", q.MaxOutput, &ask.Request.Preferences); err != nil {
		return nil, err
	}
	if ask.Request.Messages, ask.Foreign, err = turns(q.Messages); err != nil {
		return nil, err
	}
	if err := q.unsupported(); err != nil {
		return nil, err
	}
	list, err := tools(q.Tools)
	if err == nil {
		err = choose(ask, list, q.ToolChoice)
	}
	if err == nil && q.Format != nil {
		err = format(ask, q.Format.Type, q.Format.Schema.Schema)
	}
	return ask, err
}

func (q *chatRequest) unsupported() error {
	if len(q.Functions) > 0 && string(q.Functions) != "null" {
		return api.Unsupported("functions", "functions: use tools")
	}
	if q.TopLogprobs != nil {
		switch n := *q.TopLogprobs; {
		case n < 0 || n > maxAlternatives:
			return api.Invalid("top_logprobs", "top_logprobs: got %d, want 0 to %d", n, maxAlternatives)
		case n > 0 && (q.Logprobs == nil || !*q.Logprobs):
			return api.Invalid("top_logprobs", "top_logprobs: requires logprobs")
		}
	}
	for _, m := range q.Modalities {
		if m != "text" {
			return api.Unsupported("modalities", "modalities: got %.40q, want text", m)
		}
	}
	return nil
}

// completion is an answer, or a chunk of one.
type completion struct {
	ID      string     `json:"id"`
	Object  string     `json:"object"`
	Created int64      `json:"created"`
	Model   string     `json:"model"`
	Choices []choiceOf `json:"choices"`
	Usage   *usage     `json:"usage,omitempty"`
	MM      *extra     `json:"mm,omitempty"`
}

// extra holds facts without a field of the API.
type extra struct {
	Stop   string              `json:"stop,omitempty"`
	Called []runner.CallRecord `json:"called,omitempty"`
}

func extraOf(r *api.Result) *extra {
	if r.Detail() == "" && len(r.Called) == 0 {
		return nil
	}
	return &extra{r.Detail(), r.Called}
}

type choiceOf struct {
	Index    int     `json:"index"`
	Message  *reply  `json:"message,omitempty"`
	Delta    *delta  `json:"delta,omitempty"`
	Logprobs any     `json:"logprobs"`
	Finish   *string `json:"finish_reason"`
}

// reply is the message of an answer.
type reply struct {
	Role      string  `json:"role"`
	Content   *string `json:"content"`
	Refusal   *string `json:"refusal"`
	Reasoning string  `json:"reasoning_content,omitempty"`
	ToolCalls []call  `json:"tool_calls,omitempty"`
}

// delta is a change of a message.
type delta struct {
	Role      string  `json:"role,omitempty"`
	Content   *string `json:"content,omitempty"`
	Reasoning string  `json:"reasoning_content,omitempty"`
	ToolCalls []call  `json:"tool_calls,omitempty"`
}

// callsOf translates the calls of an answer; in streams, with their indexes.
func callsOf(list []talk.Call, stream bool) (out []call) {
	for i, c := range list {
		one := call{ID: c.ID, Type: "function"}
		one.Function.Name, one.Function.Arguments = c.Name, string(c.Arguments)
		if stream {
			one.Index = &i
		}
		out = append(out, one)
	}
	return out
}

func chat(c *api.Call) error {
	var q chatRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	ask, err := q.ask(c.Server())
	if err != nil {
		return err
	}
	l := q.logprobs(ask)
	base := completion{ID: c.Server().ID("chatcmpl-"), Object: "chat.completion", Created: c.Server().Now().Unix(), Model: ask.Model.Name()}
	if q.Stream {
		return streamChat(c, ask, base, l, q.Options != nil && q.Options.Usage)
	}
	r, err := c.Answer(ask, nil)
	if err != nil {
		return err
	}
	why := finish(r)
	m := &reply{Role: "assistant", Content: &r.Text, Reasoning: r.Reasoning, ToolCalls: callsOf(r.Calls, false)}
	if r.Text == "" && len(r.Calls) > 0 {
		m.Content = nil
	}
	base.Choices, base.Usage, base.MM = []choiceOf{{Message: m, Logprobs: l.take(), Finish: &why}}, usageOf(r), extraOf(r)
	return c.Reply(base)
}

// streamChat answers in chunks.
func streamChat(c *api.Call, ask *api.Ask, base completion, l *logprobs, count bool) error {
	base.Object = "chat.completion.chunk"
	st := c.Stream(api.SSE, ": ping\n\n")
	defer st.End()
	send := func(d delta, why *string) error {
		base.Choices = []choiceOf{{Delta: &d, Logprobs: l.taken(d), Finish: why}}
		return st.Send("", base)
	}
	begun := false
	begin := func() error {
		if begun {
			return nil
		}
		begun = true
		return send(delta{Role: "assistant", Content: new(string)}, nil)
	}
	ask.Request.Reasoned = func(text string) error {
		if err := begin(); err != nil {
			return err
		}
		return send(delta{Reasoning: text}, nil)
	}
	sent := 0
	r, err := c.Answer(ask, func(text string) error {
		if err := begin(); err != nil {
			return err
		}
		sent += len(text)
		return send(delta{Content: &text}, nil)
	})
	if err != nil {
		return st.Fail("", err)
	}
	if err := begin(); err != nil {
		return err
	}
	if rest := r.Text[min(sent, len(r.Text)):]; rest != "" {
		if err := send(delta{Content: &rest}, nil); err != nil {
			return err
		}
	}
	for _, one := range callsOf(r.Calls, true) {
		args := call{Index: one.Index}
		args.Function.Arguments, one.Function.Arguments = one.Function.Arguments, ""
		if err := send(delta{ToolCalls: []call{one}}, nil); err != nil {
			return err
		}
		if err := send(delta{ToolCalls: []call{args}}, nil); err != nil {
			return err
		}
	}
	why := finish(r)
	base.MM = extraOf(r)
	if err := send(delta{}, &why); err != nil {
		return err
	}
	if count {
		base.Choices, base.Usage, base.MM = []choiceOf{}, usageOf(r), nil
		if err := st.Send("", base); err != nil {
			return err
		}
	}
	return st.Raw("", "[DONE]")
}
