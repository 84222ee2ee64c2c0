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

// ReadChat yields the text of every line of r, a JSON object with "messages" as
// chat interfaces take them (role, content, tool_calls, tool_call_id, name) and
// maybe "tools", in the form of the model's template. What the assistant says is
// learnt; everything else, and what the template writes before it speaks, is
// given. opt's tools and generation prompt are not heeded. A conversation
// without an assistant, or whose earlier text changes with a later turn, is an
// error, which ends the sequence.
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

// document renders a conversation turn by turn: an assistant's turn is what its
// message adds to the text that asks for it.
func (c conversation) document(template *chat.Template, opt chat.Options) (Document, error) {
	opt.Tools = c.Tools
	messages := c.turns()
	var d Document
	said := 0 // end of what the assistant said last
	for i, m := range messages {
		if m.Role != "assistant" {
			continue
		}
		opt.AddGenerationPrompt = true
		asked, err := template.Render(messages[:i], opt)
		if err != nil {
			return Document{}, err
		}
		opt.AddGenerationPrompt = false
		text, err := template.Render(messages[:i+1], opt)
		if err != nil {
			return Document{}, err
		}
		if !strings.HasPrefix(text, asked) || !strings.HasPrefix(text, d.Text) {
			return Document{}, fmt.Errorf("the template writes what comes before message %d otherwise when the message is there", i+1)
		}
		d.give(said, len(asked))
		d.Text, said = text, len(text)
	}
	if said == 0 {
		return Document{}, errors.New("no message is the assistant's, so there is nothing to learn")
	}
	return d, nil
}

// turns are the messages as templates take them.
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

// arguments is the JSON object of a call, which many write as a string of JSON.
func arguments(raw json.RawMessage) json.RawMessage {
	var text string
	if json.Unmarshal(raw, &text) == nil && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return raw
}
