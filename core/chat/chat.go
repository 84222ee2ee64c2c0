// Package chat renders a conversation with the chat template of a model, as the
// model was trained.
//
// A template is an untrusted program in Jinja; package [jinja] runs it in a
// sandbox. [Parse] compiles one, and [Template.Render] renders a conversation.
// The text equals that of Hugging Face's apply_chat_template with the same
// template.
//
// A [Dialect] is how models write tool calls: JSON between two markers, JSON alone, or the
// content of a message whose header names the tool. A marker is a special token of the
// vocabulary, recognized by its id, or ordinary text of any number of tokens. [Detect]
// returns the dialect of a model from its chat template and special tokens; [Finder] finds
// calls in an untrusted text that arrives in pieces; [ParseCalls] parses a complete block.
package chat

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"mm-abi.org/mm/core/chat/jinja"
)

// Message is a turn of a conversation.
type Message struct {
	Role    string // "system", "user", "assistant", "tool"
	Content string
	// Parts replace Content in a turn with images or audio.
	Parts []Part
	// ToolCalls are the calls by an assistant.
	ToolCalls []ToolCall
	// Name and ToolCallID identify the call that a tool's turn answers; omitted
	// if empty.
	Name, ToolCallID string
	// Reasoning is the reasoning before an answer; omitted if empty.
	Reasoning string
	// Thinking is the reasoning before an answer or a call, for templates that call it
	// so; omitted if empty.
	Thinking string
	// Tools describes the tools in a system turn, for a template that reads them
	// there; omitted if empty.
	Tools string
}

// Part is text, or a placeholder for an image or audio.
type Part struct {
	Type string // "text", "image", "audio"
	Text string // of a text
}

// ToolCall is a call of a tool.
type ToolCall struct {
	ID, Name string
	// Arguments is a JSON object, or empty.
	Arguments json.RawMessage
}

// Options configures rendering.
type Options struct {
	// AddGenerationPrompt ends the text with the start of the assistant's turn.
	AddGenerationPrompt bool
	// BOS and EOS are the texts of the tokens that begin and end a sequence.
	BOS, EOS string
	// Tools are JSON objects that describe the tools, or nil.
	Tools []json.RawMessage
	// Vars are additional variables, such as enable_thinking: of the types that
	// encoding/json decodes into.
	Vars map[string]any
	// Now is the time of strftime_now. If zero, the function is undefined, so
	// that the same conversation gives the same text.
	Now time.Time
}

// Template is a compiled chat template, safe for concurrent use.
type Template struct{ t *jinja.Template }

// Parse compiles a template.
func Parse(source string) (*Template, error) {
	t, err := jinja.Parse(source)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	return &Template{t}, nil
}

// Render renders a conversation. A template that refuses it by raise_exception
// returns a [jinja.RaisedError], one that exceeds a limit another error of that
// package.
func (t *Template) Render(messages []Message, opt Options) (string, error) {
	text, err := t.t.Render(variables(messages, opt), jinja.Options{Now: opt.Now})
	if err != nil {
		return "", fmt.Errorf("chat template: %w", err)
	}
	return text, nil
}

// variables returns the variables of a template.
func variables(messages []Message, opt Options) map[string]any {
	vars := map[string]any{
		"messages":              turns(messages),
		"add_generation_prompt": opt.AddGenerationPrompt,
		"bos_token":             opt.BOS,
		"eos_token":             opt.EOS,
		"tools":                 nil,
		"documents":             nil,
	}
	if opt.Tools != nil {
		tools := make([]any, len(opt.Tools))
		for i, tool := range opt.Tools {
			tools[i] = tool
		}
		vars["tools"] = tools
	}
	maps.Copy(vars, opt.Vars)
	return vars
}

// turns converts the messages to template values.
func turns(messages []Message) []any {
	out := make([]any, len(messages))
	for i, m := range messages {
		content := any(m.Content)
		if m.Parts != nil {
			parts := make([]any, len(m.Parts))
			for j, p := range m.Parts {
				part := jinja.Object{{Key: "type", Value: p.Type}}
				if p.Type == "text" {
					part = append(part, jinja.Field{Key: "text", Value: p.Text})
				}
				parts[j] = part
			}
			content = parts
		}
		turn := jinja.Object{{Key: "role", Value: m.Role}, {Key: "content", Value: content}}
		for _, f := range []jinja.Field{{Key: "name", Value: m.Name}, {Key: "tool_call_id", Value: m.ToolCallID}, {Key: "reasoning_content", Value: m.Reasoning}, {Key: "thinking", Value: m.Thinking}, {Key: "tools", Value: m.Tools}} {
			if f.Value != "" {
				turn = append(turn, f)
			}
		}
		if len(m.ToolCalls) > 0 {
			turn = append(turn, jinja.Field{Key: "tool_calls", Value: calls(m.ToolCalls)})
		}
		out[i] = turn
	}
	return out
}

func calls(list []ToolCall) []any {
	out := make([]any, len(list))
	for i, c := range list {
		args := any(jinja.Object{})
		if len(c.Arguments) > 0 {
			args = c.Arguments
		}
		call := jinja.Object{{Key: "type", Value: "function"},
			{Key: "function", Value: jinja.Object{{Key: "name", Value: c.Name}, {Key: "arguments", Value: args}}}}
		if c.ID != "" {
			call = append(call, jinja.Field{Key: "id", Value: c.ID})
		}
		out[i] = call
	}
	return out
}
