package openai

import (
	"cmp"
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
	Parallel    *bool    `json:"parallel_tool_calls"`

	Effort    *string        `json:"reasoning_effort"`
	Reasoning *reasoning     `json:"reasoning"`            // of routers, as of /v1/responses
	Template  map[string]any `json:"chat_template_kwargs"` // of local servers
}

// reasoning is how much the model reasons.
type reasoning struct {
	Effort *string `json:"effort"`
}

// think translates the reasoning of a request.
func think(ask *api.Ask, effort *string, r *reasoning, vars map[string]any) error {
	ask.Template("chat_template_kwargs", vars)
	param := "reasoning_effort"
	if effort == nil && r != nil {
		effort, param = r.Effort, "reasoning.effort"
	}
	if effort == nil {
		return nil
	}
	return ask.Effort(param, *effort)
}

// ask translates a request.
func (q *chatRequest) ask(s *api.Server) (*api.Ask, error) {
	m, err := s.Model(q.Model)
	if err != nil {
		return nil, err
	}
	ask := &api.Ask{Model: m, Single: q.Parallel != nil && !*q.Parallel}
	if ask.Request.Preferences, err = q.preferences(); err != nil {
		return nil, err
	}
	if err := limit("max_completion_tokens", q.MaxOutput, &ask.Request.Preferences); err != nil {
		return nil, err
	}
	if len(q.Messages) == 0 {
		return nil, api.Invalid("messages", "messages: want at least one")
	}
	if ask.Request.Messages, ask.Foreign, err = turns(q.Messages); err != nil {
		return nil, err
	}
	if err := q.unsupported(); err != nil {
		return nil, err
	}
	if err := think(ask, q.Effort, q.Reasoning, q.Template); err != nil {
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
	api.Certainty
}

func extraOf(results ...*api.Result) *extra {
	var x extra
	for _, r := range results {
		x.Stop, x.Called = cmp.Or(x.Stop, r.Detail()), append(x.Called, r.Called...)
	}
	if len(results) == 1 { // choices differ in it
		x.Certainty = results[0].Certainty()
	}
	if x.Stop == "" && len(x.Called) == 0 && x.Confidence == nil {
		return nil
	}
	return &x
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
	asks := ask.Each(q.choices())
	scores := make([]*logprobs, len(asks))
	for i, a := range asks {
		scores[i] = q.logprobs(a)
	}
	base := completion{ID: c.Server().ID("chatcmpl-"), Object: "chat.completion", Created: c.Server().Now().Unix(), Model: ask.Model.Name()}
	if q.Stream {
		return streamChat(c, asks, base, scores, q.Options != nil && q.Options.Usage)
	}
	results, err := c.AnswerEach(asks, nil)
	if err != nil {
		return err
	}
	for i, r := range results {
		why := finish(r)
		m := &reply{Role: "assistant", Content: &r.Text, Reasoning: r.Reasoning, ToolCalls: callsOf(r.Calls, false)}
		if r.Text == "" && len(r.Calls) > 0 {
			m.Content = nil
		}
		base.Choices = append(base.Choices, choiceOf{Index: i, Message: m, Logprobs: scores[i].take(), Finish: &why})
	}
	base.Usage, base.MM = usageOf(len(results), results...), extraOf(results...)
	return c.Reply(base)
}
