package openai

import (
	"encoding/json"
	"slices"

	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/serve/api"
)

// responseRequest is the body of /v1/responses.
type responseRequest struct {
	Model        string          `json:"model"`
	Input        input           `json:"input"`
	Instructions *string         `json:"instructions"`
	Previous     *string         `json:"previous_response_id"`
	MaxTokens    *int            `json:"max_output_tokens"`
	Temperature  *float64        `json:"temperature"`
	TopP         *float64        `json:"top_p"`
	Stream       bool            `json:"stream"`
	Store        *bool           `json:"store"`
	Background   bool            `json:"background"`
	Metadata     json.RawMessage `json:"metadata"`
	Tools        []flatTool      `json:"tools"`
	ToolChoice   json.RawMessage `json:"tool_choice"`
	TopLogprobs  *int            `json:"top_logprobs"`
	Reasoning    *reasoning      `json:"reasoning"`
	Text         *struct {
		Format struct {
			Type   string          `json:"type"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"text"`
}

// flatTool describes a function without an object around it.
type flatTool struct {
	Type string `json:"type"`
	function
}

// ask translates a request, after the turns of an earlier response.
func (q *responseRequest) ask(s *api.Server, earlier []talk.Message) (*api.Ask, error) {
	m, err := s.Model(q.Model)
	if err != nil {
		return nil, err
	}
	ask := &api.Ask{Model: m}
	shared := sampling{Temperature: q.Temperature, TopP: q.TopP}
	if ask.Request.Preferences, err = shared.preferences(); err != nil {
		return nil, err
	}
	if err := limit("max_output_tokens", q.MaxTokens, &ask.Request.Preferences); err != nil {
		return nil, err
	}
	switch {
	case q.Background:
		return nil, api.Unsupported("background", "background: not supported")
	case q.TopLogprobs != nil && *q.TopLogprobs != 0:
		return nil, api.Unsupported("top_logprobs", "top_logprobs: not supported")
	}
	if err := think(ask, nil, q.Reasoning, nil); err != nil {
		return nil, err
	}
	list, err := q.Input.messages()
	if err != nil {
		return nil, err
	}
	if len(list)+len(earlier) == 0 {
		return nil, api.Invalid("input", "input: want at least one item")
	}
	later, media, err := turns(list)
	if err != nil {
		return nil, err
	}
	if q.Instructions != nil && *q.Instructions != "" {
		ask.Request.Messages = append(ask.Request.Messages, talk.Text(talk.System, *q.Instructions))
	}
	ask.Request.Messages, ask.Foreign = append(append(ask.Request.Messages, earlier...), later...), media
	return ask, q.constrain(ask)
}

// constrain translates the tools and the format.
func (q *responseRequest) constrain(ask *api.Ask) error {
	// Agents offer tools that OpenAI runs, or in another form, in addition to functions. The
	// answer lists the tools that the model has.
	q.Tools = slices.DeleteFunc(q.Tools, func(t flatTool) bool { return t.Type != "" && t.Type != "function" })
	wrapped := make([]tool, len(q.Tools))
	for i, t := range q.Tools {
		wrapped[i] = tool{t.Type, t.function}
	}
	list, err := tools(wrapped)
	if err == nil {
		err = choose(ask, list, q.ToolChoice)
	}
	if err == nil && q.Text != nil {
		err = format(ask, q.Text.Format.Type, q.Text.Format.Schema)
	}
	return err
}

// response is an answer.
type response struct {
	ID           string          `json:"id"`
	Object       string          `json:"object"`
	Created      int64           `json:"created_at"`
	Status       string          `json:"status"`
	Model        string          `json:"model"`
	Output       []outputItem    `json:"output"`
	Error        any             `json:"error"`
	Incomplete   any             `json:"incomplete_details"`
	Instructions *string         `json:"instructions"`
	Metadata     json.RawMessage `json:"metadata"`
	Parallel     bool            `json:"parallel_tool_calls"`
	Previous     *string         `json:"previous_response_id"`
	Temperature  *float64        `json:"temperature"`
	TopP         *float64        `json:"top_p"`
	MaxTokens    *int            `json:"max_output_tokens"`
	ToolChoice   json.RawMessage `json:"tool_choice"`
	Tools        []flatTool      `json:"tools"`
	Usage        *itemUsage      `json:"usage"`
}

// outputItem is a part of an answer: a message, reasoning or a call.
type outputItem struct {
	ID        string       `json:"id"`
	Type      string       `json:"type"`
	Status    string       `json:"status,omitempty"`
	Role      string       `json:"role,omitempty"`
	Content   []outputPart `json:"content,omitempty"`
	Summary   []outputPart `json:"summary,omitempty"`
	CallID    string       `json:"call_id,omitempty"`
	Name      string       `json:"name,omitempty"`
	Arguments *string      `json:"arguments,omitempty"`
}

// MarshalJSON writes the arrays that the type of the item requires, also if empty.
func (o outputItem) MarshalJSON() ([]byte, error) {
	type plain outputItem
	switch o.Type {
	case "message":
		return api.Encode(struct {
			plain
			Content []outputPart `json:"content"`
		}{plain(o), append([]outputPart{}, o.Content...)})
	case "reasoning":
		return api.Encode(struct {
			plain
			Summary []outputPart `json:"summary"`
		}{plain(o), append([]outputPart{}, o.Summary...)})
	}
	return api.Encode(plain(o))
}

type outputPart struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Annotations []any  `json:"annotations"`
	Logprobs    []any  `json:"logprobs"`
}

func textPart(text string) outputPart {
	return outputPart{Type: "output_text", Text: text, Annotations: []any{}, Logprobs: []any{}}
}

// itemUsage are the counts of an answer.
type itemUsage struct {
	Input         int            `json:"input_tokens"`
	InputDetails  map[string]int `json:"input_tokens_details"`
	Output        int            `json:"output_tokens"`
	OutputDetails map[string]int `json:"output_tokens_details"`
	Total         int            `json:"total_tokens"`
}

// newResponse returns the response of a request before its answer.
func (q *responseRequest) newResponse(c *api.Call, model string) *response {
	r := &response{
		ID: c.Server().ID("resp_"), Object: "response", Created: c.Server().Now().Unix(), Status: "in_progress", Model: model,
		Output: []outputItem{}, Instructions: q.Instructions, Metadata: q.Metadata, Parallel: true, Previous: q.Previous,
		Temperature: q.Temperature, TopP: q.TopP, MaxTokens: q.MaxTokens, ToolChoice: q.ToolChoice, Tools: q.Tools,
	}
	if len(r.Metadata) == 0 || r.Metadata[0] != '{' {
		r.Metadata = json.RawMessage("{}")
	}
	if len(r.ToolChoice) == 0 {
		r.ToolChoice = json.RawMessage(`"auto"`)
	}
	if r.Tools == nil {
		r.Tools = []flatTool{}
	}
	zero, one := 0.0, 1.0
	if r.Temperature == nil {
		r.Temperature = &zero
	}
	if r.TopP == nil {
		r.TopP = &one
	}
	return r
}

// end completes a response.
func (r *response) end(a *api.Result) {
	prompt, cached, generated := a.Usage()
	r.Usage = &itemUsage{prompt, map[string]int{"cached_tokens": cached}, generated, map[string]int{"reasoning_tokens": a.Timings.Reasoned}, prompt + generated}
	r.Status = "completed"
	if a.Finish == api.Length {
		r.Status, r.Incomplete = "incomplete", map[string]string{"reason": "max_output_tokens"}
	}
}

// read reads a request and translates it.
func (q *responseRequest) read(c *api.Call, kept *kept) (*api.Ask, error) {
	if err := c.Read(q); err != nil {
		return nil, err
	}
	var earlier []talk.Message
	if q.Previous != nil && *q.Previous != "" {
		var ok bool
		if earlier, ok = kept.get(*q.Previous, c.Key); !ok {
			return nil, api.Invalid("previous_response_id", "previous_response_id: unknown response %.80q; the server keeps the last %d", *q.Previous, maxKept)
		}
	}
	return q.ask(c.Server(), earlier)
}

// inputTokens returns the handler of /v1/responses/input_tokens.
func inputTokens(kept *kept) func(c *api.Call) error {
	return func(c *api.Call) error {
		var q responseRequest
		ask, err := q.read(c, kept)
		if err != nil {
			return err
		}
		n, err := c.Count(ask)
		if err != nil {
			return err
		}
		return c.Reply(map[string]any{"object": "response.input_tokens", "input_tokens": n})
	}
}

// respond returns the handler of /v1/responses.
func respond(kept *kept) func(c *api.Call) error {
	return func(c *api.Call) error {
		var q responseRequest
		ask, err := q.read(c, kept)
		if err != nil {
			return err
		}
		w := &itemWriter{c: c, response: q.newResponse(c, ask.Model.Name())}
		a, err := w.answer(ask, q.Stream)
		if err == nil && a != nil && (q.Store == nil || *q.Store) {
			turns := ask.Request.Messages
			if q.Instructions != nil && *q.Instructions != "" {
				turns = turns[1:] // they are of one request
			}
			kept.put(w.response.ID, c.Key, append(turns[:len(turns):len(turns)], a.Turns()...))
		}
		return err
	}
}
