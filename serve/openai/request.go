package openai

import (
	"bytes"
	"encoding/json"

	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/serve/api"
)

// sampling are the fields that chat and text completions share.
type sampling struct {
	Model       string             `json:"model"`
	Temperature *float64           `json:"temperature"`
	TopP        *float64           `json:"top_p"`
	TopK        *int               `json:"top_k"`              // of local servers
	MinP        *float64           `json:"min_p"`              // of local servers
	Repetition  *float64           `json:"repetition_penalty"` // of local servers
	Seed        *int64             `json:"seed"`
	Stop        stops              `json:"stop"`
	MaxTokens   *int               `json:"max_tokens"`
	N           *int               `json:"n"`
	Presence    *float64           `json:"presence_penalty"`
	Frequency   *float64           `json:"frequency_penalty"`
	LogitBias   map[string]float64 `json:"logit_bias"`

	Stream  bool `json:"stream"`
	Options *struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// maxChoices bounds the choices of an answer.
const maxChoices = 16

// choices returns the number of answers that the client wants.
func (q *sampling) choices() int {
	if q.N == nil {
		return 1
	}
	return *q.N
}

// stops is a string or an array of them.
type stops []string

// UnmarshalJSON reads a string, an array of strings or null.
func (s *stops) UnmarshalJSON(data []byte) error {
	switch {
	case bytes.Equal(data, []byte("null")):
		return nil
	case len(data) > 0 && data[0] == '[':
		var list []string
		if json.Unmarshal(data, &list) != nil {
			return api.Invalid("stop", "stop: want a string or an array of strings")
		}
		*s = list
		return nil
	}
	var one string
	if json.Unmarshal(data, &one) != nil {
		return api.Invalid("stop", "stop: want a string or an array of strings")
	}
	*s = stops{one}
	return nil
}

// preferences translates the fields.
func (q *sampling) preferences() (p runner.Preferences, err error) {
	for _, f := range []struct {
		name      string
		value     *float64
		low, high float64
		into      *float32
	}{
		{"temperature", q.Temperature, 0, 2, &p.Temperature}, {"top_p", q.TopP, 0, 1, &p.TopP}, {"min_p", q.MinP, 0, 1, &p.MinP},
		{"repetition_penalty", q.Repetition, 0.01, 10, &p.RepeatPenalty},
	} {
		if f.value == nil {
			continue
		}
		if !(*f.value >= f.low && *f.value <= f.high) {
			return p, api.Invalid(f.name, "%s: got %v, want %.3g to %v", f.name, *f.value, f.low, f.high)
		}
		*f.into = float32(*f.value)
	}
	if err := q.refused(); err != nil {
		return p, err
	}
	if q.TopK != nil {
		p.TopK = max(*q.TopK, 0) // -1 of other servers: all
	}
	p.Seed = api.Seed(q.Seed)
	for _, s := range q.Stop {
		if s == "" {
			return p, api.Invalid("stop", "stop: empty string")
		}
	}
	p.Stop = q.Stop
	return p, limit("max_tokens", q.MaxTokens, &p)
}

// limit sets the maximum of tokens.
func limit(name string, n *int, p *runner.Preferences) error {
	if n == nil {
		return nil
	}
	if *n < 1 {
		return api.Invalid(name, "%s: got %d, want at least 1", name, *n)
	}
	p.MaxTokens = *n
	return nil
}

// refused reports fields that would change the answer and that are not supported.
func (q *sampling) refused() error {
	if n := q.choices(); n < 1 || n > maxChoices {
		return api.Invalid("n", "n: got %d, want 1 to %d", n, maxChoices)
	}
	for name, v := range map[string]*float64{"presence_penalty": q.Presence, "frequency_penalty": q.Frequency} {
		if v != nil && *v != 0 {
			return api.Unsupported(name, "%s: got %v, want 0; repetition_penalty is supported", name, *v)
		}
	}
	if len(q.LogitBias) > 0 {
		return api.Unsupported("logit_bias", "logit_bias: not supported")
	}
	return nil
}

// tool describes a function of the client.
type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// tools translates the functions of the client.
func tools(list []tool) (out []talk.Definition, err error) {
	for i, t := range list {
		if t.Type != "function" {
			return nil, api.Unsupported("tools", "tools[%d].type: got %.40q, want function", i, t.Type)
		}
		d, err := t.Function.definition(i)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

func (f function) definition(i int) (talk.Definition, error) {
	if f.Name == "" {
		return talk.Definition{}, api.Invalid("tools", "tools[%d]: missing name", i)
	}
	params := f.Parameters
	if len(params) == 0 || bytes.Equal(params, []byte("null")) {
		params = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	if params[0] != '{' {
		return talk.Definition{}, api.Invalid("tools", "tools[%d]: parameters: want a JSON Schema", i)
	}
	return talk.Definition{Name: f.Name, Description: f.Description, Parameters: params}, nil
}

// choose applies the choice of tools to a request: auto, none, required or a name.
func choose(ask *api.Ask, list []talk.Definition, raw json.RawMessage) error {
	mode, name, err := choice(raw)
	if err != nil {
		return err
	}
	return ask.Choose(list, mode, name)
}

func choice(raw json.RawMessage) (mode, name string, err error) {
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return "auto", "", nil
	}
	if json.Unmarshal(raw, &mode) == nil {
		switch mode {
		case "auto", "none", "required":
			return mode, "", nil
		}
		return "", "", api.Invalid("tool_choice", "tool_choice: got %.40q, want auto, none, required or a function", mode)
	}
	var named struct {
		Type     string `json:"type"`
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if api.Unmarshal(raw, &named) != nil || named.Type != "function" || named.Name+named.Function.Name == "" {
		return "", "", api.Invalid("tool_choice", "tool_choice: want auto, none, required or {\"type\": \"function\", \"function\": {\"name\": …}}")
	}
	return "required", named.Function.Name + named.Name, nil
}

// format constrains an answer by the format that the client wants.
func format(ask *api.Ask, kind string, raw json.RawMessage) error {
	switch kind {
	case "", "text":
		return nil
	case "json_object":
		return ask.Constrain("response_format", api.AnyObject)
	case "json_schema":
		return ask.Constrain("response_format", raw)
	}
	return api.Unsupported("response_format", "response_format: got type %.40q, want text, json_object or json_schema", kind)
}
