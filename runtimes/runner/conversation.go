package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"mm-abi.org/mm/runtimes/talk"
)

// Conversation is the turns so far between a user and a build. It is not safe
// for concurrent use; conversations of one Runner are independent.
type Conversation struct {
	Runner       *Runner
	Preferences  Preferences
	ToolsAllowed []string // as in a [Request]

	system   string
	messages []talk.Message
	shown    []talk.Part // that the next turn begins with
}

// System tells the model how to behave; "" takes that back.
func (c *Conversation) System(text string) { c.system = text }

// Show puts a picture, a sound or a film before the words of the next turn.
func (c *Conversation) Show(p talk.Part) { c.shown = append(c.shown, p) }

// Reset forgets all turns but what System said, and what Show has put there.
func (c *Conversation) Reset() { c.messages, c.shown = nil, nil }

// Messages are the turns, what System said first.
func (c *Conversation) Messages() []talk.Message {
	var out []talk.Message
	if c.system != "" {
		out = append(out, talk.Text(talk.System, c.system))
	}
	return append(out, c.messages...)
}

// Ask says something, behind what Show has put there, and has it answered. An answer that was cut short stays
// in the conversation as far as it came; with nothing said, so does the
// question not.
func (c *Conversation) Ask(ctx context.Context, text string, emit func(text string) error) (*Answer, error) {
	turn := talk.Text(talk.User, text)
	turn.Parts, c.shown = append(c.shown, turn.Parts...), nil
	asked := append(c.Messages(), turn)
	a, err := c.Runner.Answer(ctx, Request{Messages: asked, Preferences: c.Preferences, ToolsAllowed: c.ToolsAllowed}, emit)
	if a == nil || err != nil && len(a.Tokens) == 0 {
		return a, err
	}
	c.messages = append(append(c.messages, asked[len(asked)-1]), a.Messages()...)
	return a, err
}

// The limits of a conversation that is read.
const (
	maxSaved = 16 << 20 // bytes
	maxTurns = 1 << 14
)

// saved is a conversation on disk.
type saved struct {
	Version  int            `json:"version"`
	Messages []talk.Message `json:"messages"`
}

// Save writes the conversation as JSON.
func (c *Conversation) Save(w io.Writer) error {
	messages := c.Messages()
	if messages == nil {
		messages = []talk.Message{}
	}
	data, err := json.MarshalIndent(saved{1, messages}, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the conversation: %w", err)
	}
	if _, err := w.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("writing the conversation: %w", err)
	}
	return nil
}

// Restore takes up a conversation that was saved. It may come from a stranger;
// one that is not understood is an error and changes nothing.
func (c *Conversation) Restore(r io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(r, maxSaved+1))
	if err != nil {
		return fmt.Errorf("reading the conversation: %w", err)
	}
	if len(data) > maxSaved {
		return fmt.Errorf("reading the conversation: it is larger than %d bytes", maxSaved)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var s saved
	if err := dec.Decode(&s); err != nil {
		return fmt.Errorf("reading the conversation: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("reading the conversation: data after its end")
	}
	if s.Version != 1 {
		return fmt.Errorf("reading the conversation: version %d, only 1 is known", s.Version)
	}
	if len(s.Messages) > maxTurns {
		return fmt.Errorf("reading the conversation: %d turns, the limit is %d", len(s.Messages), maxTurns)
	}
	if err := talk.Check(s.Messages); err != nil {
		return fmt.Errorf("reading the conversation: %w", err)
	}
	for _, m := range s.Messages {
		for i, call := range m.Calls { // as the model wrote it, not as the file is laid out
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
	return nil
}
