package hosted

import (
	"cmp"
	"encoding/json"
	"net/http"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes/talk"
)

// anthropic is the form of Anthropic's messages.
type anthropic struct{}

const (
	anthropicVersion = "2023-06-01"
	anthropicTokens  = 4096 // the form requires a limit
)

func (anthropic) authorize(h http.Header, key string) {
	h.Set("Anthropic-Version", anthropicVersion)
	if key != "" {
		h.Set("X-Api-Key", key)
	}
}

func (anthropic) request(m *Model, x *exchange) (string, any, error) {
	p := x.prefs
	body := map[string]any{"model": m.opt.Model, "stream": true, "max_tokens": cmp.Or(p.MaxTokens, anthropicTokens)}
	var messages []map[string]any
	system := ""
	for _, t := range x.turns {
		if t.Role == talk.System {
			system += textOf(t)
			continue
		}
		role, blocks, err := anthropicTurn(t)
		if err != nil {
			return "", nil, err
		}
		messages = joined(messages, role, "content", blocks)
	}
	body["messages"] = messages
	if system != "" {
		body["system"] = system
	}
	if p.Temperature > 0 {
		body["temperature"] = p.Temperature
	}
	if p.TopP > 0 && p.TopP < 1 {
		body["top_p"] = p.TopP
	}
	if p.TopK > 0 {
		body["top_k"] = p.TopK
	}
	if len(p.Stop) > 0 {
		body["stop_sequences"] = p.Stop
	}
	var tools []any
	for _, d := range x.tools {
		tools = append(tools, map[string]any{"name": d.Name, "description": d.Description, "input_schema": schemaOf(d)})
	}
	if tools != nil {
		body["tools"] = tools
	}
	return "/v1/messages", body, nil
}

// schemaOf returns the schema of a tool's arguments.
func schemaOf(d talk.Definition) json.RawMessage {
	if len(d.Parameters) == 0 {
		return json.RawMessage(`{"type":"object"}`)
	}
	return d.Parameters
}

// anthropicTurn returns a turn as content blocks.
func anthropicTurn(t talk.Message) (role string, blocks []any, err error) {
	role = string(t.Role)
	if t.Role == talk.Tool {
		return "user", []any{map[string]any{"type": "tool_result", "tool_use_id": t.CallID, "content": textOf(t)}}, nil
	}
	for _, p := range t.Parts {
		if p.Type == abi.Text || p.Type == "" {
			if p.Text != "" { // an empty block is refused
				blocks = append(blocks, map[string]any{"type": "text", "text": p.Text})
			}
			continue
		}
		f, err := mediumOf(p, Anthropic, pictures...)
		if err != nil {
			return "", nil, err
		}
		blocks = append(blocks, map[string]any{"type": "image", "source": map[string]string{"type": "base64", "media_type": f.kind, "data": f.data}})
	}
	for _, c := range t.Calls {
		blocks = append(blocks, map[string]any{"type": "tool_use", "id": c.ID, "name": c.Name, "input": c.Arguments})
	}
	return role, blocks, nil
}

func (anthropic) event(x *exchange, data []byte) (bool, error) {
	var e struct {
		Type    string `json:"type"`
		Message struct {
			Usage anthropicUsage `json:"usage"`
		} `json:"message"`
		Block struct {
			Type string `json:"type"`
			ID   string `json:"id"`
			Name string `json:"name"`
			Text string `json:"text"`
		} `json:"content_block"`
		Delta struct {
			Text     string `json:"text"`
			Thinking string `json:"thinking"`
			JSON     string `json:"partial_json"`
			Stop     string `json:"stop_reason"`
		} `json:"delta"`
		Usage anthropicUsage `json:"usage"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return false, err
	}
	switch e.Type {
	case "message_start":
		u := e.Message.Usage
		x.usage = usage{u.Input + u.Read + u.Written, u.Read, u.Output}
	case "content_block_start":
		if e.Block.Type == "tool_use" {
			c, err := x.call(len(x.calls))
			if err != nil {
				return false, err
			}
			c.id = e.Block.ID
			if err := x.argue(c, e.Block.Name, ""); err != nil {
				return false, err
			}
		}
		return false, x.write(e.Block.Text)
	case "content_block_delta":
		if err := x.write(e.Delta.Text); err != nil {
			return false, err
		}
		if e.Delta.JSON != "" && len(x.calls) > 0 {
			return false, x.argue(x.calls[len(x.calls)-1], "", e.Delta.JSON)
		}
		return false, x.think(e.Delta.Thinking)
	case "message_delta":
		x.ended(e.Delta.Stop)
		x.usage.generated = e.Usage.Output
	case "message_stop":
		return true, nil
	}
	return false, nil
}

// anthropicUsage counts tokens; those of the cache are not in Input.
type anthropicUsage struct {
	Input   int `json:"input_tokens"`
	Read    int `json:"cache_read_input_tokens"`
	Written int `json:"cache_creation_input_tokens"`
	Output  int `json:"output_tokens"`
}
