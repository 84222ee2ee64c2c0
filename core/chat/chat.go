// Package chat turns a conversation into the text a model was trained on, by
// the chat template that comes with the model.
//
// A template is a program in Jinja, written by whoever made the file. It is
// run by an interpreter for the part of the language that templates use:
// text, expressions, if, for, set, macro, filters, tests, the string, list
// and dict methods of Python. There is nothing else to reach: no attributes
// beyond data, no files, no imports, no clock, no reflection. Time, output and
// nesting are bounded, each by an error of its own.
//
// [Parse] compiles a template, [Template.Render] runs it; [Render] does both.
// What is rendered is what Hugging Face's apply_chat_template gives with the
// same template (Jinja 3.1 with trim_blocks and lstrip_blocks).
package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The limits of a template and of its run.
const (
	maxTemplate = 64 << 10 // bytes of source
	maxOutput   = 4 << 20  // bytes of text, also of any one string
	maxSteps    = 2 << 20  // expressions evaluated, bytes moved counting too
	maxItems    = 1 << 17  // elements of a list or a dict
	maxNesting  = 100      // blocks and expressions within each other
	maxCalls    = 50       // macros within each other
)

// The errors for what a template may not do. Errors wrap them.
var (
	ErrTemplate = errors.New("the template is larger than 64 KiB")
	ErrOutput   = errors.New("the template makes more than 4 MiB of text")
	ErrSteps    = errors.New("the template takes too many steps")
	ErrItems    = errors.New("the template makes too long a list")
	ErrNesting  = errors.New("the template is nested too deep")
	// ErrSyntax wraps what is not understood: wrong, or outside of the subset.
	ErrSyntax = errors.New("syntax")
	// ErrNone says that a model has no template.
	ErrNone = errors.New("the model has no chat template")
)

// RaisedError is what a template says by raise_exception: it refuses the
// conversation.
type RaisedError struct{ Message string }

// Error gives the template's own words.
func (e *RaisedError) Error() string { return "the chat template refuses: " + e.Message }

// Message is one turn of a conversation.
type Message struct {
	Role    string // "system", "user", "assistant", "tool"
	Content string
	// Parts replace Content where a turn has more than text.
	Parts []Part
	// ToolCalls are what an assistant called.
	ToolCalls []ToolCall
	// Name and ToolCallID say what a tool's turn answers; "" leaves them out.
	Name, ToolCallID string
	// Reasoning is the thought before an answer; "" leaves it out.
	Reasoning string
}

// Part is text, or a place for an image or a sound.
type Part struct {
	Type string // "text", "image", "audio"
	Text string // of a text
}

// ToolCall is a call of a tool.
type ToolCall struct {
	ID, Name string
	// Arguments is a JSON object.
	Arguments json.RawMessage
}

// Options says what a template is given besides the messages.
type Options struct {
	// AddGenerationPrompt ends the text where the assistant begins to speak.
	AddGenerationPrompt bool
	// BOS and EOS are the texts of the tokens that begin and end a sequence.
	BOS, EOS string
	// Tools are JSON objects that describe the tools; nil for none.
	Tools []json.RawMessage
	// Vars are further variables, such as enable_thinking: of the types that
	// encoding/json decodes into.
	Vars map[string]any
	// Now is the time that strftime_now gives; the function is not there when
	// it is zero, so that the same conversation gives the same text.
	Now time.Time
	// ChatML renders the widely used ChatML form when the template is "". The
	// zero value makes that [ErrNone]: a model that was trained on another
	// form answers badly, and nobody knows why.
	ChatML bool
}

// chatML is the form of ChatML: every turn between <|im_start|> and <|im_end|>.
const chatML = `{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}` +
	`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

// Template is a compiled template, safe for use by several goroutines.
type Template struct{ body []stmt }

// Render compiles a template and renders a conversation.
func Render(template string, messages []Message, opt Options) (string, error) {
	if template == "" {
		if !opt.ChatML {
			return "", fmt.Errorf("chat: %w", ErrNone)
		}
		template = chatML
	}
	t, err := Parse(template)
	if err != nil {
		return "", err
	}
	return t.Render(messages, opt)
}

// Parse compiles a template.
func Parse(source string) (*Template, error) {
	if len(source) > maxTemplate {
		return nil, fmt.Errorf("chat: %w", ErrTemplate)
	}
	tokens, err := lex(source)
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	p := &parser{tokens: tokens}
	body, err := p.blocks()
	if err == nil && p.peek().kind != tokenEOF {
		err = p.unexpected()
	}
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	return &Template{body}, nil
}

// Render gives the text of a conversation.
func (t *Template) Render(messages []Message, opt Options) (string, error) {
	vars, err := globals(messages, opt)
	if err != nil {
		return "", fmt.Errorf("chat: %w", err)
	}
	var out strings.Builder
	r := &run{out: &out, scope: &scope{vars: make(map[string]value), up: &scope{vars: vars}}}
	if err := r.all(t.body); err != nil {
		return "", fmt.Errorf("chat: %w", err)
	}
	return out.String(), nil
}

// globals builds what a template can see.
func globals(messages []Message, opt Options) (map[string]value, error) {
	vars := maps.Clone(functions)
	vars["add_generation_prompt"] = opt.AddGenerationPrompt
	vars["bos_token"], vars["eos_token"] = opt.BOS, opt.EOS
	vars["tools"], vars["documents"] = nil, nil
	if !opt.Now.IsZero() {
		vars["strftime_now"] = strftimeNow(opt.Now)
	}
	for _, name := range slices.Sorted(maps.Keys(opt.Vars)) {
		v, err := fromGo(opt.Vars[name], 0)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", name, err)
		}
		vars[name] = v
	}
	if opt.Tools != nil {
		tools := &list{}
		for i, raw := range opt.Tools {
			v, err := fromJSON(raw)
			if err != nil {
				return nil, fmt.Errorf("tool %d: %w", i, err)
			}
			tools.items = append(tools.items, v)
		}
		vars["tools"] = tools
	}
	turns := &list{}
	for i, m := range messages {
		v, err := m.value()
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		turns.items = append(turns.items, v)
	}
	vars["messages"] = turns
	return vars, nil
}

// value is the message as templates see it.
func (m Message) value() (value, error) {
	d := newDict("role", m.Role, "content", m.Content)
	if m.Parts != nil {
		parts := &list{}
		for _, p := range m.Parts {
			part := newDict("type", p.Type)
			if p.Type == "text" {
				part.set("text", p.Text)
			}
			parts.items = append(parts.items, part)
		}
		d.set("content", parts)
	}
	for _, field := range []struct{ key, text string }{
		{"name", m.Name}, {"tool_call_id", m.ToolCallID}, {"reasoning_content", m.Reasoning},
	} {
		if field.text != "" {
			d.set(field.key, field.text)
		}
	}
	if len(m.ToolCalls) > 0 {
		calls := &list{}
		for _, c := range m.ToolCalls {
			args, err := fromJSON(c.Arguments)
			if err != nil {
				return nil, fmt.Errorf("arguments of %s: %w", c.Name, err)
			}
			call := newDict("type", "function", "function", newDict("name", c.Name, "arguments", args))
			if c.ID != "" {
				call.set("id", c.ID)
			}
			calls.items = append(calls.items, call)
		}
		d.set("tool_calls", calls)
	}
	return d, nil
}
