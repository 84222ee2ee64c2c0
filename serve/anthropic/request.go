package anthropic

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/serve/api"
)

// request is the body of /v1/messages.
type request struct {
	Model       string    `json:"model"`
	System      content   `json:"system"`
	Messages    []message `json:"messages"`
	MaxTokens   *int      `json:"max_tokens"`
	Stop        []string  `json:"stop_sequences"`
	Stream      bool      `json:"stream"`
	Temperature *float64  `json:"temperature"`
	TopP        *float64  `json:"top_p"`
	TopK        *int      `json:"top_k"`
	Tools       []tool    `json:"tools"`
	ToolChoice  *struct {
		Type   string `json:"type"`
		Name   string `json:"name"`
		Single bool   `json:"disable_parallel_tool_use"`
	} `json:"tool_choice"`
	Thinking *struct {
		Type   string `json:"type"`
		Budget *int   `json:"budget_tokens"`
	} `json:"thinking"`
}

type message struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
}

type tool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"input_schema"`
}

// content is a text, or parts.
type content []part

type part struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	IsError   bool            `json:"is_error"`
	Content   json.RawMessage `json:"content"`
	Source    *struct {
		Type string `json:"type"`
		Data string `json:"data"`
	} `json:"source"`
}

// UnmarshalJSON reads a text, an array of parts or null.
func (c *content) UnmarshalJSON(data []byte) (err error) {
	*c, err = api.Content(data, func(text string) part { return part{Type: "text", Text: text} })
	return err
}

// ask translates a request.
func (q *request) ask(s *api.Server) (*api.Ask, error) {
	m, err := s.Model(q.Model)
	if err != nil {
		return nil, err
	}
	ask := &api.Ask{Model: m}
	if err := q.prefer(ask); err != nil {
		return nil, err
	}
	if err := q.turns(ask); err != nil {
		return nil, err
	}
	if err := q.choose(ask); err != nil {
		return nil, err
	}
	return ask, ask.GoOn()
}

// prefer translates the limits and the sampling.
func (q *request) prefer(ask *api.Ask) error {
	p := &ask.Request.Preferences
	p.Seed = api.Seed(nil) // the protocol has none
	switch {
	case q.MaxTokens != nil && *q.MaxTokens < 1:
		return api.Invalid("max_tokens", "max_tokens: got %d, want at least 1", *q.MaxTokens)
	case q.Temperature != nil && !(*q.Temperature >= 0 && *q.Temperature <= 2):
		return api.Invalid("temperature", "temperature: got %v, want 0 to 2", *q.Temperature)
	case q.TopP != nil && !(*q.TopP >= 0 && *q.TopP <= 1):
		return api.Invalid("top_p", "top_p: got %v, want 0 to 1", *q.TopP)
	}
	if p.Stop = q.Stop; q.MaxTokens != nil {
		p.MaxTokens = *q.MaxTokens
	}
	if q.Temperature != nil {
		p.Temperature = float32(*q.Temperature)
	}
	if q.TopP != nil {
		p.TopP = float32(*q.TopP)
	}
	if q.TopK != nil {
		p.TopK = max(*q.TopK, 0)
	}
	return q.think(ask)
}

// minBudget is the smallest budget of thinking that the API takes.
const minBudget = 1024

// think translates the thinking. The budget is an upper limit, which a model that does not
// reason keeps.
func (q *request) think(ask *api.Ask) error {
	if q.Thinking == nil {
		return nil
	}
	switch b := q.Thinking.Budget; q.Thinking.Type {
	case "enabled":
		switch {
		case b == nil:
			return api.Invalid("thinking", "thinking.budget_tokens: missing")
		case *b < minBudget:
			return api.Invalid("thinking", "thinking.budget_tokens: got %d, want at least %d", *b, minBudget)
		case q.MaxTokens != nil && *b >= *q.MaxTokens:
			return api.Invalid("thinking", "thinking.budget_tokens: got %d, want less than max_tokens, %d", *b, *q.MaxTokens)
		}
		ask.Reason("thinking", true, true)
		ask.Request.Thought.Most = *b
	case "disabled":
		ask.Reason("thinking", false, true)
	case "adaptive": // the model decides
	default:
		return api.Invalid("thinking", "thinking.type: got %.40q, want enabled, disabled or adaptive", q.Thinking.Type)
	}
	return nil
}

// turns translates the conversation.
func (q *request) turns(ask *api.Ask) error {
	if len(q.Messages) == 0 {
		return api.Invalid("messages", "messages: want at least one")
	}
	if len(q.System) > 0 {
		turn := talk.Message{Role: talk.System}
		for i, p := range q.System {
			if p.Type != "text" {
				return api.Invalid("system", "system[%d].type: got %.40q, want text", i, p.Type)
			}
			turn.Parts = append(turn.Parts, talk.Part{Type: abi.Text, Text: p.Text})
		}
		ask.Request.Messages = append(ask.Request.Messages, turn)
	}
	names := map[string]string{}
	for i, m := range q.Messages {
		at := fmt.Sprintf("messages[%d]", i)
		role := talk.Role(m.Role)
		if role != talk.User && role != talk.Assistant && role != talk.System {
			return api.Invalid(at+".role", "%s.role: got %.40q, want user, assistant or system", at, m.Role)
		}
		if err := turn(ask, at, role, m.Content, names); err != nil {
			return err
		}
	}
	return nil
}

// turn translates a message. The results of tools are turns before it.
func turn(ask *api.Ask, at string, role talk.Role, list content, names map[string]string) error {
	one := talk.Message{Role: role}
	results := false
	for j, p := range list {
		where := fmt.Sprintf("%s.content[%d]", at, j)
		switch p.Type {
		case "text":
			one.Parts = append(one.Parts, talk.Part{Type: abi.Text, Text: p.Text})
		case "thinking":
			one.Reasoning += p.Thinking
		case "redacted_thinking":
		case "image":
			data, err := picture(where, p)
			if err != nil {
				return err
			}
			one.Parts, ask.Foreign = append(one.Parts, talk.Part{Type: abi.Image, Data: data}), true
		case "tool_use":
			call, err := p.call(where)
			if err != nil {
				return err
			}
			names[p.ID] = p.Name
			one.Calls = append(one.Calls, call)
		case "tool_result":
			if p.ToolUseID == "" {
				return api.Invalid(where, "%s.tool_use_id: missing", where)
			}
			text, err := p.result(where)
			if err != nil {
				return err
			}
			results = true
			ask.Request.Messages = append(ask.Request.Messages, talk.Message{
				Role: talk.Tool, Name: names[p.ToolUseID], CallID: p.ToolUseID, Parts: []talk.Part{{Type: abi.Text, Text: text}},
			})
		default:
			return api.Unsupported(where, "%s.type: got %.40q, want text, image, tool_use or tool_result", where, p.Type)
		}
	}
	if len(one.Parts) > 0 || len(one.Calls) > 0 || !results {
		ask.Request.Messages = append(ask.Request.Messages, one)
	}
	return nil
}

// call translates a call of the model.
func (p *part) call(at string) (talk.Call, error) {
	args := p.Input
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if p.Name == "" || args[0] != '{' {
		return talk.Call{}, api.Invalid(at, "%s: want a name, and an object as input", at)
	}
	return talk.Call{ID: p.ID, Name: p.Name, Arguments: args}, nil
}

// result returns the text of a tool's result.
func (p *part) result(at string) (string, error) {
	var list content
	if len(p.Content) > 0 {
		if err := api.Unmarshal(p.Content, &list); err != nil {
			return "", api.Invalid(at+".content", "%s.content: want a string or an array of blocks", at)
		}
	}
	var texts []string
	for _, one := range list {
		if one.Type != "text" {
			return "", api.Unsupported(at+".content", "%s.content: got type %.40q, want text", at, one.Type)
		}
		texts = append(texts, one.Text)
	}
	text := strings.Join(texts, "\n")
	if p.IsError {
		text = "error: " + text
	}
	return text, nil
}

// picture returns the bytes of an image.
func picture(at string, p part) ([]byte, error) {
	if p.Source == nil || p.Source.Type != "base64" {
		return nil, api.Unsupported(at+".source", "%s.source: want type base64; URLs are not fetched", at)
	}
	data, err := base64.StdEncoding.DecodeString(p.Source.Data)
	if err != nil || len(data) == 0 {
		return nil, api.Invalid(at+".source.data", "%s.source.data: malformed base64", at)
	}
	return data, nil
}

// choose translates the tools.
func (q *request) choose(ask *api.Ask) error {
	var list []talk.Definition
	for i, t := range q.Tools {
		if t.Type != "" && t.Type != "custom" {
			return api.Unsupported("tools", "tools[%d].type: got %.40q, want custom", i, t.Type)
		}
		if t.Name == "" || len(t.Schema) == 0 || t.Schema[0] != '{' {
			return api.Invalid("tools", "tools[%d]: want a name, and a JSON Schema as input_schema", i)
		}
		list = append(list, talk.Definition{Name: t.Name, Description: t.Description, Parameters: t.Schema})
	}
	mode, name := "auto", ""
	if q.ToolChoice != nil {
		mode, name, ask.Single = q.ToolChoice.Type, q.ToolChoice.Name, q.ToolChoice.Single
	}
	err := ask.Choose(list, map[string]string{"auto": api.Auto, "none": api.None, "any": api.Required, "tool": api.Required}[mode], name)
	if err == nil && mode == "tool" && name == "" {
		err = api.Invalid("tool_choice", "tool_choice.name: missing")
	}
	return err
}
