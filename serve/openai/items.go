package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"mm-abi.org/mm/serve/api"
)

// input is a text, or items of a conversation.
type input []item

// item is a turn of a conversation: a message, a call or the result of one.
type item struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   content         `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
}

// UnmarshalJSON reads a text or an array of items.
func (in *input) UnmarshalJSON(data []byte) error {
	switch {
	case len(data) > 0 && data[0] == '"':
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
		*in = input{{Role: "user", Content: content{{Type: "text", Text: text}}}}
		return nil
	case len(data) > 0 && data[0] == '[':
		var list []json.RawMessage
		if err := json.Unmarshal(data, &list); err != nil {
			return err
		}
		return in.items(list)
	}
	return api.Invalid("input", "input: want a string or an array of items")
}

// items reads items. The content of reasoning has another form and is not read.
func (in *input) items(list []json.RawMessage) error {
	for _, raw := range list {
		var kind struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(raw, &kind); err != nil {
			return api.Invalid("input", "input: want an array of items")
		}
		if kind.Type == "reasoning" {
			continue
		}
		var one item
		if err := json.Unmarshal(raw, &one); err != nil {
			return err
		}
		*in = append(*in, one)
	}
	return nil
}

// messages translates items to the turns of a chat. Calls in a row are one turn.
func (in input) messages() (out []message, err error) {
	for i, one := range in {
		at := fmt.Sprintf("input[%d]", i)
		switch one.Type {
		case "", "message":
			out = append(out, message{Role: one.Role, Content: one.Content})
		case "function_call":
			c := call{ID: one.CallID}
			c.Function.Name, c.Function.Arguments = one.Name, one.Arguments
			if n := len(out); n == 0 || out[n-1].Role != "assistant" {
				out = append(out, message{Role: "assistant"})
			}
			last := &out[len(out)-1]
			last.ToolCalls = append(last.ToolCalls, c)
		case "function_call_output":
			text, err := one.output(at)
			if err != nil {
				return nil, err
			}
			out = append(out, message{Role: "tool", ToolCallID: one.CallID, Content: content{{Type: "text", Text: text}}})
		default:
			return nil, api.Unsupported(at+".type", "%s.type: got %.40q, want message, function_call or function_call_output", at, one.Type)
		}
	}
	return out, nil
}

// output returns the text of a call's result.
func (one *item) output(at string) (string, error) {
	if len(one.Output) == 0 || bytes.Equal(one.Output, []byte("null")) {
		return "", api.Invalid(at+".output", "%s.output: missing", at)
	}
	var parts content
	if err := api.Unmarshal(one.Output, &parts); err != nil {
		return "", api.Invalid(at+".output", "%s.output: want a string or an array of parts", at)
	}
	var texts []string
	for _, p := range parts {
		if p.Type != "text" && p.Type != "input_text" {
			return "", api.Unsupported(at+".output", "%s.output: got type %.40q, want input_text", at, p.Type)
		}
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "\n"), nil
}
