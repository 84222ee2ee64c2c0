package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"mm-abi.org/mm/core/chat"
)

// conversation is a line of chat data.
type conversation struct {
	Messages []struct {
		Role       string  `json:"role"`
		Content    *string `json:"content"`
		Name       string  `json:"name"`
		ToolCallID string  `json:"tool_call_id"`
		ToolCalls  []struct {
			ID       string `json:"id"`
			Function struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"messages"`
	Tools []json.RawMessage `json:"tools"`
}

// ReadChat yields the text of every line of r, a JSON object with "messages" in
// the form of chat interfaces (role, content, tool_calls, tool_call_id, name)
// and optionally "tools", rendered by the model's template. The assistant's
// messages are learned; the rest is context. opt's tools and generation prompt
// are ignored. A conversation without an assistant, or whose text changes with
// a later turn, is an error, which ends the sequence.
func ReadChat(r io.Reader, template *chat.Template, opt chat.Options, f Filter) iter.Seq2[Document, error] {
	return lines(r, func(line []byte) (Document, bool, error) {
		var c conversation
		if err := json.Unmarshal(line, &c); err != nil {
			return Document{}, false, err
		}
		doc, err := c.document(template, opt)
		if err != nil {
			return Document{}, false, err
		}
		doc.trim()
		return doc, f.keeps(doc), nil
	})
}

// document renders a conversation turn by turn: an assistant's turn is the text
// that its message adds to the generation prompt.
func (c conversation) document(template *chat.Template, opt chat.Options) (Document, error) {
	opt.Tools = c.Tools
	messages := c.turns()
	var d Document
	learned := 0 // end of the assistant's last message
	for i, m := range messages {
		if m.Role != "assistant" {
			continue
		}
		opt.AddGenerationPrompt = true
		prompt, err := template.Render(messages[:i], opt)
		if err != nil {
			return Document{}, err
		}
		opt.AddGenerationPrompt = false
		text, err := template.Render(messages[:i+1], opt)
		if err != nil {
			return Document{}, err
		}
		if !strings.HasPrefix(text, prompt) || !strings.HasPrefix(text, d.Text) {
			return Document{}, fmt.Errorf("message %d changes the rendering of the messages before it", i+1)
		}
		d.addContext(learned, len(prompt))
		d.Text, learned = text, len(text)
	}
	if learned == 0 {
		return Document{}, errors.New("no message of the assistant")
	}
	return d, nil
}

// turns converts the messages for templates.
func (c conversation) turns() []chat.Message {
	var all []chat.Message
	for _, m := range c.Messages {
		turn := chat.Message{Role: m.Role, Name: m.Name, ToolCallID: m.ToolCallID}
		if m.Content != nil {
			turn.Content = *m.Content
		}
		for _, t := range m.ToolCalls {
			turn.ToolCalls = append(turn.ToolCalls, chat.ToolCall{ID: t.ID, Name: t.Function.Name, Arguments: arguments(t.Function.Arguments)})
		}
		all = append(all, turn)
	}
	return all
}

// arguments returns the JSON object of a call's arguments, which may be encoded
// as a JSON string.
func arguments(raw json.RawMessage) json.RawMessage {
	var text string
	if json.Unmarshal(raw, &text) == nil && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return raw
}
