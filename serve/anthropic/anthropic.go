// Package anthropic translates the messages of Anthropic's HTTP API.
package anthropic

import (
	"encoding/json"
	"net/http"

	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/serve/api"
)

// Mount adds the routes of the API to a server.
func Mount(s *api.Server) {
	s.Shape("/v1/messages", envelope)
	s.Handle(
		api.Route{Method: "POST", Pattern: "/v1/messages", Serve: messages},
		api.Route{Method: "POST", Pattern: "/v1/messages/count_tokens", Serve: countTokens},
	)
}

// kinds are the kinds of errors by status.
var kinds = map[int]string{
	http.StatusUnauthorized: "authentication_error", http.StatusForbidden: "permission_error", http.StatusNotFound: "not_found_error",
	http.StatusRequestEntityTooLarge: "request_too_large", http.StatusTooManyRequests: "rate_limit_error",
	http.StatusInternalServerError: "api_error", http.StatusServiceUnavailable: "overloaded_error",
}

// envelope returns the body of an error.
func envelope(e *api.Error) any {
	kind := kinds[e.Status]
	if kind == "" {
		kind = "invalid_request_error"
	}
	return map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": e.Message}}
}

// block is a part of an answer.
type block struct {
	Type     string          `json:"type"`
	Text     *string         `json:"text,omitempty"`
	Thinking *string         `json:"thinking,omitempty"`
	Sign     *string         `json:"signature,omitempty"`
	ID       string          `json:"id,omitempty"`
	Name     string          `json:"name,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"`
}

// answer is a message of the model.
type answer struct {
	ID           string  `json:"id"`
	Type         string  `json:"type"`
	Role         string  `json:"role"`
	Model        string  `json:"model"`
	Content      []block `json:"content"`
	StopReason   *string `json:"stop_reason"`
	StopSequence *string `json:"stop_sequence"`
	Usage        usage   `json:"usage"`
}

// usage are the counts of an answer.
type usage struct {
	Input   int `json:"input_tokens"`
	Created int `json:"cache_creation_input_tokens"`
	Cached  int `json:"cache_read_input_tokens"`
	Output  int `json:"output_tokens"`
}

func usageOf(r *api.Result) usage {
	prompt, cached, generated := r.Usage()
	return usage{Input: prompt - cached, Cached: cached, Output: generated}
}

// stopReason returns the reason of an answer's end in the words of the API.
func stopReason(r *api.Result) *string {
	why := "end_turn"
	switch {
	case r.Finish == api.Length:
		why = "max_tokens"
	case r.Finish == api.Called:
		why = "tool_use"
	case r.StopWord():
		why = "stop_sequence"
	}
	return &why
}

// stopSequence returns the stop string that ended an answer, or nil.
func stopSequence(r *api.Result) *string {
	if r.Finish != api.Stopped || !r.StopWord() {
		return nil
	}
	return &r.StopText
}

func toolUse(c talk.Call, input json.RawMessage) block {
	return block{Type: "tool_use", ID: c.ID, Name: c.Name, Input: input}
}

// countTokens answers the tokens of the prompt of a message.
func countTokens(c *api.Call) error {
	var q request
	if err := c.Read(&q); err != nil {
		return err
	}
	ask, err := q.ask(c.Server())
	if err != nil {
		return err
	}
	n, err := c.Count(ask)
	if err != nil {
		return err
	}
	return c.Reply(map[string]int{"input_tokens": n})
}

func messages(c *api.Call) error {
	var q request
	if err := c.Read(&q); err != nil {
		return err
	}
	if q.MaxTokens == nil {
		return api.Invalid("max_tokens", "max_tokens: missing")
	}
	ask, err := q.ask(c.Server())
	if err != nil {
		return err
	}
	base := answer{ID: c.Server().ID("msg_"), Type: "message", Role: "assistant", Model: ask.Model.Name(), Content: []block{}}
	if q.Stream {
		return stream(c, ask, base)
	}
	r, err := c.Answer(ask, nil)
	if err != nil {
		return err
	}
	if r.Reasoning != "" {
		base.Content = append(base.Content, block{Type: "thinking", Thinking: &r.Reasoning, Sign: new(string)})
	}
	if r.Text != "" || len(r.Calls) == 0 {
		base.Content = append(base.Content, block{Type: "text", Text: &r.Text})
	}
	for _, one := range r.Calls {
		base.Content = append(base.Content, toolUse(one, one.Arguments))
	}
	base.StopReason, base.StopSequence, base.Usage = stopReason(r), stopSequence(r), usageOf(r)
	return c.Reply(base)
}
