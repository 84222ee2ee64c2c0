package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"mm-abi.org/mm/runtimes/talk"
)

// Answerer answers requests: a [Runner], or a model of another server.
type Answerer interface {
	Answer(ctx context.Context, req Request, emit func(text string) error) (*Answer, error)
}

// Conversation is the sequence of turns between a user and a build. It is not safe for
// concurrent use; conversations of one Runner are independent.
type Conversation struct {
	Runner       Answerer
	Preferences  Preferences
	ToolsAllowed []string // as in a [Request]
	Assets       []Asset  // as in a [Request]
	Model        string   // that Save names; may be empty

	system   string
	messages []talk.Message
	shown    []talk.Part // parts that begin the next turn
}

// System sets the system message; if empty, it is removed.
func (c *Conversation) System(text string) { c.system = text }

// Show adds an image, a sound or a video to the start of the next turn.
func (c *Conversation) Show(p talk.Part) { c.shown = append(c.shown, p) }

// Reset drops all turns except the system message, and the parts that Show added.
func (c *Conversation) Reset() { c.messages, c.shown = nil, nil }

// Messages returns the turns, the system message first.
func (c *Conversation) Messages() []talk.Message {
	var out []talk.Message
	if c.system != "" {
		out = append(out, talk.Text(talk.System, c.system))
	}
	return append(out, c.messages...)
}

// Ask sends a text, after the parts that Show added, and returns the answer. A truncated
// answer stays in the conversation; if it is empty, the question is removed.
func (c *Conversation) Ask(ctx context.Context, text string, emit func(text string) error) (*Answer, error) {
	return c.Turn(ctx, Request{Inputs: talk.Text(talk.User, text).Parts, Preferences: c.Preferences, ToolsAllowed: c.ToolsAllowed, Assets: c.Assets}, emit)
}

// Turn is Ask with a request: its inputs and its own options.
func (c *Conversation) Turn(ctx context.Context, req Request, emit func(text string) error) (*Answer, error) {
	turn := talk.Message{Role: talk.User, Parts: append(c.shown, req.Inputs...)}
	c.shown = nil
	turns := append(c.Messages(), turn)
	req.Inputs, req.Messages = nil, turns
	a, err := c.Runner.Answer(ctx, req, emit)
	if a == nil || err != nil && len(a.Tokens) == 0 {
		return a, err
	}
	c.messages = append(append(c.messages, turns[len(turns)-1]), a.Messages()...)
	return a, err
}

// The limits of a saved conversation.
const (
	maxSaved = 16 << 20 // bytes
	maxTurns = 1 << 14
)

// saved is the file of a conversation.
type saved struct {
	Version  int            `json:"version"`
	Model    string         `json:"model,omitempty"`
	Messages []talk.Message `json:"messages"`
}

// Save writes the conversation as JSON, unless Restore would refuse it.
func (c *Conversation) Save(w io.Writer) error {
	messages := c.Messages()
	if messages == nil {
		messages = []talk.Message{}
	}
	data, err := json.MarshalIndent(saved{1, c.Model, messages}, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the conversation: %w", err)
	}
	if len(data) >= maxSaved || len(messages) > maxTurns {
		return fmt.Errorf("writing the conversation: got %d bytes, %d turns, limits %d, %d", len(data)+1, len(messages), maxSaved, maxTurns)
	}
	if _, err := w.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("writing the conversation: %w", err)
	}
	return nil
}

// Restore reads a saved conversation, which is untrusted. On an error it changes nothing.
func (c *Conversation) Restore(r io.Reader) error {
	_, err := c.RestoreFrom(r)
	return err
}

// RestoreFrom is Restore, and returns the Model that saved the conversation.
func (c *Conversation) RestoreFrom(r io.Reader) (model string, err error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSaved+1))
	if err != nil {
		return "", fmt.Errorf("reading the conversation: %w", err)
	}
	if len(data) > maxSaved {
		return "", fmt.Errorf("reading the conversation: more than %d bytes", maxSaved)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var s saved
	if err := dec.Decode(&s); err != nil {
		return "", fmt.Errorf("reading the conversation: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return "", fmt.Errorf("reading the conversation: trailing data")
	}
	if s.Version != 1 {
		return "", fmt.Errorf("reading the conversation: unsupported version %d, want 1", s.Version)
	}
	if len(s.Messages) > maxTurns {
		return "", fmt.Errorf("reading the conversation: %d turns, limit %d", len(s.Messages), maxTurns)
	}
	if err := talk.Check(s.Messages); err != nil {
		return "", fmt.Errorf("reading the conversation: %w", err)
	}
	for _, m := range s.Messages {
		for i, call := range m.Calls { // as the model wrote it, without the file's formatting
			var b bytes.Buffer
			if err := json.Compact(&b, call.Arguments); err == nil {
				m.Calls[i].Arguments = b.Bytes()
			}
		}
	}
	system := ""
	if len(s.Messages) > 0 && s.Messages[0].Role == talk.System && len(s.Messages[0].Parts) == 1 {
		system, s.Messages = s.Messages[0].Parts[0].Text, s.Messages[1:]
	}
	c.system, c.messages = system, s.Messages
	return s.Model, nil
}
