package talk

import (
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/chat"
	"mm-abi.org/mm/core/tokenizer"
)

// Channels returns the tokens of harmony before a role, before the name of a channel and
// before the content of a message, or None for all.
func (t *Talk) Channels() (start, channel, content int32) { return t.start, t.channel, t.content }

// splitCalls returns a conversation in which each turn has one call, followed by its
// result, and no other words than its reasoning: templates of harmony write no more.
func splitCalls(messages []Message) (out []Message) {
	for i := 0; i < len(messages); i++ {
		m := messages[i]
		if len(m.Calls) == 0 {
			out = append(out, m)
			continue
		}
		var results []Message
		for ; i+1 < len(messages) && messages[i+1].Role == Tool; i++ {
			results = append(results, messages[i+1])
		}
		calls, thoughts := m.Calls, reasoningOf(m)
		for k, c := range calls {
			m.Calls, m.Parts, m.Reasoning = []Call{c}, nil, ""
			if k == 0 {
				m.Reasoning = thoughts
			}
			out = append(out, m)
			if at := resultOf(c, results); at >= 0 {
				out = append(out, results[at])
				results = append(results[:at:at], results[at+1:]...)
			}
		}
		out = append(out, results...)
	}
	return out
}

// reasoningOf returns the reasoning of a turn with calls and its words.
func reasoningOf(m Message) string {
	words := []string{m.Reasoning}
	for _, p := range m.Parts {
		if p.Type == abi.Text || p.Type == "" {
			words = append(words, p.Text)
		}
	}
	return strings.TrimSpace(strings.Join(words, "\n"))
}

// resultOf returns the index of the result of a call: the one with its id, or the first.
func resultOf(c Call, results []Message) int {
	for i, r := range results {
		if r.CallID == c.ID {
			return i
		}
	}
	return min(0, len(results)-1)
}

// mayBeHeader reports whether text after the role may be the rest of a header.
func mayBeHeader(text string) bool {
	text = strings.TrimLeft(text, " ")
	return strings.HasPrefix("to=", text) || strings.HasPrefix(text, "to=")
}

// beginsInHeader reports whether answers begin within the header of a message.
func (t *Talk) beginsInHeader() bool {
	return t.dialect.Form == chat.Channel && t.channel != tokenizer.None && t.template != nil
}
