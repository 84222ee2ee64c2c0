package hosted

import (
	"encoding/json"
	"net/http"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes/talk"
)

// openaiURL is that of OpenAI's own server, which wants other names of some fields than the
// servers that imitate it.
const openaiURL = "https://api.openai.com/v1"

// openai is the form of OpenAI's chat completions.
type openai struct{}

func (openai) authorize(h http.Header, key string) {
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
}

func (openai) request(m *Model, x *exchange) (string, any, error) {
	body := map[string]any{"model": m.opt.Model, "stream": true, "stream_options": map[string]bool{"include_usage": true}}
	var messages []any
	for _, t := range x.turns {
		one, err := openaiTurn(t)
		if err != nil {
			return "", nil, err
		}
		messages = append(messages, one)
	}
	body["messages"] = messages
	p := x.prefs
	limit := "max_tokens"
	if m.url == openaiURL {
		limit = "max_completion_tokens"
	}
	if p.MaxTokens > 0 {
		body[limit] = p.MaxTokens
	}
	if p.Temperature > 0 {
		body["temperature"] = p.Temperature
	}
	if p.TopP > 0 && p.TopP < 1 {
		body["top_p"] = p.TopP
	}
	if p.Seed != 0 {
		body["seed"] = p.Seed
	}
	if len(p.Stop) > 0 {
		body["stop"] = p.Stop
	}
	var tools []any
	for _, d := range x.tools {
		tools = append(tools, map[string]any{"type": "function", "function": d})
	}
	if tools != nil {
		body["tools"] = tools
	}
	return "/chat/completions", body, nil
}

// openaiTurn returns a turn as a message.
func openaiTurn(t talk.Message) (map[string]any, error) {
	one := map[string]any{"role": t.Role, "content": textOf(t)}
	if t.Role == talk.Tool {
		one["tool_call_id"] = t.CallID
		return one, nil
	}
	var calls []any
	for _, c := range t.Calls {
		calls = append(calls, map[string]any{"id": c.ID, "type": "function", "function": map[string]any{"name": c.Name, "arguments": string(c.Arguments)}})
	}
	if calls != nil {
		one["tool_calls"] = calls
	}
	if plain(t) {
		return one, nil
	}
	var parts []any
	for _, p := range t.Parts {
		switch p.Type {
		case abi.Text, "":
			parts = append(parts, map[string]any{"type": "text", "text": p.Text})
		case abi.Audio:
			f, err := mediumOf(p, OpenAI, "audio/wav", "audio/mpeg")
			if err != nil {
				return nil, err
			}
			format := map[string]string{"audio/wav": "wav", "audio/mpeg": "mp3"}[f.kind]
			parts = append(parts, map[string]any{"type": "input_audio", "input_audio": map[string]string{"data": f.data, "format": format}})
		default:
			f, err := mediumOf(p, OpenAI, pictures...)
			if err != nil {
				return nil, err
			}
			parts = append(parts, map[string]any{"type": "image_url", "image_url": map[string]string{"url": "data:" + f.kind + ";base64," + f.data}})
		}
	}
	one["content"] = parts
	return one, nil
}

func (openai) event(x *exchange, data []byte) (bool, error) {
	var e struct {
		Choices []struct {
			Delta struct {
				Content   string `json:"content"`
				Refusal   string `json:"refusal"`
				Reasoning string `json:"reasoning"`
				Thought   string `json:"reasoning_content"`
				Calls     []struct {
					Index    *int   `json:"index"`
					ID       string `json:"id"`
					Function struct {
						Name      string `json:"name"`
						Arguments string `json:"arguments"`
					} `json:"function"`
				} `json:"tool_calls"`
			} `json:"delta"`
			Finish string `json:"finish_reason"`
		} `json:"choices"`
		Usage *struct {
			Prompt    int `json:"prompt_tokens"`
			Generated int `json:"completion_tokens"`
			Details   struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return false, err
	}
	if e.Usage != nil {
		x.usage = usage{e.Usage.Prompt, e.Usage.Details.Cached, e.Usage.Generated}
	}
	for _, c := range e.Choices[:min(1, len(e.Choices))] {
		for _, text := range []string{c.Delta.Content, c.Delta.Refusal} {
			if err := x.write(text); err != nil {
				return false, err
			}
		}
		for _, text := range []string{c.Delta.Reasoning, c.Delta.Thought} {
			if err := x.think(text); err != nil {
				return false, err
			}
		}
		for _, part := range c.Delta.Calls {
			i := len(x.calls) // a server without indexes sends whole calls
			if part.Index != nil {
				i = *part.Index
			}
			one, err := x.call(i)
			if err != nil {
				return false, err
			}
			if part.ID != "" {
				one.id = part.ID
			}
			if err := x.argue(one, part.Function.Name, part.Function.Arguments); err != nil {
				return false, err
			}
		}
		x.ended(c.Finish)
	}
	return false, nil // [DONE] follows
}
