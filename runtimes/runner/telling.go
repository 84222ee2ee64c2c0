package runner

import (
	"errors"
	"strings"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes/talk"
)

// errStopped ends a generation at a stop text.
var errStopped = errors.New("a stop text")

// telling is an answer in the course of being read.
type telling struct {
	answer *Answer
	reader *talk.Reader
	emit   func(text string) error

	start, first, last time.Time
	text, reasoning    strings.Builder
}

// token takes the next token.
func (t *telling) token(id int32) error {
	t.last = time.Now()
	if t.first.IsZero() {
		t.first = t.last
	}
	t.answer.Tokens = append(t.answer.Tokens, id)
	if err := t.add(t.reader.Next(id)); err != nil {
		return err
	}
	if t.reader.Stopped() {
		return errStopped
	}
	return nil
}

func (t *telling) add(d talk.Delta) error {
	t.text.WriteString(d.Text)
	t.reasoning.WriteString(d.Reasoning)
	if d.Call != nil {
		t.answer.Calls = append(t.answer.Calls, *d.Call)
	}
	if d.Text == "" || t.emit == nil {
		return nil
	}
	if err := t.emit(d.Text); err != nil {
		t.emit = nil // whoever listened has gone
		return err
	}
	return nil
}

// end fills the answer with what was read.
func (t *telling) end() error {
	err := t.add(t.reader.End())
	a := t.answer
	a.Text, a.Reasoning = t.text.String(), t.reasoning.String()
	a.Timings.Generated = len(a.Tokens)
	if !t.first.IsZero() {
		a.Timings.FirstToken, a.Timings.Generate = t.first.Sub(t.start), t.last.Sub(t.first)
	}
	return err
}

func onlyText(parts []talk.Part) bool {
	for _, p := range parts {
		if p.Type != abi.Text && p.Type != "" {
			return false
		}
	}
	return true
}

// joined is texts, a line for each.
func joined(parts []talk.Part) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = p.Text
	}
	return strings.Join(texts, "\n")
}
